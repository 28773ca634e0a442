#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/idset.h"
#include "base/vec.h"

/* What everything in a JFR recording is written with: numbers, texts and ids. */

/* Failures are sticky: a failed reader is at its end. */
struct jfr_reader {
    const uint8_t *pos, *end;
    bool compressed; /* integers are LEB128; else big-endian at full width */
    const char *failure;
    const uint8_t *failed_at;
};

static inline void jfr_stop(struct jfr_reader *r, const char *why)
{
    if (!r->failure) {
        r->failure = why;
        r->failed_at = r->pos;
    }
    r->pos = r->end;
}

static inline size_t jfr_left(const struct jfr_reader *r)
{
    return (size_t)(r->end - r->pos);
}

/* LEB128 as JFR has it: nine bytes at most, the ninth with eight bits of its own. */
static inline uint64_t jfr_varint(struct jfr_reader *r)
{
    const uint8_t *p = r->pos;

    if (__builtin_expect(p < r->end && *p < 0x80, 1)) {
        r->pos = p + 1;
        return *p;
    }
    uint64_t v = 0;
    for (unsigned shift = 0; p < r->end; shift += 7) {
        uint64_t b = *p++;
        if (shift == 56 || b < 0x80) {
            r->pos = p;
            return v | b << shift;
        }
        v |= (b & 0x7f) << shift;
    }
    jfr_stop(r, "an integer is cut short");
    return 0;
}

static inline uint64_t jfr_fixed(struct jfr_reader *r, size_t n)
{
    uint64_t v = 0;

    if (jfr_left(r) < n) {
        jfr_stop(r, "a number is cut short");
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        v = v << 8 | r->pos[i];
    r->pos += n;
    return v;
}

/* A Java int (sizes, counts, indexes) and a Java long (ids, times). */
static inline uint64_t jfr_int(struct jfr_reader *r)
{
    return r->compressed ? jfr_varint(r) : jfr_fixed(r, 4);
}

static inline uint64_t jfr_long(struct jfr_reader *r)
{
    return r->compressed ? jfr_varint(r) : jfr_fixed(r, 8);
}

/* A string as it was written: its bytes, or the constant it refers to. */
enum jfr_encoding {
    JFR_TEXT_NULL = 0,
    JFR_TEXT_EMPTY = 1,
    JFR_TEXT_STRING = 2, /* a constant of the string pool */
    JFR_TEXT_UTF8 = 3,
    JFR_TEXT_CHARS = 4, /* UTF-16 units as integers */
    JFR_TEXT_LATIN1 = 5,
    JFR_TEXT_SYMBOL = 6, /* a constant of the symbol pool; ours, never in a file */
};

struct jfr_text {
    enum jfr_encoding encoding;
    bool compressed; /* how JFR_TEXT_CHARS are written */
    bool is_clean;   /* JFR_TEXT_UTF8 that was checked */
    uint64_t ref;
    struct bytes raw;
};

struct jfr_text jfr_read_text(struct jfr_reader *r);

/* Valid UTF-8 of a text that is no reference; borrowed from the input or from the arena. */
struct bytes jfr_text_utf8(struct arena *a, struct jfr_text t);

/* Ids of any size mapped to 0, 1, 2... in order of arrival. */
struct jfr_ids {
    VEC(uint64_t) ids;
    struct idset index;
    VEC(uint32_t) low; /* position + 1 by id, for small ids: most are */
};

#define JFR_NO_ID UINT32_MAX

/* The position of a new id, or JFR_NO_ID when it is there already or the budget is spent. */
uint32_t jfr_ids_add(struct budget *b, struct jfr_ids *ids, uint64_t id);
uint32_t jfr_ids_find_far(const struct jfr_ids *ids, uint64_t id);
void jfr_ids_done(struct budget *b, struct jfr_ids *ids);

static inline uint32_t jfr_ids_find(const struct jfr_ids *ids, uint64_t id)
{
    if (__builtin_expect(id < ids->low.len && ids->low.data[id], 1))
        return ids->low.data[id] - 1;
    return jfr_ids_find_far(ids, id);
}
