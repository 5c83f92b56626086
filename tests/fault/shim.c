/*
 * Lets the system refuse what a process asks of it, at the n-th time it asks, or ends the process
 * there. For tests only: a library to preload into Python.
 *
 *     gcc -O2 -fPIC -shared -o libfault.so shim.c
 *     LD_PRELOAD=$PWD/libfault.so python ...
 *
 * Only files and folders under one folder count, which the process names when it arms the library
 * (`fault_arm`); so modules that Python imports meanwhile are read as ever. Of memory only pieces of
 * at least FAULT_LEAST bytes count that Python or NumPy ask for: other libraries end the process
 * where they get none, and so does NumPy for the buffers of its iterators, of at most 64 KiB.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FAULT_LEAST ((64 << 10) + 1)
#define HANDLES 4096

/* In the order of `KINDS` in faults.py. */
enum { OPEN, READ, WRITE, RENAME, SYNC, FOLDER, MEMORY, KINDS };
enum { KILL_BEFORE = -1, KILL_AFTER = -2 };

static char prefix[PATH_MAX];
static size_t prefix_length;
static int fault_kind = -1, fault_action;
static long fault_nth, calls[KINDS];
/* Which call of a kind this thread has made last: others may have made more meanwhile. */
static __thread long mine[KINDS];
static char ours[HANDLES];
static void *python;

/* Begin to count; the nth call of this kind fails with the action's errno, or ends the process. */
EXPORT void fault_arm(const char *folder, int kind, long nth, int action)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "PyMem_RawMalloc");
    if (symbol && dladdr(symbol, &info))
        python = info.dli_fbase;
    snprintf(prefix, sizeof prefix, "%s/", folder);
    prefix_length = strlen(prefix);
    fault_nth = nth;
    fault_action = action;
    fault_kind = kind;
}

EXPORT void fault_disarm(void) { prefix_length = 0; fault_kind = -1; }

EXPORT long fault_calls(int kind) { return calls[kind]; }

/* Whether the call that is about to be made is the one to fail; errno is set then. */
static int fails(int kind)
{
    if (!prefix_length)
        return 0;
    mine[kind] = __sync_add_and_fetch(&calls[kind], 1);
    if (mine[kind] != fault_nth || kind != fault_kind)
        return 0;
    if (fault_action == KILL_BEFORE)
        kill(getpid(), SIGKILL);
    if (fault_action < 0)
        return 0;
    errno = fault_action;
    return 1;
}

static void after(int kind)
{
    if (kind == fault_kind && fault_action == KILL_AFTER && mine[kind] == fault_nth)
        kill(getpid(), SIGKILL);
}

/* Whether a path lies under the folder, also where it is reached by a handle. */
static int under(int at, const char *path)
{
    char link[64], whole[PATH_MAX * 2], base[PATH_MAX];
    const char *rest = path;
    ssize_t length;
    if (!prefix_length || !path)
        return 0;
    if (!strncmp(path, "/proc/self/fd/", 14)) {
        at = (int)strtol(path + 14, (char **)&rest, 10);
    } else if (path[0] == '/') {
        return !strncmp(path, prefix, prefix_length);
    }
    if (at == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    length = readlink(link, base, sizeof base - 1);
    if (length < 0)
        return 0;
    base[length] = 0;
    snprintf(whole, sizeof whole, "%s/%s", base, rest);
    return !strncmp(whole, prefix, prefix_length);
}

static void mark(int handle, int yes)
{
    if (handle >= 0 && handle < HANDLES)
        ours[handle] = (char)yes;
}

static int marked(int handle) { return handle >= 0 && handle < HANDLES && ours[handle]; }

/* The function of this name that would be called without this library. */
#define NEXT(name) ((__typeof__(&name))({ \
        static void *next; \
        if (!next) { \
            next = dlsym(RTLD_NEXT, #name); \
        } \
        next; \
    }))

#define OPENS(name, declared, at, ...) \
    EXPORT int name declared \
    { \
        va_list more; \
        va_start(more, flags); \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0; \
        va_end(more); \
        int here = under(at, path); \
        if (here && fails(OPEN)) \
            return -1; \
        int handle = NEXT(name)(__VA_ARGS__, flags, mode); \
        mark(handle, here); \
        if (here) \
            after(OPEN); \
        return handle; \
    }

OPENS(open, (const char *path, int flags, ...), AT_FDCWD, path)
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, path)
OPENS(openat, (int at, const char *path, int flags, ...), at, at, path)
OPENS(openat64, (int at, const char *path, int flags, ...), at, at, path)

EXPORT int close(int handle)
{
    mark(handle, 0);
    return NEXT(close)(handle);
}

#define ON_HANDLE(type, name, declared, kind, handle, ...) \
    EXPORT type name declared \
    { \
        int here = marked(handle); \
        if (here && fails(kind)) \
            return -1; \
        type result = NEXT(name)(__VA_ARGS__); \
        if (here) \
            after(kind); \
        return result; \
    }

ON_HANDLE(ssize_t, read, (int file, void *to, size_t size), READ, file, file, to, size)
ON_HANDLE(ssize_t, pread, (int file, void *to, size_t size, off_t at), READ, file, file, to, size, at)
ON_HANDLE(ssize_t, pread64, (int file, void *to, size_t size, off64_t at), READ, file, file, to, size, at)
ON_HANDLE(ssize_t, write, (int file, const void *from, size_t size), WRITE, file, file, from, size)
ON_HANDLE(ssize_t, pwrite, (int file, const void *from, size_t size, off_t at), WRITE, file, file, from, size, at)
ON_HANDLE(ssize_t, pwrite64, (int file, const void *from, size_t size, off64_t at), WRITE, file, file, from, size, at)
ON_HANDLE(int, ftruncate, (int file, off_t size), WRITE, file, file, size)
ON_HANDLE(int, ftruncate64, (int file, off64_t size), WRITE, file, file, size)
ON_HANDLE(int, fsync, (int file), SYNC, file, file)
ON_HANDLE(int, fdatasync, (int file), SYNC, file, file)

ssize_t sendfile(int, int, off_t *, size_t);
ssize_t sendfile64(int, int, off64_t *, size_t);
ON_HANDLE(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), WRITE, to, to, from, at, size)
ON_HANDLE(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t size), WRITE, to, to, from, at, size)

/* These two give the number of the error back. */
#define RESERVES(name, offset) \
    EXPORT int name(int file, offset at, offset size) \
    { \
        int here = marked(file); \
        if (here && fails(WRITE)) \
            return errno; \
        int number = NEXT(name)(file, at, size); \
        if (here) \
            after(WRITE); \
        return number; \
    }

RESERVES(posix_fallocate, off_t)
RESERVES(posix_fallocate64, off64_t)

#define ON_PATH(name, declared, kind, here, ...) \
    EXPORT int name declared \
    { \
        int counted = here; \
        if (counted && fails(kind)) \
            return -1; \
        int result = NEXT(name)(__VA_ARGS__); \
        if (counted) \
            after(kind); \
        return result; \
    }

ON_PATH(rename, (const char *from, const char *to), RENAME, under(AT_FDCWD, to), from, to)
ON_PATH(renameat, (int at, const char *from, int there, const char *to), RENAME, under(there, to), at, from, there, to)
ON_PATH(renameat2, (int at, const char *from, int there, const char *to, unsigned how), RENAME, under(there, to), at, from, there, to, how)
ON_PATH(link, (const char *from, const char *to), RENAME, under(AT_FDCWD, to), from, to)
ON_PATH(linkat, (int at, const char *from, int there, const char *to, int how), RENAME, under(there, to), at, from, there, to, how)
ON_PATH(symlink, (const char *from, const char *to), RENAME, under(AT_FDCWD, to), from, to)
ON_PATH(symlinkat, (const char *from, int there, const char *to), RENAME, under(there, to), from, there, to)
ON_PATH(mkdir, (const char *path, mode_t mode), FOLDER, under(AT_FDCWD, path), path, mode)
ON_PATH(mkdirat, (int at, const char *path, mode_t mode), FOLDER, under(at, path), at, path, mode)

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static int refuses(size_t size, void *caller)
{
    Dl_info info;
    if (!prefix_length || size < FAULT_LEAST || !dladdr(caller, &info))
        return 0;
    return (info.dli_fbase == python || strstr(info.dli_fname, "numpy")) && fails(MEMORY);
}

EXPORT void *malloc(size_t size)
{
    return refuses(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    return refuses(count * size, __builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    return refuses(size, __builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
