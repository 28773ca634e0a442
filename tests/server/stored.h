#pragma once

#include "lib/calls.h"
#include "lib/decode.h"
#include "server/server_internal.h"
#include "wire/inflate.h"

/*
 * What a server has stored, as text. One profile is
 *
 *     service.name=app env=x | cpu/nanoseconds | main;a 5 | main;b 7
 *
 * with "instant" behind the types where it is, labels of samples in braces and spans behind '@'.
 */
struct stored {
    struct buf text;
    size_t n;
    int64_t start_ns, duration_ns, period; /* of the last */
    uint8_t id[16];
    char period_type[64];
};

static inline void stored_row(struct buf *out, const struct profile *p, size_t i)
{
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[profile_attrs(p, i)];
    struct buf stack = {0};

    stack_text(d, p->node[i], &stack);
    buf_addf(out, " | %s", buf_cstr(&stack));
    buf_done(&stack);
    for (uint32_t k = 0; k < set.n; k++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + k]];
        buf_addf(out, "{%s=", dict_cstr(d, a->key));
        if (a->kind == ATTRIBUTE_STRING)
            buf_addf(out, "%s}", dict_cstr(d, a->text));
        else
            buf_addf(out, "%lld}", (long long)a->number);
    }
    if (profile_link(p, i)) {
        const struct link *l = &d->links.data[profile_link(p, i)];
        buf_add_byte(out, '@');
        for (size_t k = 0; k < sizeof(l->span_id); k++)
            buf_addf(out, "%02x", l->span_id[k]);
    }
    for (uint32_t t = 0; t < p->n_types; t++)
        buf_addf(out, " %lld", (long long)p->values[t][i]);
}

static inline int stored_found(void *ctx, const struct store_found *f)
{
    struct stored *s = ctx;
    const struct store_series *series = f->series;

    for (size_t i = 0; i < series->n_labels; i++)
        buf_addf(&s->text, "%s%.*s=%.*s", i ? " " : "", (int)series->labels[i].name.len,
                 (const char *)series->labels[i].name.data, (int)series->labels[i].value.len,
                 (const char *)series->labels[i].value.data);
    buf_add_str(&s->text, " |");
    for (size_t i = 0; i < series->n_types; i++)
        buf_addf(&s->text, " %.*s/%.*s", (int)series->types[i].name.len,
                 (const char *)series->types[i].name.data, (int)series->types[i].unit.len,
                 (const char *)series->types[i].unit.data);
    if (series->is_instant)
        buf_add_str(&s->text, " instant");
    for (size_t i = 0; i < f->profile->n_samples; i++)
        stored_row(&s->text, f->profile, i);
    buf_add_byte(&s->text, '\n');
    s->n++;
    s->start_ns = f->start_ns;
    s->duration_ns = f->duration_ns;
    s->period = f->period;
    memcpy(s->id, f->id, sizeof(s->id));
    snprintf(s->period_type, sizeof(s->period_type), "%.*s/%.*s", (int)series->period_type.name.len,
             (const char *)series->period_type.name.data, (int)series->period_type.unit.len,
             (const char *)series->period_type.unit.data);
    return 0;
}

/* Everything of the default tenant, in the store's order. */
static inline void stored_read(struct test *t, struct calls *c, struct stored *ret)
{
    struct store_find find = {
        .tenant = BYTES(STORE_DEFAULT_TENANT), .to_ns = INT64_MAX, .with_samples = true};
    struct error err = {""};

    *ret = (struct stored){.n = 0};
    if (c->config.default_tenant[0])
        find.tenant = bytes_of(c->config.default_tenant);
    CHECK_INT(t, store_profiles(c->server->store, &find, stored_found, ret, &err), 0);
    CHECK_STR(t, err.text, "");
}

#define CHECK_STORED(t, c, want)                                                                   \
    do {                                                                                           \
        struct stored stored_;                                                                     \
        stored_read((t), (c), &stored_);                                                           \
        CHECK_STR((t), buf_cstr(&stored_.text), (want));                                           \
        buf_done(&stored_.text);                                                                   \
    } while (0)

/* Sends, and checks the status and a part of the answer. */
#define CHECK_POST(t, c, target, type, content, want_status, want_text)                            \
    do {                                                                                           \
        struct http_reply reply_ = call_post((c), (target), (type), (content));                    \
        CHECK_INT((t), reply_.status, (want_status));                                              \
        if (!reply_has(&reply_, (want_text)))                                                      \
            CHECK_STR((t), buf_cstr(&reply_.body), (want_text));                                   \
        http_reply_done(&reply_);                                                                  \
    } while (0)

/* A plain pprof of these types ("type/unit" each) and rows, "stack value value". */
static inline void make_pprof(const char *const *types, const char *const *rows, struct buf *out)
{
    struct budget b;
    struct error err;
    struct buf losses = {0};
    budget_init(&b, 1 << 24);
    struct profile_set *set = profile_set_new(&b);
    struct profile *p = profile_set_add(set);

    for (; *types; types++) {
        const char *slash = strchr(*types, '/');
        profile_add_type(p,
                         dict_string(set->dict, (struct bytes){(const uint8_t *)*types,
                                                               (size_t)(slash - *types)}),
                         dict_cstring(set->dict, slash + 1));
    }
    for (; *rows; rows++) {
        int64_t values[PROFILE_TYPES_MAX];
        const char *at = strchr(*rows, ' ');
        uint32_t node = 0;
        struct bytes rest = {(const uint8_t *)*rows, (size_t)(at - *rows)};
        while (rest.len > 0) {
            const uint8_t *semi = bytes_find_byte(rest, ';');
            size_t len = semi ? (size_t)(semi - rest.data) : rest.len;
            struct function f = {.name = dict_string(set->dict, bytes_head(rest, len))};
            node = dict_frame(set->dict, node, f, 0, 0, 0);
            rest = bytes_from(rest, len + 1);
        }
        char *end = (char *)at;
        for (uint32_t i = 0; i < p->n_types; i++)
            values[i] = strtoll(end, &end, 10);
        uint32_t label = 0;
        if (*end == ' ') { /* a label, " key=value" */
            const char *equals = strchr(end, '=');
            label = dict_string_attribute(
                set->dict,
                dict_string(set->dict,
                            (struct bytes){(const uint8_t *)end + 1, (size_t)(equals - end - 1)}),
                dict_cstring(set->dict, equals + 1));
        }
        profile_add(p, &(struct sample){.node = node,
                                        .attrs = label ? dict_attrs(set->dict, &label, 1) : 0,
                                        .values = values});
    }
    struct buf packed = {0};
    struct unpacked plain;
    if (format_pprof.encode(set, &packed, &losses, &err) < 0 ||
        unpack(CODEC_GZIP, buf_bytes(&packed), &b, &plain, &err) < 0)
        abort();
    buf_add(out, plain.data, plain.len);
    unpacked_done(&b, &plain);
    buf_done(&packed);
    buf_done(&losses);
    profile_set_free(set);
}
