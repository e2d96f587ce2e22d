/* Records what a process writes to the files of one folder, in the order in which it takes effect: loaded into the
 * process with LD_PRELOAD. The folder is WINDLASS_RECORD_FOLDER, the record goes to WINDLASS_RECORD_TO. What the process
 * says on its standard output is recorded as well, so that acknowledgements have their place between the writes.
 *
 * An event is a header (kind, inode, offset, length, size of the name, size of the data) with the name and the data.
 * Writes to mapped memory are not seen: SQLite maps only its `-shm` file, which is made again after a crash. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int record = -1;

__attribute__((constructor)) static void begin(void) {
  const char *to = getenv("WINDLASS_RECORD_TO");
  folder = getenv("WINDLASS_RECORD_FOLDER");
  if (!to || !folder) return;
  int fd = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  record = fcntl(fd, F_DUPFD_CLOEXEC, 900);
  syscall(SYS_close, fd);
  /* Processes that this one starts are not part of it. */
  unsetenv("LD_PRELOAD");
}

static void put(const void *from, size_t size) {
  const char *next = from;
  while (size > 0) {
    long done = syscall(SYS_write, record, next, size);
    if (done <= 0) abort();
    next += done;
    size -= done;
  }
}

static void event(char kind, uint64_t inode, uint64_t offset, uint64_t length, const char *name, const void *data,
                  size_t size) {
  int error = errno;
  struct {
    uint64_t kind, inode, offset, length, name, size;
  } header = {kind, inode, offset, length, strlen(name), size};
  put(&header, sizeof header);
  put(name, header.name);
  put(data, size);
  errno = error;
}

static int is_inside(const char *path) {
  size_t length = folder ? strlen(folder) : 0;
  return record >= 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The path of a file of the folder, or of the folder itself. */
static int find(int fd, char *path, size_t size, struct stat *found) {
  char link[64];
  if (record < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_inside(path) && fstat(fd, found) == 0;
}

static int ends_with(const char *path, const char *end) {
  size_t length = strlen(path), wanted = strlen(end);
  return length >= wanted && strcmp(path + length - wanted, end) == 0;
}

/* The reserve has no content that matters: only its length is recorded. */
static void written(int fd, uint64_t offset, const void *data, ssize_t size) {
  char path[4096];
  struct stat found;
  if (size <= 0) return;
  if (fd == 1) event('O', 0, 0, size, "", data, size);
  else if (find(fd, path, sizeof path, &found))
    event('W', found.st_ino, offset, size, path, data, ends_with(path, "-reserve") ? 0 : size);
}

static uint64_t position(int fd) {
  off_t at = lseek(fd, 0, SEEK_CUR);
  return at < 0 ? 0 : at;
}

ssize_t write(int fd, const void *data, size_t size) {
  if (record < 0) return syscall(SYS_write, fd, data, size);
  pthread_mutex_lock(&lock);
  uint64_t offset = fd == 1 ? 0 : position(fd);
  ssize_t done = syscall(SYS_write, fd, data, size);
  written(fd, offset, data, done);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
  pthread_mutex_lock(&lock);
  ssize_t done = syscall(SYS_pwrite64, fd, data, size, offset);
  written(fd, offset, data, done);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

/* Refused, so that callers copy with reads and writes. */
ssize_t copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t size, unsigned flags) {
  (void)from, (void)in, (void)to, (void)out, (void)size, (void)flags;
  errno = ENOSYS;
  return -1;
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t size) {
  (void)to, (void)from, (void)offset, (void)size;
  errno = ENOSYS;
  return -1;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t size) { return sendfile64(to, from, offset, size); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
  ssize_t all = 0;
  for (int part = 0; part < count; part++) {
    ssize_t done = write(fd, parts[part].iov_base, parts[part].iov_len);
    if (done < 0) return all > 0 ? all : done;
    all += done;
    if ((size_t)done < parts[part].iov_len) break;
  }
  return all;
}

static void changed(char kind, int fd, uint64_t length) {
  char path[4096];
  struct stat found;
  if (find(fd, path, sizeof path, &found)) event(kind, found.st_ino, 0, length, path, "", 0);
}

int ftruncate64(int fd, off64_t length) {
  pthread_mutex_lock(&lock);
  int outcome = syscall(SYS_ftruncate, fd, length);
  if (outcome == 0) changed('T', fd, length);
  pthread_mutex_unlock(&lock);
  return outcome;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, long call) {
  pthread_mutex_lock(&lock);
  int outcome = syscall(call, fd);
  if (outcome == 0) changed('S', fd, 0);
  pthread_mutex_unlock(&lock);
  return outcome;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int opened(int at, const char *path, int flags, mode_t mode) {
  if (record < 0 || !is_inside(path)) return syscall(SYS_openat, at, path, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat found;
  int was_there = lstat(path, &found) == 0;
  int fd = syscall(SYS_openat, at, path, flags, mode);
  if (fd >= 0 && fstat(fd, &found) == 0) {
    if (!was_there) event('L', found.st_ino, 0, 0, path, "", 0);
    else if ((flags & O_TRUNC) && found.st_size == 0) event('T', found.st_ino, 0, 0, path, "", 0);
  }
  pthread_mutex_unlock(&lock);
  return fd;
}

#define MODE(flags, mode)                          \
  mode_t mode = 0;                                 \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {         \
    va_list rest;                                  \
    va_start(rest, flags);                         \
    mode = va_arg(rest, unsigned);                 \
    va_end(rest);                                  \
  }

int open64(const char *path, int flags, ...) {
  MODE(flags, mode)
  return opened(AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
  MODE(flags, mode)
  return opened(AT_FDCWD, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
  MODE(flags, mode)
  return opened(at, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
  MODE(flags, mode)
  return opened(at, path, flags, mode);
}

int rename(const char *from, const char *to) {
  pthread_mutex_lock(&lock);
  int outcome = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (outcome == 0 && is_inside(to)) event('R', 0, 0, 0, from, to, strlen(to));
  pthread_mutex_unlock(&lock);
  return outcome;
}

int unlink(const char *path) {
  pthread_mutex_lock(&lock);
  int outcome = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (outcome == 0 && is_inside(path)) event('U', 0, 0, 0, path, "", 0);
  pthread_mutex_unlock(&lock);
  return outcome;
}
