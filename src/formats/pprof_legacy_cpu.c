/*
 * The binary CPU profile of gperftools: words of 4 or 8 bytes in either byte order. A header of
 * five (0, 3, 0 or 1 for Java, the period in microseconds, 0), then for each stack its count, its
 * depth and that many addresses, an end mark of 0, 1, 0, and a memory map as text.
 */
#include <errno.h>

#include "base/hash.h"
#include "formats/pprof_legacy_internal.h"

struct words {
    const uint8_t *start, *pos, *end;
    size_t size;
    bool is_big_endian;
};

static bool take_u(struct words *w, uint64_t *ret)
{
    uint64_t v = 0;

    if ((size_t)(w->end - w->pos) < w->size)
        return false;
    for (size_t i = 0; i < w->size; i++)
        v |= (uint64_t)w->pos[i] << 8 * (w->is_big_endian ? w->size - 1 - i : i);
    w->pos += w->size;
    *ret = v;
    return true;
}

struct cpu_header {
    bool is_java;
    int64_t period_us;
};

static bool take_header(struct words *w, struct cpu_header *ret)
{
    uint64_t h[5];

    for (size_t i = 0; i < 5; i++) {
        if (!take_u(w, &h[i]))
            return false;
    }
    if (h[0] != 0 || h[1] != 3 || h[2] > 1 || h[3] == 0 || h[3] > INT64_MAX / 1000 || h[4] != 0)
        return false;
    *ret = (struct cpu_header){h[2] == 1, (int64_t)h[3]};
    return true;
}

/* Finds the word size and byte order in which the header makes sense. */
static bool find_header(struct bytes all, struct words *ret, struct cpu_header *header)
{
    for (int i = 0; i < 4; i++) {
        struct words w = {.start = all.data,
                          .pos = all.data,
                          .end = all.data + all.len,
                          .size = i < 2 ? 4 : 8,
                          .is_big_endian = i % 2 == 1};
        if (take_header(&w, header)) {
            *ret = w;
            return true;
        }
    }
    return false;
}

int legacy_sniff_cpu(struct bytes head)
{
    struct words w;
    struct cpu_header header;

    return find_header(head, &w, &header) ? 95 : 0;
}

static int fail_at(struct legacy *l, const struct words *w, const char *why)
{
    return error_set(l->err, -EBADMSG, "pprof-legacy at byte %zu: %s", (size_t)(w->pos - w->start),
                     why);
}

static int read_samples(struct legacy *l, struct words *w, bool is_java)
{
    while (w->pos < w->end && !budget_failed(l->budget)) {
        struct words begin = *w;
        uint64_t count, depth, address = 0;
        if (!take_u(w, &count) || !take_u(w, &depth))
            return fail_at(l, &begin, "a sample is cut short");
        if (depth > (size_t)(w->end - w->pos) / w->size)
            return fail_at(l, &begin, "a stack is deeper than the file is long");
        if (count == 0 && depth == 1) {
            struct words after = *w;
            if (take_u(&after, &address) && address == 0) {
                *w = after;
                break;
            }
        }
        for (uint64_t i = 0; i < depth; i++) {
            (void)take_u(w, &address);
            legacy_add_frame(l, address - (i > 0 && !is_java));
        }
        struct legacy_sample s = {.values = {(int64_t)count}};
        if (__builtin_mul_overflow(s.values[0], l->profile->period, &s.values[1]))
            return fail_at(l, &begin, "a count is too large");
        legacy_add_sample(l, s);
    }
    return 0;
}

static uint64_t second_address(const struct legacy *l, const struct legacy_sample *s)
{
    return l->places.data[l->refs.data[s->first + 1]].address;
}

/* The most frequent second frame, found by keeping a candidate and its lead: it is the one sought
 * if any is in more than half of the samples. */
static uint64_t likely_second(const struct legacy *l)
{
    uint64_t candidate = 0;
    size_t lead = 0;

    for (size_t i = 0; i < l->samples.len; i++) {
        const struct legacy_sample *s = &l->samples.data[i];
        if (s->n < 2)
            continue;
        uint64_t address = second_address(l, s);
        if (lead == 0)
            candidate = address;
        lead = address == candidate ? lead + 1 : lead - 1;
    }
    return candidate;
}

/*
 * A second frame that nearly all samples have is the signal handler's, not the program's: pprof
 * drops up to two of them, allowing for one other in 32 samples.
 */
static void drop_handler_frames(struct legacy *l)
{
    size_t n = l->samples.len, allowed = n / 32;

    for (int round = 0; round < 2; round++) {
        uint64_t address = likely_second(l);
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            count += l->samples.data[i].n > 1 && second_address(l, &l->samples.data[i]) == address;
        if (count == 0 || count < n - allowed)
            return;
        for (size_t i = 0; i < n; i++) {
            struct legacy_sample *s = &l->samples.data[i];
            if (s->n < 2 || second_address(l, s) != address)
                continue;
            l->refs.data[s->first + 1] = l->refs.data[s->first];
            s->first++;
            s->n--;
        }
    }
}

int legacy_read_cpu(struct legacy *l, struct bytes all)
{
    struct words w;
    struct cpu_header header;

    if (!find_header(all, &w, &header))
        return legacy_fail(l, "not a CPU profile");
    l->profile->period = header.period_us * 1000;
    l->profile->period_type =
        (struct value_type){dict_cstring(l->dict, "cpu"), dict_cstring(l->dict, "nanoseconds")};
    profile_add_ctype(l->profile, "samples", "count");
    profile_add_ctype(l->profile, "cpu", "nanoseconds");
    int r = read_samples(l, &w, header.is_java);
    if (r < 0 || budget_failed(l->budget))
        return r;
    l->rest = (struct bytes){w.pos, (size_t)(w.end - w.pos)};
    l->line = 0;
    if (header.is_java)
        return legacy_read_java_places(l);
    drop_handler_frames(l);
    legacy_read_maps(l);
    legacy_drop_doubled_leaves(l);
    return 0;
}
