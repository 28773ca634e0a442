#include <stdio.h>
#include <stdlib.h>

#include "floor.h"
#include "wire/protobuf.h"

#define N_FUNCTIONS 6000
#define N_LOCATIONS 20000
#define N_STACKS    80000
#define DEPTH_MIN   10
#define DEPTH_MAX   40
#define N_THREADS   48

/* String table: "", the types, label keys, then names and files of functions, then threads. */
enum { S_SAMPLES = 1, S_COUNT, S_CPU, S_NANOSECONDS, S_THREAD, S_BYTES, S_BINARY, S_FIRST_NAME };

static uint64_t state;

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* 0..n-1, small numbers much more often. */
static uint32_t skewed(uint32_t n)
{
    uint64_t r = random64();
    uint32_t a = (uint32_t)((r & 0xffffffff) * n >> 32), b = (uint32_t)((r >> 32) * (a + 1) >> 32);
    return b;
}

struct stacks {
    uint32_t *refs;  /* location ids, leaf first */
    uint32_t *first; /* N_STACKS + 1 */
};

/* The location of the k-th callee below a path: the same path always calls the same places. */
static uint32_t callee(uint64_t path, uint32_t k)
{
    uint64_t h = (path ^ k * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)((h >> 32) % N_LOCATIONS) + 1;
}

static void grow_stacks(struct stacks *s)
{
    uint32_t n = 0;

    s->refs = calloc((size_t)N_STACKS * DEPTH_MAX, sizeof(*s->refs));
    s->first = calloc(N_STACKS + 1, sizeof(*s->first));
    if (!s->refs || !s->first)
        abort();
    for (size_t i = 0; i < N_STACKS; i++) {
        uint32_t root_first[DEPTH_MAX], depth = 0;
        uint64_t path = 1;
        while (depth < DEPTH_MAX && (depth < DEPTH_MIN || random64() % 16 != 0)) {
            /* Few callees near the root and near the leaves, more in between. */
            uint32_t fan = depth < 4 ? 2 : depth < 14 ? 4 : 2;
            root_first[depth] = callee(path, skewed(fan));
            path = (path ^ root_first[depth++]) * 0x94D049BB133111EBu;
        }
        s->first[i] = n;
        while (depth > 0)
            s->refs[n++] = root_first[--depth];
    }
    s->first[N_STACKS] = n;
}

static void put_value_type(struct buf *out, uint32_t field, uint32_t type, uint32_t unit)
{
    size_t at = pb_begin(out, field);
    pb_put_u64(out, 1, type);
    pb_put_u64(out, 2, unit);
    pb_end(out, at);
}

static void put_label(struct buf *out, uint32_t key, uint32_t text, uint64_t number)
{
    size_t at = pb_begin(out, 3);
    pb_put_u64(out, 1, key);
    pb_put_u64_opt(out, 2, text);
    pb_put_u64_opt(out, 3, number);
    pb_end(out, at);
}

static void put_sample(struct buf *out, const struct stacks *s)
{
    uint32_t stack = skewed(N_STACKS) * 2654435761u % N_STACKS, count = 1 + skewed(20);
    size_t message = pb_begin(out, 2), at = pb_begin(out, 1);

    for (uint32_t i = s->first[stack]; i < s->first[stack + 1]; i++)
        pb_put_varint(out, s->refs[i]);
    pb_end(out, at);
    at = pb_begin(out, 2);
    pb_put_varint(out, count);
    pb_put_varint(out, count * UINT64_C(10000000));
    pb_end(out, at);
    uint32_t choice = (uint32_t)(random64() >> 40) % 10;
    if (choice < 2)
        put_label(out, S_THREAD, S_FIRST_NAME + N_FUNCTIONS * 2 + skewed(N_THREADS), 0);
    if (choice == 0)
        put_label(out, S_BYTES, 0, UINT64_C(16) << skewed(12));
    pb_end(out, message);
}

static void put_tables(struct buf *out)
{
    size_t at = pb_begin(out, 3);
    pb_put_u64(out, 1, 1);
    pb_put_u64(out, 2, 0x400000);
    pb_put_u64(out, 3, 0x8000000);
    pb_put_u64(out, 5, S_BINARY);
    pb_put_u64(out, 7, 1);
    pb_end(out, at);
    for (uint32_t i = 1; i <= N_LOCATIONS; i++) {
        at = pb_begin(out, 4);
        pb_put_u64(out, 1, i);
        pb_put_u64(out, 2, 1);
        pb_put_u64(out, 3, 0x400000 + (uint64_t)i * 97);
        for (uint32_t n = i % 7 == 0 ? 2 : 1; n > 0; n--) {
            size_t line = pb_begin(out, 4);
            pb_put_u64(out, 1, (i * 31 + n) % N_FUNCTIONS + 1);
            pb_put_u64(out, 2, i % 900 + n);
            pb_end(out, line);
        }
        pb_end(out, at);
    }
    for (uint32_t i = 0; i < N_FUNCTIONS; i++) {
        at = pb_begin(out, 5);
        pb_put_u64(out, 1, i + 1);
        pb_put_u64(out, 2, S_FIRST_NAME + i * 2);
        pb_put_u64(out, 3, S_FIRST_NAME + i * 2);
        pb_put_u64(out, 4, S_FIRST_NAME + i * 2 + 1);
        pb_put_u64(out, 5, i % 700 + 1);
        pb_end(out, at);
    }
}

__attribute__((format(printf, 2, 3))) static void put_string(struct buf *out, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    pb_put_bytes(out, 6, (struct bytes){(const uint8_t *)text, (size_t)n});
}

static void put_strings(struct buf *out)
{
    static const char *const first[] = {
        "", "samples", "count", "cpu", "nanoseconds", "thread", "bytes", "/srv/shop/checkout"};

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        put_string(out, "%s", first[i]);
    for (uint32_t i = 0; i < N_FUNCTIONS; i++) {
        put_string(out, "example.com/shop/checkout/internal/%s%u.(*%s).Handle%u",
                   i % 3 ? "cart" : "payment", i % 211, i % 2 ? "Session" : "Controller", i);
        put_string(out, "/build/checkout/internal/%s%u/handler_%u.go", i % 3 ? "cart" : "payment",
                   i % 211, i);
    }
    for (uint32_t i = 0; i < N_THREADS; i++)
        put_string(out, "worker-%u", i);
}

void synth_pprof(size_t n_samples, struct buf *out)
{
    struct stacks s;

    state = 88172645463325252u;
    grow_stacks(&s);
    put_value_type(out, 1, S_SAMPLES, S_COUNT);
    put_value_type(out, 1, S_CPU, S_NANOSECONDS);
    for (size_t i = 0; i < n_samples; i++)
        put_sample(out, &s);
    put_tables(out);
    put_strings(out);
    pb_put_u64(out, 9, UINT64_C(1700000000000000000));
    pb_put_u64(out, 10, UINT64_C(60000000000));
    put_value_type(out, 11, S_CPU, S_NANOSECONDS);
    pb_put_u64(out, 12, 10000000);
    free(s.refs);
    free(s.first);
}
