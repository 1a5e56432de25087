/* A disk that does not behave, under the files below one folder (LD_PRELOAD): what is done to them is counted, fails or takes long as a
 * plan says that the test can change meanwhile, and is written down for a test that plays a power loss.
 *
 * DISK_BELOW   the folder
 * DISK_PLAN    a file of PLAN_WORDS 64-bit words, mapped: see enum plan
 * DISK_TRACE   where operations are written down; absent for none
 *
 * The processes that a program starts are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum plan { KINDS, FIRST, COUNT, ERRNO, DELAY_US, SEEN, FAILED, PLAN_WORDS };
enum kind { WRITE = 1, SYNC = 2, NAME = 4, READ = 8, OPEN = 16, RANGE = 32 };
enum record { CREATE = 1, MKDIR, UNLINK, RMDIR, RENAME, TRUNCATE, WROTE, SYNCED };

struct head {
    uint32_t record;
    uint32_t path_bytes;
    uint64_t inode;
    uint64_t number;
    uint64_t data_bytes;
};

static char below[4096];
static size_t below_bytes;
static volatile uint64_t *plan;
static int trace = -1;
static uint64_t records;
static pthread_mutex_t tracing = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("DISK_BELOW"), *words = getenv("DISK_PLAN"), *records_file = getenv("DISK_TRACE");
    if (!folder || !words) return;
    int file = REAL(open)(words, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, PLAN_WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REAL(close)(file);
    if (mapped == MAP_FAILED) return;
    if (records_file) trace = REAL(open)(records_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    snprintf(below, sizeof below, "%s/", folder);
    below_bytes = strlen(below);
    plan = mapped;
    unsetenv("LD_PRELOAD");
}

static int is_below(const char *path) { return plan && strncmp(path, below, below_bytes) == 0; }

/* The path of an open file, if it lies below the folder. */
static int path_of(int file, char *path) {
    char link[32];
    if (!plan) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t bytes = readlink(link, path, 4095);
    if (bytes <= 0) return 0;
    path[bytes] = 0;
    return is_below(path);
}

/* Makes `path` whole, if it is one of a folder that is open. */
static int path_at(int folder, const char *name, char *path) {
    if (!plan) return 0;
    if (name[0] == '/' || folder == AT_FDCWD) {
        snprintf(path, 4096, "%s", name);
        return is_below(path);
    }
    char parent[4096];
    snprintf(parent, sizeof parent, "/proc/self/fd/%d", folder);
    ssize_t bytes = readlink(parent, path, 4095);
    if (bytes <= 0) return 0;
    path[bytes] = 0;
    strncat(path, "/", 4095 - strlen(path));
    strncat(path, name, 4095 - strlen(path));
    return is_below(path);
}

/* Waits as the plan says; the error that this operation ends in, or 0. */
static int planned(enum kind kind) {
    if (plan[DELAY_US] && (plan[KINDS] & kind)) usleep(plan[DELAY_US]);
    if (!(plan[KINDS] & kind)) return 0;
    uint64_t number = __sync_add_and_fetch(&plan[SEEN], 1), first = plan[FIRST];
    if (first == 0 || number < first || number - first >= plan[COUNT]) return 0;
    __sync_add_and_fetch(&plan[FAILED], 1);
    return (int)plan[ERRNO];
}

static void note(uint32_t record, const char *path, uint64_t inode, uint64_t number, const void *data, uint64_t data_bytes) {
    if (trace < 0) return;
    struct head head = {record, path ? strlen(path) : 0, inode, number, data ? data_bytes : 0};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.path_bytes}, {(void *)data, head.data_bytes}};
    pthread_mutex_lock(&tracing);
    if (REAL(writev)(trace, parts, 3) != (ssize_t)(sizeof head + head.path_bytes + head.data_bytes)) abort();
    records++;
    pthread_mutex_unlock(&tracing);
}

static uint64_t noted(void) {
    pthread_mutex_lock(&tracing);
    uint64_t now = records;
    pthread_mutex_unlock(&tracing);
    return now;
}

static uint64_t inode_of(int file) {
    struct stat status;
    return fstat(file, &status) == 0 ? status.st_ino : 0;
}

static int failed(int error) {
    errno = error;
    return -1;
}

typedef int opener(int, const char *, int, ...);

static int open_at(opener *do_open, int folder, const char *name, int flags, mode_t mode) {
    char path[4096];
    int makes = flags & (O_CREAT | O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE;
    if (!path_at(folder, name, path)) return do_open(folder, name, flags, mode);
    struct stat status;
    int is_new = (flags & O_CREAT) && fstatat(folder, name, &status, 0) != 0;
    int error = makes ? planned(NAME) : planned(OPEN);
    if (error) return failed(error);
    int file = do_open(folder, name, flags, mode);
    if (file >= 0 && (flags & O_TMPFILE) != O_TMPFILE) {
        if (is_new) note(CREATE, path, inode_of(file), 0, NULL, 0);
        else if (flags & O_TRUNC) note(TRUNCATE, NULL, inode_of(file), 0, NULL, 0);
    }
    return file;
}

#define MODE                                                     \
    mode_t mode = 0;                                             \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {   \
        va_list rest;                                            \
        va_start(rest, flags);                                   \
        mode = va_arg(rest, mode_t);                             \
        va_end(rest);                                            \
    }

int open(const char *path, int flags, ...) { MODE return open_at((opener *)real("openat"), AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_at((opener *)real("openat64"), AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE return open_at((opener *)real("openat"), folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE return open_at((opener *)real("openat64"), folder, path, flags, mode); }

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    char path[4096];
    if (!path_of(file, path)) return REAL(pwrite64)(file, bytes, count, at);
    int error = planned(WRITE);
    /* A write that fails may have written a part. */
    ssize_t written = REAL(pwrite64)(file, bytes, error ? count / 2 : count, at);
    if (written > 0) note(WROTE, NULL, inode_of(file), (uint64_t)at, bytes, (uint64_t)written);
    return error ? failed(error) : written;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }

ssize_t write(int file, const void *bytes, size_t count) {
    char path[4096];
    if (!path_of(file, path)) return REAL(write)(file, bytes, count);
    int error = planned(WRITE);
    ssize_t written = REAL(write)(file, bytes, error ? count / 2 : count);
    if (written > 0) {
        uint64_t at = (uint64_t)(lseek(file, 0, SEEK_CUR) - written);
        note(WROTE, NULL, inode_of(file), at, bytes, (uint64_t)written);
    }
    return error ? failed(error) : written;
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t at) {
    char path[4096];
    int error = path_of(file, path) ? planned(READ) : 0;
    return error ? failed(error) : REAL(pread64)(file, bytes, count, at);
}

ssize_t read(int file, void *bytes, size_t count) {
    char path[4096];
    int error = path_of(file, path) ? planned(READ) : 0;
    return error ? failed(error) : REAL(read)(file, bytes, count);
}

int ftruncate64(int file, off64_t length) {
    char path[4096];
    if (!path_of(file, path)) return REAL(ftruncate64)(file, length);
    int error = planned(WRITE);
    if (error) return failed(error);
    int result = REAL(ftruncate64)(file, length);
    if (result == 0) note(TRUNCATE, NULL, inode_of(file), (uint64_t)length, NULL, 0);
    return result;
}

int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

/* What a sync that fails has written nobody knows: here nothing. Later ones do not bring it back. */
#define SYNC_CALL(file, call)                                                                \
    char path[4096];                                                                         \
    if (!path_of(file, path)) return call;                                                   \
    uint64_t before = noted();                                                               \
    int error = planned(SYNC);                                                               \
    if (error) return failed(error);                                                         \
    int result = call;                                                                       \
    if (result == 0) note(SYNCED, NULL, inode_of(file), before, NULL, 0);                    \
    return result;

int fsync(int file) { SYNC_CALL(file, REAL(fsync)(file)) }
int fdatasync(int file) { SYNC_CALL(file, REAL(fdatasync)(file)) }

/* Writes data and no length of a file, and does not empty the disk's own cache: nothing is safe by it. */
int sync_file_range(int file, off64_t at, off64_t count, unsigned flags) {
    char path[4096];
    int error = path_of(file, path) ? planned(RANGE) : 0;
    return error ? failed(error) : REAL(sync_file_range)(file, at, count, flags);
}

#define NAME_CALL(path, call, record)                          \
    if (!is_below(path)) return call;                          \
    int error = planned(NAME);                                 \
    if (error) return failed(error);                           \
    int result = call;                                         \
    if (result == 0) note(record, path, 0, 0, NULL, 0);        \
    return result;

int mkdir(const char *path, mode_t mode) { NAME_CALL(path, REAL(mkdir)(path, mode), MKDIR) }

/* What makes room works on a full disk. */
int unlink(const char *path) {
    int result = REAL(unlink)(path);
    if (result == 0 && is_below(path)) note(UNLINK, path, 0, 0, NULL, 0);
    return result;
}

int rmdir(const char *path) {
    int result = REAL(rmdir)(path);
    if (result == 0 && is_below(path)) note(RMDIR, path, 0, 0, NULL, 0);
    return result;
}

int unlinkat(int folder, const char *name, int flags) {
    char path[4096];
    int is_ours = path_at(folder, name, path);
    int result = REAL(unlinkat)(folder, name, flags);
    if (result == 0 && is_ours) note(flags & AT_REMOVEDIR ? RMDIR : UNLINK, path, 0, 0, NULL, 0);
    return result;
}

int rename(const char *from, const char *to) {
    if (!is_below(from)) return REAL(rename)(from, to);
    int error = planned(NAME);
    if (error) return failed(error);
    int result = REAL(rename)(from, to);
    if (result == 0) note(RENAME, from, 0, 0, to, strlen(to));
    return result;
}
