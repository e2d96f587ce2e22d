// Loaded into a node (LD_PRELOAD): a disk that is slow or full while a file says so. WINDLASS_DISK_FAULT names that file; it
// holds "slow" or "full" and is not there at other times.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

static char fault(void) {
    const char *path = getenv("WINDLASS_DISK_FAULT");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file) return 0;
    int first = fgetc(file);
    fclose(file);
    return first == EOF ? 0 : (char)first;
}

static void wait_if_slow(void) {
    if (fault() == 's') {
        struct timespec delay = {0, 200 * 1000 * 1000};
        nanosleep(&delay, NULL);
    }
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_if_slow();
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_if_slow();
    return real(file);
}

static ssize_t write_at(const char *name, int file, const void *bytes, size_t length, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    if (fault() == 'f') {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, length, at);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) { return write_at("pwrite", file, bytes, length, at); }

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t at) { return write_at("pwrite64", file, bytes, length, at); }
