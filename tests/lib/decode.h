#pragma once

#include <errno.h>

#include "formats/format.h"
#include "formats/formats.h"
#include "lib/test.h"

/* Decoding small inputs in tests: the set and everything it needs, in one place. */
struct decoded {
    struct budget budget;
    struct profile_set *set;
    const struct format *format;
    int r;
    struct error err;
};

/* Reads content as `forced`, or as what it looks like when NULL, within `limit` bytes. */
static inline void decode_bytes(struct decoded *d, const struct format *forced,
                                struct bytes content, size_t limit)
{
    *d = (struct decoded){.r = 0};
    budget_init(&d->budget, limit);
    d->set = profile_set_new(&d->budget);
    struct input *in = input_from_bytes(content, "test", &d->budget);
    d->r = format_read(in, forced, d->set, &d->format, &d->err);
    input_close(in);
}

static inline void decode_text(struct decoded *d, const struct format *forced, const char *text)
{
    decode_bytes(d, forced, bytes_of(text), (size_t)1 << 26);
}

static inline void decoded_done(struct test *t, struct decoded *d)
{
    profile_set_free(d->set);
    CHECK_INT(t, d->budget.used, 0);
}

/* Sum of a sample type over all profiles of the set; checks that there is such a type. */
static inline int64_t decoded_total(struct test *t, const struct decoded *d, const char *type,
                                    const char *unit)
{
    int64_t total = 0;
    bool found = false;

    for (size_t i = 0; i < d->set->profiles.len; i++) {
        const struct profile *p = d->set->profiles.data[i];
        for (uint32_t k = 0; k < p->n_types; k++) {
            if (strcmp(dict_cstr(p->dict, p->types[k].type), type) == 0 &&
                strcmp(dict_cstr(p->dict, p->types[k].unit), unit) == 0) {
                total += profile_total(p, k);
                found = true;
            }
        }
    }
    CHECK(t, found);
    return total;
}

/* A stack as "root;...;leaf" with inline frames expanded; "" is the empty stack. */
static inline void stack_text(const struct dict *d, uint32_t node, struct buf *to)
{
    const struct location *l = &d->locations.data[d->node_location.data[node]];

    if (node == 0)
        return;
    stack_text(d, d->node_parent.data[node], to);
    for (uint32_t i = l->n_lines ? l->n_lines : 1; i > 0; i--) {
        if (to->len > 0)
            buf_add_byte(to, ';');
        if (l->n_lines == 0)
            buf_addf(to, "0x%" PRIx64, l->address);
        else
            buf_add_str(
                to, dict_cstr(
                        d, d->functions.data[d->lines.data[l->first_line + i - 1].function].name));
    }
}

#define CHECK_STACK(t, d, node_id, want)                                                           \
    do {                                                                                           \
        struct buf stack_ = {0};                                                                   \
        stack_text((d), (node_id), &stack_);                                                       \
        CHECK_STR((t), buf_cstr(&stack_), (want));                                                 \
        buf_done(&stack_);                                                                         \
    } while (0)

/* The frame type of the innermost location of a stack. */
static inline const char *leaf_type(const struct dict *d, uint32_t node)
{
    return dict_cstr(d, d->locations.data[d->node_location.data[node]].type);
}

/* True when a note of the set holds `part`. */
static inline bool has_note(const struct decoded *d, const char *part)
{
    for (size_t i = 0; i < d->set->notes.len; i++) {
        if (strstr(d->set->notes.data[i], part))
            return true;
    }
    return false;
}

/* What a format must refuse and the text it must give, behind "test: " and a prefix. */
struct refusal {
    const char *text, *why;
};

static inline void check_refusals(struct test *t, const struct format *f, const char *prefix,
                                  const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct decoded d;
        char want[300];
        snprintf(want, sizeof(want), "test: %s%s", prefix, cases[i].why);
        decode_text(&d, f, cases[i].text);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK_STR(t, d.err.text, want);
        CHECK_INT(t, d.set->profiles.len, 0);
        decoded_done(t, &d);
    }
}

/* Every budget from nothing upwards: each must fail cleanly until one is large enough. */
static inline void check_budget_sweep(struct test *t, const struct format *f, struct bytes content,
                                      size_t step)
{
    for (size_t limit = 0;; limit += step) {
        struct decoded d;
        decode_bytes(&d, f, content, limit);
        int r = d.r;
        if (r < 0)
            CHECK(t, strstr(d.err.text, "memory") != NULL);
        decoded_done(t, &d);
        if (r == 0)
            return;
        CHECK_INT(t, r, -ENOBUFS);
        bool fits_at_last = limit <= (size_t)1 << 26;
        CHECK(t, fits_at_last);
        if (!fits_at_last || r != -ENOBUFS)
            return;
    }
}

/* Content cut at every byte: an error with a text or a result, never a crash. */
static inline void check_truncation(struct test *t, const struct format *f, struct bytes content)
{
    for (size_t n = 0; n < content.len; n++) {
        uint8_t *copy = malloc(n + 1); /* of the exact size, so that reading past it is seen */
        memcpy(copy, content.data, n);
        struct decoded d;
        decode_bytes(&d, f, (struct bytes){copy, n}, (size_t)1 << 26);
        if (d.r < 0)
            CHECK(t, d.err.text[0] != '\0');
        decoded_done(t, &d);
        free(copy);
    }
}
