#include "preload/process_context.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vesta/vesta.h>

/* Headers of the kernel and of libc that are older than these. */
#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* The layout of OTEP 4719. */
struct context_header {
    char signature[8];
    uint32_t version;
    uint32_t payload_size;
    uint64_t published_ns; /* CLOCK_BOOTTIME, another one each time; 0: being written */
    uint64_t payload;      /* its address: a protobuf ProcessContext */
};

#define RESOURCE_MAX 16384
#define PAYLOAD_MAX  (RESOURCE_MAX + CONTEXT_KEYS_MAX * (CONTEXT_KEY_SIZE_MAX + 8) + 256)

/* Two payloads: a reader may still copy the last one while the next is made. */
struct context_memory {
    struct context_header header;
    uint8_t payloads[2][PAYLOAD_MAX];
};

struct key {
    uint8_t size;
    char name[CONTEXT_KEY_SIZE_MAX];
};

/* Names of keys are read without the lock: written once, counted last. */
static struct key keys[CONTEXT_KEYS_MAX];
static uint32_t n_keys;

/* ---- All below is of who has the lock ---- */

static pid_t lock_owner;               /* 0: nobody */
static uint8_t resource[RESOURCE_MAX]; /* a protobuf Resource, kept to publish it again */
static size_t resource_size;
static bool has_resource;
static struct context_memory *memory; /* NULL: nothing is published */
static pid_t memory_owner;
static bool is_child_told;

/*
 * Not pthread's: that is hooked here, and this is held for microseconds at the start. Whoever has
 * it calls nothing that a thread may be cancelled in. A thread that had it when another forked is
 * not in the child, so there it is free.
 */
static void lock(void)
{
    pid_t me = getpid(), owner = 0;

    while (!__atomic_compare_exchange_n(&lock_owner, &owner, me, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        if (owner != me)
            continue;
        sched_yield();
        owner = 0;
    }
}

static void unlock(void)
{
    __atomic_store_n(&lock_owner, 0, __ATOMIC_RELEASE);
}

/* ---- Protobuf, as much as is needed ---- */

struct writer {
    uint8_t *at, *end;
    bool is_full;
};

enum { CONTEXT_RESOURCE = 1, CONTEXT_ATTRIBUTES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_ARRAY = 5, ARRAY_VALUES = 1 };

static size_t varint_size(size_t n)
{
    return n < 0x80 ? 1 : n < 0x4000 ? 2 : 3;
}

/* Of a field with so many bytes. All fields have numbers below 16. */
static size_t field_size(size_t n)
{
    return 1 + varint_size(n) + n;
}

static void put_head(struct writer *w, int field, size_t n)
{
    if ((size_t)(w->end - w->at) < field_size(n)) {
        w->is_full = true;
        w->end = w->at;
        return;
    }
    *w->at++ = (uint8_t)(field << 3 | 2);
    for (; n >= 0x80; n >>= 7)
        *w->at++ = (uint8_t)(n | 0x80);
    *w->at++ = (uint8_t)n;
}

static void put_bytes(struct writer *w, int field, const void *data, size_t n)
{
    put_head(w, field, n);
    if (w->is_full)
        return;
    memcpy(w->at, data, n);
    w->at += n;
}

struct text {
    const char *data;
    size_t n;
};

static struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

static void put_pair(struct writer *w, int field, struct text key, struct text value)
{
    size_t any = field_size(value.n);

    put_head(w, field, field_size(key.n) + field_size(any));
    put_bytes(w, KEY_VALUE_KEY, key.data, key.n);
    put_head(w, KEY_VALUE_VALUE, any);
    put_bytes(w, ANY_STRING, value.data, value.n);
}

/* ---- Publishing ---- */

static void put_keys(struct writer *w)
{
    struct text name = text_of("threadlocal.attribute_key_map");
    size_t list = 0;

    for (uint32_t i = 0; i < n_keys; i++)
        list += field_size(field_size(keys[i].size));
    put_head(w, CONTEXT_ATTRIBUTES, field_size(name.n) + field_size(field_size(list)));
    put_bytes(w, KEY_VALUE_KEY, name.data, name.n);
    put_head(w, KEY_VALUE_VALUE, field_size(list));
    put_head(w, ANY_ARRAY, list);
    for (uint32_t i = 0; i < n_keys; i++) {
        put_head(w, ARRAY_VALUES, field_size(keys[i].size));
        put_bytes(w, ANY_STRING, keys[i].name, keys[i].size);
    }
}

static uint32_t make_payload(uint8_t *to)
{
    struct writer w = {.at = to, .end = to + PAYLOAD_MAX};

    put_bytes(&w, CONTEXT_RESOURCE, resource, resource_size);
    put_pair(&w, CONTEXT_ATTRIBUTES, text_of("threadlocal.schema_version"),
             text_of("tlsdesc_v1_dev"));
    put_keys(&w);
    return (uint32_t)(w.at - to);
}

static int memory_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    struct rlimit limit;

    /* Beyond this limit the kernel sends a signal. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(struct context_memory))
        return -1;
    int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", flags | MFD_NOEXEC_SEAL);

    if (fd < 0)
        fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", flags);
    if (fd >= 0 && ftruncate(fd, sizeof(struct context_memory)) < 0) {
        syscall(SYS_close, fd);
        fd = -1;
    }
    return fd;
}

/* A file's name shows what this is; without one, the kernel may let us name the memory. */
static int map_memory(void)
{
    int fd = memory_file();
    void *p = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE,
                   fd >= 0 ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);

    if (fd >= 0)
        syscall(SYS_close, fd);
    if (p == MAP_FAILED)
        return -ENOMEM;
    madvise(p, sizeof(*memory), MADV_DONTFORK);
    memory = p;
    memory_owner = getpid();
    memcpy(memory->header.signature, "OTEL_CTX", sizeof(memory->header.signature));
    memory->header.version = 2;
    return 0;
}

static uint64_t later_than(uint64_t last)
{
    struct timespec t = {0};
    uint64_t ns;

    clock_gettime(CLOCK_BOOTTIME, &t);
    ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return ns > last ? ns : last + 1;
}

static void before_fork(void)
{
    lock();
}

static void after_fork(void)
{
    unlock();
}

static int publish(void);

/* The memory is not inherited. That cannot be told from the number of the process: the first one of
 * a namespace may have that of its parent. */
static void in_child(void)
{
    bool is_published = memory != NULL;

    memory = NULL;
    if (is_published)
        publish();
    unlock();
}

static int publish(void)
{
    /* A child that was made without fork() has no memory and was not told. */
    if (!memory || memory_owner != getpid()) {
        int r = map_memory();
        if (r < 0)
            return r;
    }
    if (!is_child_told)
        is_child_told = pthread_atfork(before_fork, after_fork, in_child) == 0;

    struct context_header *h = &memory->header;
    uint64_t last = h->published_ns;
    bool is_first = h->payload == (uintptr_t)memory->payloads[0];
    uint8_t *payload = memory->payloads[is_first ? 1 : 0];
    uint32_t size = make_payload(payload);

    __atomic_store_n(&h->published_ns, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    h->payload = (uintptr_t)payload;
    h->payload_size = size;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&h->published_ns, later_than(last), __ATOMIC_RELAXED);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, sizeof(*memory), "OTEL_CTX");
    return 0;
}

/* ---- The resource ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Takes %XX off, in `room`. */
static struct text decoded(struct text t, char *room)
{
    size_t n = 0;

    for (size_t i = 0; i < t.n; i++) {
        bool is_hex = t.data[i] == '%' && i + 2 < t.n && hex_digit(t.data[i + 1]) >= 0 &&
                      hex_digit(t.data[i + 2]) >= 0;
        room[n++] =
            is_hex ? (char)(hex_digit(t.data[i + 1]) << 4 | hex_digit(t.data[i + 2])) : t.data[i];
        i += is_hex ? 2 : 0;
    }
    return (struct text){room, n};
}

static struct text trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (struct text){from, (size_t)(to - from)};
}

/* What the arguments say goes before the environment. */
struct said {
    const char *service_name;
    const struct vesta_attribute *attributes;
    size_t n;
};

static bool is_said(const struct said *s, struct text key)
{
    if (s->service_name && key.n == 12 && memcmp(key.data, "service.name", 12) == 0)
        return true;
    for (size_t i = 0; i < s->n; i++) {
        if (strlen(s->attributes[i].key) == key.n &&
            memcmp(s->attributes[i].key, key.data, key.n) == 0)
            return true;
    }
    return false;
}

/* "key=value,key=value", with %XX for what is special. */
static void put_environment(struct writer *w, const struct said *s)
{
    static char room[2][4096];
    const char *p = getenv("OTEL_RESOURCE_ATTRIBUTES");

    while (p && *p) {
        const char *end = p + strcspn(p, ",");
        const char *equals = memchr(p, '=', (size_t)(end - p));
        if (equals && end - p <= (ptrdiff_t)sizeof(room[0])) {
            struct text key = decoded(trimmed(p, equals), room[0]);
            struct text value = decoded(trimmed(equals + 1, end), room[1]);
            if (key.n > 0 && !is_said(s, key))
                put_pair(w, RESOURCE_ATTRIBUTES, key, value);
        }
        p = *end ? end + 1 : end;
    }
}

static int make_resource(const struct said *given)
{
    static uint8_t fresh[RESOURCE_MAX];
    struct writer w = {.at = fresh, .end = fresh + sizeof(fresh)};
    struct said s = *given;

    for (size_t i = 0; i < s.n; i++) {
        const struct vesta_attribute *a = &s.attributes[i];
        if (!a->key || !a->key[0])
            return -EINVAL;
        put_pair(&w, RESOURCE_ATTRIBUTES, text_of(a->key), text_of(a->value ? a->value : ""));
    }
    if (!s.service_name && !is_said(&s, text_of("service.name")))
        s.service_name = getenv("OTEL_SERVICE_NAME");
    if (s.service_name && s.service_name[0])
        put_pair(&w, RESOURCE_ATTRIBUTES, text_of("service.name"), text_of(s.service_name));
    else
        s.service_name = NULL;
    put_environment(&w, &s);
    if (w.is_full)
        return -E2BIG;
    resource_size = (size_t)(w.at - fresh);
    memcpy(resource, fresh, resource_size);
    has_resource = true;
    return 0;
}

int vesta_process_publish(const char *service_name, const struct vesta_attribute *attributes,
                          size_t n_attributes)
{
    struct said s = {service_name, attributes, attributes ? n_attributes : 0};
    int kept = errno, r;

    lock();
    r = make_resource(&s);
    if (r == 0)
        r = publish();
    unlock();
    errno = kept;
    return r;
}

/* ---- Keys ---- */

int context_key_known(const char *key, size_t n)
{
    uint32_t count = __atomic_load_n(&n_keys, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < count; i++) {
        if (keys[i].size == n && memcmp(keys[i].name, key, n) == 0)
            return (int)i;
    }
    return -1;
}

static int add_key(const char *key, size_t n)
{
    int number = context_key_known(key, n); /* another thread may have been faster */
    uint32_t at = n_keys;

    if (number >= 0)
        return number;
    if (at == CONTEXT_KEYS_MAX)
        return -ENOSPC;
    keys[at].size = (uint8_t)n;
    memcpy(keys[at].name, key, n);
    __atomic_store_n(&n_keys, at + 1, __ATOMIC_RELEASE);
    /* What cannot be published is known here all the same. An environment that is too large is left
     * out. */
    if (!has_resource)
        make_resource(&(struct said){0});
    publish();
    return (int)at;
}

int context_key(const char *key, size_t n)
{
    int number;

    if (n == 0 || n > CONTEXT_KEY_SIZE_MAX)
        return -EINVAL;
    number = context_key_known(key, n);
    if (number >= 0)
        return number;
    lock();
    number = add_key(key, n);
    unlock();
    return number;
}

bool context_key_name(unsigned number, const char **ret_name, size_t *ret_n)
{
    if (number >= __atomic_load_n(&n_keys, __ATOMIC_ACQUIRE))
        return false;
    *ret_name = keys[number].name;
    *ret_n = keys[number].size;
    return true;
}
