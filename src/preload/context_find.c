#include "preload/context_find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "preload/context_keys.h"
#include "preload/inside.h"

/* The layout of OTEP 4719. */
struct found_header {
    char signature[8];
    uint32_t version;
    uint32_t payload_size;
    uint64_t published_ns;
    uint64_t payload;
};
#define PAYLOAD_MAX 65536

/* Of whoever is in `user`. */
static struct {
    uint32_t user;   /* pid; 0: nobody. One that is not ours is of before fork */
    uint64_t looked; /* when */
    uint64_t at;     /* of the header; 0: not found */
    uint64_t published_ns;
    struct found_keys keys;
    char lines[4096];
    uint8_t payload[PAYLOAD_MAX];
} state;

static bool read_memory(uint64_t at, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)at, n};
    return syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1, &remote, 1, 0) ==
           (ssize_t)n;
}

/* "7f0000000000-7f0000001000 rw-p 00000000 00:01 1234   /memfd:OTEL_CTX (deleted)" */
static uint64_t address_in_line(const char *line, size_t n)
{
    static const char *const names[] = {" /memfd:OTEL_CTX", " [anon_shmem:OTEL_CTX]",
                                        " [anon:OTEL_CTX]"};
    uint64_t at = 0;
    bool is_named = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        is_named |= memmem(line, n, names[i], strlen(names[i])) != NULL;
    for (size_t i = 0; is_named && i < n && line[i] != '-'; i++) {
        int digit = line[i] <= '9' ? line[i] - '0' : line[i] - 'a' + 10;
        at = at << 4 | ((unsigned)digit & 15);
    }
    return at;
}

/* No function here is one that a thread may be cancelled in: whoever allocates must not be. */
static uint64_t find_header(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    uint64_t found = 0;

    while (fd >= 0 && found == 0) {
        ssize_t n = (ssize_t)syscall(SYS_read, fd, state.lines + used, sizeof(state.lines) - used);
        if (n <= 0)
            break;
        used += (size_t)n;
        const char *from = state.lines, *end = state.lines + used, *line_end;
        while (found == 0 && (line_end = memchr(from, '\n', (size_t)(end - from)))) {
            found = address_in_line(from, (size_t)(line_end - from));
            from = line_end + 1;
        }
        used = (size_t)(end - from);
        if (used == sizeof(state.lines)) /* a path that is too long is none of these */
            used = 0;
        memmove(state.lines, from, used);
    }
    if (fd >= 0)
        syscall(SYS_close, fd);
    return found;
}

static bool read_header(uint64_t at, struct found_header *ret)
{
    return at && read_memory(at, ret, sizeof(*ret)) &&
           memcmp(ret->signature, "OTEL_CTX", sizeof(ret->signature)) == 0 && ret->version == 2 &&
           ret->published_ns != 0;
}

static bool is_time_to_look(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 + 1;
    if (state.looked != 0 && now - state.looked < 1000)
        return false;
    state.looked = now;
    return true;
}

/* Sees to it that the keys are those of now. */
static void refresh(void)
{
    struct found_header h, after;

    if (!read_header(state.at, &h)) {
        state.keys.n = 0;
        state.published_ns = 0;
        state.at = is_time_to_look() ? find_header() : 0;
        if (!read_header(state.at, &h))
            return;
    }
    if (h.published_ns == state.published_ns)
        return;
    if (h.payload_size > sizeof(state.payload) ||
        !read_memory(h.payload, state.payload, h.payload_size) || !read_header(state.at, &after) ||
        after.published_ns != h.published_ns)
        return;
    found_keys_read(state.payload, h.payload_size, &state.keys);
    state.published_ns = h.published_ns;
}

size_t context_find_key(unsigned number, char to[256])
{
    uint32_t pid = preload_thread.owner, user = __atomic_load_n(&state.user, __ATOMIC_RELAXED);
    size_t n = 0;

    if (user == pid || !__atomic_compare_exchange_n(&state.user, &user, pid, false,
                                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0; /* another thread is at it: one sample goes without this label */
    refresh();
    if (number < state.keys.n) {
        n = (size_t)(state.keys.at[number + 1] - state.keys.at[number]);
        memcpy(to, state.keys.names + state.keys.at[number], n);
    }
    __atomic_store_n(&state.user, 0, __ATOMIC_RELEASE);
    return n;
}
