/* The system is called directly where libc's function is one that a thread may be cancelled in, or
 * is a hook: allocating must not be. */
#include "preload/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/handover.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Of what is free in a folder, one process takes at most this part. */
enum { PART = 8 };

struct ring_file ring_file;

typedef char path_text[sizeof(preload_settings.directory) + 64];

static unsigned page_shift(void)
{
    return (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
}

size_t ring_file_pages_size(size_t size)
{
    return ((size >> page_shift()) / 64 + 1) * sizeof(uint64_t);
}

static char *put_number(char *at, uint64_t n)
{
    char digits[20];
    size_t k = 0;
    do
        digits[k++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (k > 0)
        *at++ = digits[--k];
    return at;
}

/* DIR/PID-STARTED and what it ends with. */
static void put_path(path_text path, uint64_t started_ns, const char *end)
{
    size_t n = strlen(preload_settings.directory);
    memcpy(path, preload_settings.directory, n);
    char *at = path + n;
    *at++ = '/';
    at = put_number(at, (uint64_t)getpid());
    *at++ = '-';
    at = put_number(at, started_ns);
    strcpy(at, end);
}

static int open_path(const path_text path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

static void close_file(int fd)
{
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static void *map(void *place, size_t size, int flags, int fd)
{
    void *p = (void *)syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE,
                              flags | MAP_NORESERVE | (place ? MAP_FIXED : 0), fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- Room ---- */

bool ring_file_get(size_t page)
{
    struct ring_file *f = &ring_file;
    int kept = errno;
    if (__atomic_load_n(&f->left, __ATOMIC_RELAXED) <= 0)
        return false;
    int r =
        madvise(f->base + (page << f->page_shift), (size_t)1 << f->page_shift, MADV_POPULATE_WRITE);
    bool is_old = r != 0 && errno == EINVAL;
    errno = kept;
    if (r != 0) {
        if (is_old)
            __atomic_store_n(&f->left, -1, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_fetch_sub(&f->left, 1, __ATOMIC_RELAXED);
    __atomic_fetch_or(&f->pages[page / 64], 1ull << page % 64, __ATOMIC_RELAXED);
    return true;
}

static void begin(void *base, size_t size, bool has_room)
{
    ring_file.base = base;
    ring_file.page_shift = page_shift();
    memset(ring_file.pages, has_room ? 0xff : 0, ring_file_pages_size(size));
}

/* The first page, and so the others when they are needed. Kernels before 5.14 do not know how: they
 * are asked for all of it at once. */
static bool get_first(void *base, int fd, size_t size)
{
    struct statfs fs;
    if (statfs(preload_settings.directory, &fs) != 0)
        return false;
    begin(base, size, false);
    int64_t most = (int64_t)((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / PART);
    ring_file.left = fs.f_blocks > 0 ? most >> ring_file.page_shift : INT64_MAX;
    if (ring_file_get(0))
        return true;
    if (ring_file.left != -1 || (fs.f_blocks > 0 && most < (int64_t)size) ||
        syscall(SYS_fallocate, fd, 0, 0L, (long)size) != 0)
        return false;
    begin(base, size, true);
    return true;
}

/* ---- Making it ---- */

/* The mapping keeps the file open, and so locked, until the process ends or executes another:
 * unless the file system maps another file in its place. */
static bool is_still_locked(const path_text path)
{
    int fd = open_path(path, 0);
    bool is = fd >= 0 && syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close_file(fd);
    return is;
}

/* Other threads read the parent's header at any time: so it is replaced at once, by one that is
 * whole. NULL when it cannot be, and then the new one is gone. */
static void *move_to(void *place, void *base, const struct preload_header *h)
{
    struct preload_header *to = base;
    memcpy(to, h, sizeof(*h));
    to->is_locked = ring_file.is_locked;
    if (!place)
        return base;
    if ((void *)syscall(SYS_mremap, base, h->file_size, h->file_size, MREMAP_MAYMOVE | MREMAP_FIXED,
                        place) != place) {
        syscall(SYS_munmap, base, h->file_size);
        return NULL;
    }
    ring_file.base = place;
    return place;
}

static void *map_in_folder(void *place, const struct preload_header *h)
{
    path_text path, none;
    size_t size = h->file_size;
    put_path(path, h->started_ns, ".ring");
    put_path(none, h->started_ns, PRELOAD_NO_ROOM);
    int fd = open_path(path, O_CREAT | O_EXCL);
    if (fd < 0) {
        struct preload_header *parent = place;
        if (parent) /* still; as another user, or in a chroot, nothing else can be told */
            __atomic_fetch_add(&parent->lost[PRELOAD_LOSS_CHILDREN], 1, __ATOMIC_RELAXED);
        return NULL;
    }
    void *base = NULL;
    bool is_locked = syscall(SYS_flock, fd, LOCK_SH | LOCK_NB) == 0;
    if (ftruncate(fd, (off_t)size) == 0 && (base = map(NULL, size, MAP_SHARED, fd)) &&
        !get_first(base, fd, size)) {
        syscall(SYS_munmap, base, size);
        base = NULL;
    }
    close_file(fd);
    if (base) {
        ring_file.is_locked = is_locked && is_still_locked(path);
        base = move_to(place, base, h);
    }
    if (!base && syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, none, 0) != 0)
        unlink(path);
    return base;
}

/* Nobody can change its size any more: an agent reads no others (abi/preload.h). */
static void seal(int fd)
{
    syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
}

static void *map_memfd(void *place, const struct preload_header *h)
{
    int fd = (int)syscall(SYS_memfd_create, PRELOAD_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *base = NULL;
    if (fd >= 0 && ftruncate(fd, (off_t)h->file_size) == 0) {
        seal(fd);
        base = map(NULL, h->file_size, MAP_SHARED, fd);
    }
    close_file(fd);
    if (!base)
        return NULL;
    ring_file.is_locked = false;
    begin(base, h->file_size, true);
    return move_to(place, base, h);
}

/* Beyond this limit the kernel sends a signal. */
static bool is_too_large(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size;
}

static void leave_word(uint64_t started_ns)
{
    path_text none;
    put_path(none, started_ns, PRELOAD_NO_ROOM);
    close_file(open_path(none, O_CREAT | O_EXCL));
}

void *ring_file_map(void *place, const struct preload_header *h)
{
    bool is_in_folder = preload_settings.directory[0] != '\0';
    void *base = NULL;
    if (is_too_large(h->file_size)) {
        if (is_in_folder)
            leave_word(h->started_ns);
    } else {
        base = is_in_folder ? map_in_folder(place, h) : NULL;
        base = base ? base : map_memfd(place, h);
    }
    if (!base && place) { /* it is the parent's: nothing may be written there any more */
        map(place, h->file_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        begin(place, h->file_size, true);
    }
    return base;
}
