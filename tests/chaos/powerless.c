/* A machine without power protection, for LD_PRELOAD into redis-server.
 *
 * What is written to a file below a folder named "appendonlydir" stays in the memory of the process
 * and reaches the file at the end of the next fsync or fdatasync, as in a machine whose power is cut
 * what was not synced never reaches the disk. So SIGKILL loses what a power cut would lose. A sync
 * takes POWERLESS_SYNC_MS longer than it would.
 *
 * Files are appended to only, which is all that redis-server does to them: it has no pwrite. One
 * server keeps fewer than MOST files open there at a time. Files that are written through stdio, as
 * the new base of a rewrite is, are left alone: they are synced before they get their name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024

struct pending {
    char *bytes;       /* written, not yet being synced */
    size_t size, room;
    size_t syncing;    /* being synced: not in the file yet either */
    int on;
};

static struct pending files[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t one_sync = PTHREAD_MUTEX_INITIALIZER; /* keeps what is synced in order */

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

static int kept(int fd) { return fd >= 0 && fd < MOST && files[fd].on; }

static int note(int fd, const char *path, int flags) {
    if (fd >= 0 && fd < MOST && (flags & O_ACCMODE) != O_RDONLY && strstr(path, "appendonlydir/")) {
        pthread_mutex_lock(&lock);
        files[fd].on = 1;
        files[fd].size = files[fd].syncing = 0;
        pthread_mutex_unlock(&lock);
    }
    return fd;
}

static int open_as(const char *name, const char *path, int flags, mode_t mode) {
    return note(REAL(name, int (*)(const char *, int, ...))(path, flags, mode), path, flags);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_as("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_as("open64", path, flags, mode);
}

static void keep(int fd, const void *bytes, size_t size) {
    struct pending *file = &files[fd];
    if (file->size + size > file->room) {
        file->room = (file->size + size) * 2;
        file->bytes = realloc(file->bytes, file->room);
        if (!file->bytes) abort();
    }
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    if (!kept(fd)) return syscall(SYS_write, fd, bytes, size);
    pthread_mutex_lock(&lock);
    keep(fd, bytes, size);
    pthread_mutex_unlock(&lock);
    return size;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!kept(fd)) return syscall(SYS_writev, fd, parts, count);
    ssize_t total = 0;
    pthread_mutex_lock(&lock);
    for (int at = 0; at < count; at++) {
        keep(fd, parts[at].iov_base, parts[at].iov_len);
        total += parts[at].iov_len;
    }
    pthread_mutex_unlock(&lock);
    return total;
}

static int sync_as(const char *name, int fd) {
    if (!kept(fd)) return REAL(name, int (*)(int))(fd);
    const char *ms = getenv("POWERLESS_SYNC_MS");
    long delay = ms ? atol(ms) : 0;
    pthread_mutex_lock(&one_sync);
    pthread_mutex_lock(&lock);
    struct pending *file = &files[fd];
    char *bytes = file->bytes;
    size_t size = file->syncing = file->size;
    file->bytes = NULL;
    file->size = file->room = 0;
    pthread_mutex_unlock(&lock);

    struct timespec pause = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&pause, NULL);
    for (size_t done = 0; done < size;) {
        ssize_t wrote = syscall(SYS_write, fd, bytes + done, size - done);
        if (wrote < 0) abort();
        done += wrote;
    }
    free(bytes);
    int answer = REAL(name, int (*)(int))(fd);
    pthread_mutex_lock(&lock);
    file->syncing = 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&one_sync);
    return answer;
}

int fsync(int fd) { return sync_as("fsync", fd); }
int fdatasync(int fd) { return sync_as("fdatasync", fd); }

/* What was not synced when the file is closed is lost, whatever happens. */
int close(int fd) {
    if (kept(fd)) {
        pthread_mutex_lock(&one_sync);
        pthread_mutex_lock(&lock);
        files[fd].on = 0;
        files[fd].size = 0;
        pthread_mutex_unlock(&lock);
        pthread_mutex_unlock(&one_sync);
    }
    return syscall(SYS_close, fd);
}

/* The length that the process must believe: what is in the file and what is on its way to it. */
static off_t missing(int fd) {
    if (!kept(fd)) return 0;
    pthread_mutex_lock(&lock);
    off_t size = files[fd].size + files[fd].syncing;
    pthread_mutex_unlock(&lock);
    return size;
}

int fstat(int fd, struct stat *info) {
    int answer = syscall(SYS_fstat, fd, info);
    if (answer == 0) info->st_size += missing(fd);
    return answer;
}

int fstat64(int fd, struct stat64 *info) { return fstat(fd, (struct stat *)info); }
int __fxstat(int version, int fd, struct stat *info) { return (void)version, fstat(fd, info); }
int __fxstat64(int version, int fd, struct stat64 *info) { return (void)version, fstat64(fd, info); }

off_t lseek(int fd, off_t offset, int whence) {
    off_t place = syscall(SYS_lseek, fd, offset, whence);
    return place < 0 || whence == SEEK_SET ? place : place + missing(fd);
}

off64_t lseek64(int fd, off64_t offset, int whence) { return lseek(fd, offset, whence); }

/* Redis cuts off what it has written of a command that it could not write whole. */
int ftruncate(int fd, off_t length) {
    if (!kept(fd)) return syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&one_sync);
    pthread_mutex_lock(&lock);
    struct stat info;
    int answer = syscall(SYS_fstat, fd, &info);
    if (answer == 0 && length > info.st_size && length - info.st_size <= (off_t)files[fd].size) {
        files[fd].size = length - info.st_size;
    } else if (answer == 0) {
        files[fd].size = 0;
        answer = syscall(SYS_ftruncate, fd, length);
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&one_sync);
    return answer;
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }
