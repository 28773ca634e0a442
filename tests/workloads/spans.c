/* Costs 70 of 100 in span a and 30 in span b, on a thread of its own. With -DLOADED the variable is
 * in a library that is loaded when all runs already, named by the second argument. The last
 * argument may be a way to be wrong. */
#define _GNU_SOURCE
#include "spans.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "work.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* Protobuf, as far as is needed. */
static uint8_t payload[1024];

static size_t put_bytes(uint8_t *to, int field, const void *data, size_t n)
{
    to[0] = (uint8_t)(field << 3 | 2);
    to[1] = (uint8_t)n; /* less than 128 */
    memcpy(to + 2, data, n);
    return n + 2;
}

static size_t put_pair(uint8_t *to, int field, const char *key, const uint8_t *any, size_t any_len)
{
    uint8_t pair[256];
    size_t n = put_bytes(pair, 1, key, strlen(key));

    n += put_bytes(pair + n, 2, any, any_len);
    return put_bytes(to, field, pair, n);
}

static size_t put_text(uint8_t *to, int field, const char *key, const char *value)
{
    uint8_t any[128];
    return put_pair(to, field, key, any, put_bytes(any, 1, value, strlen(value)));
}

static size_t make_payload(void)
{
    uint8_t resource[128], keys[128], any[128], one[64];
    size_t n, at = 0;

    at += put_bytes(payload, 1, resource, put_text(resource, 1, "service.name", "spans-service"));
    at += put_text(payload + at, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
    n = put_bytes(keys, 1, one, put_bytes(one, 1, "http.route", 10));
    n += put_bytes(keys + n, 1, one, put_bytes(one, 1, "tenant", 6));
    n = put_bytes(any, 5, keys, n);
    return at + put_pair(payload + at, 2, "threadlocal.attribute_key_map", any, n);
}

struct process_context {
    char signature[8];
    uint32_t version, size;
    uint64_t published_ns, payload;
};

static void publish(void)
{
    int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct process_context *c;
    struct timespec t;

    if (fd < 0 || ftruncate(fd, 4096) < 0)
        return;
    c = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    if (c == MAP_FAILED)
        return;
    memcpy(c->signature, "OTEL_CTX", 8);
    c->version = 2;
    c->size = (uint32_t)make_payload();
    c->payload = (uint64_t)(uintptr_t)payload;
    clock_gettime(CLOCK_BOOTTIME, &t);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    c->published_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, c, 4096, "OTEL_CTX");
}

static void (*enter)(struct span_record *);
static double until;

NOINLINE void hot_seventy(void) { spin(70); sink++; }
NOINLINE void hot_thirty(void) { spin(30); sink++; }

static void fill(struct span_record *r, uint8_t id, const char *route)
{
    size_t n = strlen(route);

    memset(r->trace_id, id, sizeof(r->trace_id));
    memset(r->span_id, id + 1, sizeof(r->span_id));
    r->attrs[0] = 0;
    r->attrs[1] = (uint8_t)n;
    memcpy(r->attrs + 2, route, n);
    /* And one whose key is in no map. */
    memcpy(r->attrs + 2 + n, "\x7f\x02no", 4);
    r->attrs_size = (uint16_t)(n + 6);
    r->valid = 1;
}

static struct span_record *wrong(struct span_record *r, const char *how)
{
    if (strcmp(how, "unmapped") == 0)
        return (struct span_record *)0x10;
    if (strcmp(how, "kernel") == 0)
        return (struct span_record *)0xffffffff81000000ul;
    if (strcmp(how, "invalid") == 0)
        r->valid = 2;
    if (strcmp(how, "zero") == 0)
        memset(r->trace_id, 0, sizeof(r->trace_id));
    if (strcmp(how, "huge") == 0) {
        memset(r->attrs, 0xff, sizeof(r->attrs));
        r->attrs_size = 65535;
    }
    if (strcmp(how, "edge") == 0) { /* its attributes are where nothing is mapped */
        uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct span_record *at = (struct span_record *)(page + 4096 - 28);
        memcpy(at, r, 28);
        munmap(page + 4096, 4096);
        return at;
    }
    return r;
}

static void *run(void *how)
{
    struct span_record *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

    fill(a, 0xa0, "/cart");
    fill(b, 0xb0, "/pay");
    a = wrong(a, how);
    b = wrong(b, how);
    while (strcmp(how, "sleeps") == 0 && seconds_now() < until) {
        enter(a);
        usleep(91000);
        enter(b);
        usleep(39000);
    }
    while (seconds_now() < until) {
        enter(a);
        hot_seventy();
        enter(b);
        hot_thirty();
        enter(NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int next = 2;

    until = seconds_now() + seconds_asked(argc, argv);
#ifdef LOADED
    double later = seconds_now() + 0.3;
    while (seconds_now() < later)
        hot_thirty();
    void *library = dlopen(argv[next++], RTLD_NOW);
    enter = library ? (void (*)(struct span_record *))dlsym(library, "span_enter") : NULL;
    if (!enter) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#else
    enter = span_enter;
#endif
    publish();
    /* A recording comes to know a program by its first CPU samples. */
    for (double later = seconds_now() + 0.4; argc > next && seconds_now() < later;)
        hot_thirty();
    if (pthread_create(&thread, NULL, run, argc > next ? argv[next] : "") != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}
