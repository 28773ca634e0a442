/* From addresses, samples and a memory map to a profile: see pprof_legacy_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "base/hex.h"
#include "formats/pprof_legacy_internal.h"

bool legacy_next_line(struct legacy *l, struct bytes *ret)
{
    if (!bytes_next_line(&l->rest, ret))
        return false;
    l->line++;
    return true;
}

int legacy_fail(struct legacy *l, const char *fmt, ...)
{
    char why[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    return error_set(l->err, -EBADMSG, "pprof-legacy at line %zu: %s", l->line, why);
}

bool take_text(struct bytes *s, const char *text)
{
    struct bytes t = bytes_of(text);

    if (!bytes_start_with(*s, t))
        return false;
    *s = bytes_from(*s, t.len);
    return true;
}

bool take_spaces(struct bytes *s)
{
    size_t n = 0;

    while (n < s->len && is_space(s->data[n]))
        n++;
    *s = bytes_from(*s, n);
    return n > 0;
}

bool take_u64(struct bytes *s, uint64_t *ret)
{
    size_t n = 0;

    while (n < s->len && is_digit(s->data[n]))
        n++;
    if (!bytes_to_u64(bytes_head(*s, n), ret))
        return false;
    *s = bytes_from(*s, n);
    return true;
}

bool take_i64(struct bytes *s, int64_t *ret)
{
    size_t n = s->len > 0 && s->data[0] == '-';

    while (n < s->len && is_digit(s->data[n]))
        n++;
    if (!bytes_to_i64(bytes_head(*s, n), ret))
        return false;
    *s = bytes_from(*s, n);
    return true;
}

bool take_hex(struct bytes *s, uint64_t *ret)
{
    struct bytes at = *s;
    size_t n = 0;

    (void)take_text(&at, "0x");
    while (n < at.len && hex_digit(at.data[n]) >= 0)
        n++;
    if (n == 0 || !bytes_to_hex(bytes_head(at, n), ret))
        return false;
    *s = bytes_from(at, n);
    return true;
}

bool take_word(struct bytes *s, struct bytes *ret)
{
    size_t n = 0;

    while (n < s->len && !is_space(s->data[n]))
        n++;
    *ret = bytes_head(*s, n);
    *s = bytes_from(*s, n);
    return n > 0;
}

static uint32_t find_place(const struct legacy *l, uint64_t address)
{
    return IDSET_FIND(&l->place_index, hash_mix(address, 2), i,
                      l->places.data[i].address == address);
}

void legacy_add_frame(struct legacy *l, uint64_t address)
{
    uint32_t at = find_place(l, address);

    if (at == IDSET_NONE) {
        at = (uint32_t)l->places.len;
        if (l->places.len >= UINT32_MAX - 1 ||
            !vec_push(l->budget, &l->places, (struct legacy_place){.address = address}) ||
            !idset_add(l->budget, &l->place_index, hash_mix(address, 2), at)) {
            l->budget->failed = true;
            return;
        }
    }
    vec_push(l->budget, &l->refs, at);
}

static size_t frames_before(const struct legacy *l)
{
    return l->samples.len ? vec_last(&l->samples).first + vec_last(&l->samples).n : 0;
}

size_t legacy_frames(const struct legacy *l)
{
    return l->refs.len - frames_before(l);
}

void legacy_add_sample(struct legacy *l, struct legacy_sample s)
{
    s.first = frames_before(l);
    s.n = l->refs.len - s.first;
    vec_push(l->budget, &l->samples, s);
}

int legacy_add_addresses(struct legacy *l, struct bytes text, size_t adjust_from)
{
    static const char prefix[] = "0x";

    for (;;) {
        const uint8_t *at = bytes_find(text, BYTES(prefix));
        if (!at)
            return 0;
        text = bytes_from(text, (size_t)(at - text.data));
        struct bytes after = bytes_from(text, 2);
        uint64_t address;
        if (after.len > 0 && hex_digit(after.data[0]) >= 0) {
            if (!take_hex(&after, &address))
                return legacy_fail(l, "an address is larger than 64 bits");
            legacy_add_frame(l, address - (legacy_frames(l) >= adjust_from));
        }
        text = after;
    }
}

void legacy_drop_doubled_leaves(struct legacy *l)
{
    for (size_t i = 0; i < l->samples.len; i++) {
        struct legacy_sample *s = &l->samples.data[i];
        uint32_t *refs = l->refs.data + s->first;
        if (s->n < 2 || l->places.data[refs[0]].address != l->places.data[refs[1]].address + 1)
            continue;
        refs[1] = refs[0];
        s->first++;
        s->n--;
    }
}

void legacy_unsample(int64_t *count, int64_t *size, int64_t rate)
{
    if (*count == 0 || *size == 0) {
        *count = *size = 0;
        return;
    }
    if (rate <= 1)
        return;
    double average = (double)*size / (double)*count;
    double scale = 1 / (1 - exp(-average / (double)rate));
    double scaled_count = (double)*count * scale, scaled_size = (double)*size * scale;
    /* Beyond 64 bits there is nothing to estimate; such input is made up. */
    if (fabs(scaled_count) < 9e18 && fabs(scaled_size) < 9e18) {
        *count = (int64_t)scaled_count;
        *size = (int64_t)scaled_size;
    }
}

/* The first mapping of the list, as pprof orders it, is the main binary. */
static bool is_library(struct bytes file)
{
    for (const uint8_t *at; (at = bytes_find(file, BYTES(".so"))) != NULL;) {
        file = bytes_from(file, (size_t)(at - file.data) + 3);
        if (file.len == 0 || (file.len > 1 && (file.data[0] == '.' || file.data[0] == '_') &&
                              is_digit(file.data[1])))
            return true;
    }
    return false;
}

static struct bytes without_deleted(struct bytes file)
{
    static const char mark[] = "(deleted)";

    file = bytes_trim(file);
    if (file.len >= sizeof(mark) - 1 &&
        bytes_are(bytes_from(file, file.len - (sizeof(mark) - 1)), mark))
        file = bytes_trim(bytes_head(file, file.len - (sizeof(mark) - 1)));
    return file;
}

static bool are_adjacent(const struct mapping *a, const struct mapping *b)
{
    return !(a->file && b->file && a->file != b->file) &&
           !(a->build_id && b->build_id && a->build_id != b->build_id) && a->limit == b->start &&
           !(a->offset && b->offset && a->offset + (a->limit - a->start) != b->offset);
}

/* Joins regions that are one, and puts the likely main binary first. */
static void tidy_maps(struct legacy *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->maps.len; i++) {
        struct mapping m = l->maps.data[i];
        if (kept > 0 && are_adjacent(&l->maps.data[kept - 1], &m)) {
            struct mapping *last = &l->maps.data[kept - 1];
            last->limit = m.limit;
            last->file = m.file ? m.file : last->file;
            last->build_id = m.build_id ? m.build_id : last->build_id;
        } else {
            l->maps.data[kept++] = m;
        }
    }
    l->maps.len = kept;
    for (size_t i = 0; i < kept; i++) {
        struct bytes file = without_deleted(dict_text(l->dict, l->maps.data[i].file));
        if (file.len == 0 || file.data[0] == '[' || is_library(file))
            continue;
        struct mapping first = l->maps.data[0];
        l->maps.data[0] = l->maps.data[i];
        l->maps.data[i] = first;
        break;
    }
}

/* Some older tools describe a remapped main binary wrongly. */
static void mend_maps(struct legacy *l)
{
    static const uint64_t usual_start = 0x400000;
    struct mapping *m = l->maps.data;

    if (l->maps.len > 1 && m[0].limit == m[1].start &&
        bytes_start_with(dict_text(l->dict, m[0].file), BYTES("/anon_hugepage"))) {
        memmove(m, m + 1, (l->maps.len - 1) * sizeof(*m));
        l->maps.len--;
    }
    if (l->maps.len > 0 && m[0].start - m[0].offset == usual_start) {
        m[0].start = usual_start;
        m[0].offset = 0;
    }
}

struct map_order {
    const struct mapping *maps;
    uint32_t *by_start; /* indexes */
    size_t n;
    bool overlap;
};

static int compare_starts(const void *a, const void *b, void *maps)
{
    const struct mapping *x = (const struct mapping *)maps + *(const uint32_t *)a;
    const struct mapping *y = (const struct mapping *)maps + *(const uint32_t *)b;

    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (*(const uint32_t *)a > *(const uint32_t *)b) * 2 - 1;
}

/* The mapping with the smallest start above an address is by_start[this]; n when there is none. */
static size_t first_above(const struct map_order *o, uint64_t address)
{
    return BISECT(o->n, i, o->maps[o->by_start[i]].start <= address);
}

static bool contains(const struct mapping *m, uint64_t address)
{
    return m->start <= address && address < m->limit;
}

/* The index of the first mapping in the list that holds an address, or n. */
static size_t find_map(const struct map_order *o, uint64_t address)
{
    if (o->overlap) {
        for (size_t i = 0; i < o->n; i++) {
            if (contains(&o->maps[i], address))
                return i;
        }
        return o->n;
    }
    size_t above = first_above(o, address);
    if (above > 0 && contains(&o->maps[o->by_start[above - 1]], address))
        return o->by_start[above - 1];
    return o->n;
}

/* Older tools leave out the first part of a mapping that was split: then the offset gives it. */
static size_t find_split_map(const struct map_order *o, struct mapping *maps, uint64_t address)
{
    size_t above = first_above(o, address);

    if (above == o->n)
        return o->n;
    struct mapping *m = &maps[o->by_start[above]];
    if (m->offset == 0 || m->offset > m->start || m->start - m->offset > address)
        return o->n;
    m->start -= m->offset;
    m->offset = 0;
    return o->by_start[above];
}

/* Overlapping maps are searched one by one; no real file comes near this. */
#define OVERLAP_WORK_MAX ((uint64_t)200 * 1000 * 1000)

static int order_maps(struct legacy *l, struct map_order *o)
{
    void *p = NULL;

    *o = (struct map_order){.maps = l->maps.data, .n = l->maps.len};
    if (!budget_resize(l->budget, &p, 0, o->n * sizeof(*o->by_start)))
        return budget_error(l->budget, l->err);
    o->by_start = p;
    for (size_t i = 0; i < o->n; i++)
        o->by_start[i] = (uint32_t)i;
    if (o->n > 1)
        qsort_r(o->by_start, o->n, sizeof(*o->by_start), compare_starts, l->maps.data);
    for (size_t i = 1; i < o->n; i++)
        o->overlap |= o->maps[o->by_start[i - 1]].limit > o->maps[o->by_start[i]].start;
    if (o->overlap && (uint64_t)o->n * l->places.len > OVERLAP_WORK_MAX) {
        budget_free(l->budget, o->by_start, o->n * sizeof(*o->by_start));
        return legacy_fail(l, "the memory map holds %zu mappings that overlap", o->n);
    }
    return 0;
}

#define NO_MAP UINT32_MAX

/* For each place the index of its mapping. One that lies in none gets a mapping of everything, as
 * pprof makes it: profiles of Go have no memory map at all. */
static int assign_maps(struct legacy *l, uint32_t *map_of)
{
    struct map_order o;
    size_t everything = SIZE_MAX;
    int r = order_maps(l, &o);
    if (r < 0)
        return r;

    for (size_t i = 0; i < l->places.len; i++) {
        const struct legacy_place *place = &l->places.data[i];
        map_of[i] = NO_MAP;
        if (!place->is_used || place->address == 0 || place->has_line)
            continue;
        size_t at = find_map(&o, place->address);
        if (at == o.n)
            at = find_split_map(&o, l->maps.data, place->address);
        if (at == o.n && everything == SIZE_MAX)
            everything = o.n;
        map_of[i] = (uint32_t)at;
    }
    budget_free(l->budget, o.by_start, o.n * sizeof(*o.by_start));
    if (everything != SIZE_MAX)
        vec_push(l->budget, &l->maps, (struct mapping){.limit = UINT64_MAX});
    return 0;
}

static void mark_used(struct legacy *l)
{
    for (size_t i = 0; i < l->samples.len; i++) {
        const struct legacy_sample *s = &l->samples.data[i];
        for (size_t k = 0; k < s->n; k++)
            l->places.data[l->refs.data[s->first + k]].is_used = true;
    }
}

/* Interns the mappings, in order, and the locations; `ids` goes from map indexes to location ids.
 */
static void add_locations(struct legacy *l, uint32_t *ids)
{
    VEC(uint32_t) mappings = {0};

    for (size_t i = 0; i < l->maps.len; i++) {
        uint32_t id = dict_mapping(l->dict, l->maps.data[i]);
        vec_push(l->budget, &mappings, id);
        vec_push(l->budget, &l->profile->mappings, id);
    }
    if (mappings.len)
        l->profile->default_mapping = mappings.data[0];
    for (size_t i = 0; i < l->places.len && !budget_failed(l->budget); i++) {
        const struct legacy_place *place = &l->places.data[i];
        struct line line = {.function = place->function, .line = place->line};
        uint32_t mapping = ids[i] == NO_MAP ? 0 : mappings.data[ids[i]];
        ids[i] = 0;
        if (place->is_used)
            ids[i] =
                dict_location(l->dict,
                              (struct location){.address = l->keeps_addresses ? place->address : 0,
                                                .mapping = mapping},
                              &line, place->has_line);
    }
    vec_done(l->budget, &mappings);
}

static void add_rows(struct legacy *l, const uint32_t *ids)
{
    uint32_t bytes_key = dict_cstring(l->dict, "bytes");

    for (size_t i = 0; i < l->samples.len && !budget_failed(l->budget); i++) {
        const struct legacy_sample *s = &l->samples.data[i];
        struct sample row = {.values = s->values};
        uint32_t *refs = l->refs.data + s->first;
        for (size_t k = s->n; k-- > 0;)
            row.node = dict_node(l->dict, row.node, ids[refs[k]]);
        if (s->has_block_size) {
            uint32_t attr = dict_int_attribute(l->dict, bytes_key, s->block_size, 0);
            row.attrs = dict_attrs(l->dict, &attr, 1);
        }
        profile_add(l->profile, &row);
    }
}

int legacy_build(struct legacy *l)
{
    VEC(uint32_t) ids = {0};
    int r = 0;

    mark_used(l);
    tidy_maps(l);
    mend_maps(l);
    if (!vec_resize(l->budget, &ids, l->places.len) || budget_failed(l->budget))
        r = budget_error(l->budget, l->err);
    else
        r = assign_maps(l, ids.data);
    if (r == 0 && !budget_failed(l->budget)) {
        add_locations(l, ids.data);
        if (!budget_failed(l->budget))
            add_rows(l, ids.data);
    }
    vec_done(l->budget, &ids);
    return r;
}
