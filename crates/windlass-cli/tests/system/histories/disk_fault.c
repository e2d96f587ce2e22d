// Loaded into a node or a database server (LD_PRELOAD): a disk that is slow or full while a file says so. WINDLASS_DISK_FAULT
// names that file; it holds "slow", "full" (nothing can be written) or "no growth" (nothing can be written after the end of
// a file), and is not there at other times.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
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

static int is_full(int file, off_t end) {
    char kind = fault();
    struct stat about;
    return kind == 'f' || (kind == 'n' && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && end > about.st_size);
}

static ssize_t write_at(const char *name, int file, const void *bytes, size_t length, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    if (is_full(file, at + (off_t)length)) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, length, at);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) { return write_at("pwrite", file, bytes, length, at); }

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t at) { return write_at("pwrite64", file, bytes, length, at); }

static ssize_t write_parts_at(const char *name, int file, const struct iovec *parts, int count, off_t at) {
    ssize_t (*real)(int, const struct iovec *, int, off_t) = (ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, name);
    off_t end = at;
    for (int part = 0; part < count; part++) end += (off_t)parts[part].iov_len;
    if (is_full(file, end)) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, parts, count, at);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) { return write_parts_at("pwritev", file, parts, count, at); }

ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t at) { return write_parts_at("pwritev64", file, parts, count, at); }
