#include "formats/jfr_read.h"

#include "base/hash.h"

struct jfr_text jfr_read_text(struct jfr_reader *r)
{
    struct jfr_text t = {.compressed = r->compressed};

    t.encoding = (enum jfr_encoding)jfr_fixed(r, 1);
    switch (t.encoding) {
    case JFR_TEXT_NULL:
    case JFR_TEXT_EMPTY:
        return t;
    case JFR_TEXT_STRING:
        t.ref = jfr_long(r);
        return t;
    case JFR_TEXT_UTF8:
    case JFR_TEXT_LATIN1: {
        uint64_t n = jfr_int(r);
        if (n > jfr_left(r)) {
            jfr_stop(r, "a string runs past the end of what holds it");
            break;
        }
        t.raw = (struct bytes){r->pos, (size_t)n};
        r->pos += n;
        return t;
    }
    case JFR_TEXT_CHARS: {
        uint64_t n = jfr_int(r);
        if (n > jfr_left(r)) {
            jfr_stop(r, "a string runs past the end of what holds it");
            break;
        }
        const uint8_t *from = r->pos;
        for (uint64_t i = 0; i < n && !r->failure; i++)
            r->compressed ? jfr_varint(r) : jfr_fixed(r, 2);
        t.raw = (struct bytes){from, (size_t)(r->pos - from)};
        return t;
    }
    case JFR_TEXT_SYMBOL:
    default:
        r->pos -= r->failure ? 0 : 1;
        jfr_stop(r, "a string has an encoding that does not exist");
        break;
    }
    return (struct jfr_text){0};
}

static size_t put_utf8(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xc0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | c >> 18);
    to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/* Where UTF-8 goes to. Surrogate pairs are joined; a half without the other is replaced. */
struct sink {
    uint8_t *to;
    size_t n;
    uint32_t high; /* the first half of a pair, waiting for the second */
};

#define REPLACEMENT 0xfffd

static void sink_add(struct sink *s, uint32_t c)
{
    bool is_high = c >= 0xd800 && c < 0xdc00, is_low = c >= 0xdc00 && c < 0xe000;

    if (s->high && is_low) {
        s->n += put_utf8(s->to + s->n, 0x10000 + ((s->high - 0xd800) << 10) + (c - 0xdc00));
        s->high = 0;
        return;
    }
    if (s->high)
        s->n += put_utf8(s->to + s->n, REPLACEMENT);
    s->high = is_high ? c : 0;
    if (!is_high)
        s->n += put_utf8(s->to + s->n, is_low ? REPLACEMENT : c);
}

static struct bytes sink_end(struct sink *s)
{
    if (s->high)
        s->n += put_utf8(s->to + s->n, REPLACEMENT);
    return (struct bytes){s->to, s->n};
}

/* Room for the worst case: every byte replaced by the three of U+FFFD. */
static bool sink_begin(struct sink *s, struct arena *a, size_t n_bytes)
{
    *s = (struct sink){.to = arena_new(a, uint8_t, n_bytes * 3)};
    return s->to != NULL;
}

static struct bytes chars_to_utf8(struct arena *a, struct jfr_text t)
{
    struct jfr_reader r = {
        .pos = t.raw.data, .end = t.raw.data + t.raw.len, .compressed = t.compressed};
    struct sink s;

    if (t.raw.len == 0 || !sink_begin(&s, a, t.raw.len))
        return (struct bytes){0};
    while (jfr_left(&r) > 0)
        sink_add(&s, (uint32_t)(r.compressed ? jfr_varint(&r) : jfr_fixed(&r, 2)) & 0xffff);
    return sink_end(&s);
}

/* The code point or UTF-16 unit at p and its length; an invalid byte is one to be replaced. */
static uint32_t decode_utf8(const uint8_t *p, size_t left, size_t *ret_len)
{
    static const uint8_t lengths[16] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 4};
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = lengths[*p >> 4];
    uint32_t c = len == 1 ? *p : *p & (0x7fu >> len);

    *ret_len = 1;
    if (len == 0 || len > left)
        return REPLACEMENT;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return REPLACEMENT;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[len] || c > 0x10ffff)
        return REPLACEMENT;
    *ret_len = len;
    return c;
}

/* The JVM's own UTF-8 spells characters beyond 16 bits as two of three bytes each. */
static struct bytes clean_utf8(struct arena *a, struct bytes raw)
{
    struct sink s;
    uint8_t all = 0;

    for (size_t i = 0; i < raw.len; i++)
        all |= raw.data[i];
    if (all < 0x80)
        return raw;
    if (!sink_begin(&s, a, raw.len))
        return (struct bytes){0};
    for (size_t i = 0, len; i < raw.len; i += len)
        sink_add(&s, decode_utf8(raw.data + i, raw.len - i, &len));
    return sink_end(&s);
}

static struct bytes latin1_to_utf8(struct arena *a, struct bytes raw)
{
    size_t high = 0, n = 0;

    for (size_t i = 0; i < raw.len; i++)
        high += raw.data[i] >= 0x80;
    if (high == 0)
        return raw;
    uint8_t *to = arena_new(a, uint8_t, raw.len + high);
    if (!to)
        return (struct bytes){0};
    for (size_t i = 0; i < raw.len; i++)
        n += put_utf8(to + n, raw.data[i]);
    return (struct bytes){to, n};
}

struct bytes jfr_text_utf8(struct arena *a, struct jfr_text t)
{
    switch (t.encoding) {
    case JFR_TEXT_UTF8:
        return t.is_clean ? t.raw : clean_utf8(a, t.raw);
    case JFR_TEXT_LATIN1:
        return latin1_to_utf8(a, t.raw);
    case JFR_TEXT_CHARS:
        return chars_to_utf8(a, t);
    case JFR_TEXT_NULL:
    case JFR_TEXT_EMPTY:
    case JFR_TEXT_STRING:
    case JFR_TEXT_SYMBOL:
        break;
    }
    return (struct bytes){0};
}

static uint64_t id_hash(uint64_t id)
{
    return hash_mix(id, 0x2545F4914F6CDD1Du);
}

uint32_t jfr_ids_find_far(const struct jfr_ids *ids, uint64_t id)
{
    return IDSET_FIND(&ids->index, id_hash(id), i, ids->ids.data[i] == id);
}

/* Room for `id` in the table of small ids, as long as that stays in proportion to their number. */
static bool is_dense(struct budget *b, struct jfr_ids *ids, uint64_t id)
{
    if (id < ids->low.len)
        return true;
    if (id >= (ids->ids.len + 32) * 8)
        return false;
    size_t n = ids->low.len ? ids->low.len : 64;
    while (n <= id)
        n *= 2;
    return vec_resize(b, &ids->low, n);
}

uint32_t jfr_ids_add(struct budget *b, struct jfr_ids *ids, uint64_t id)
{
    size_t n = ids->ids.len;

    if (jfr_ids_find(ids, id) != JFR_NO_ID || n >= JFR_NO_ID - 1 || !vec_push(b, &ids->ids, id))
        return JFR_NO_ID;
    if (is_dense(b, ids, id)) {
        ids->low.data[id] = (uint32_t)n + 1;
    } else if (!idset_add(b, &ids->index, id_hash(id), (uint32_t)n)) {
        ids->ids.len = n;
        return JFR_NO_ID;
    }
    return (uint32_t)n;
}

void jfr_ids_done(struct budget *b, struct jfr_ids *ids)
{
    vec_done(b, &ids->ids);
    vec_done(b, &ids->low);
    idset_done(b, &ids->index);
}
