#include "server/pyroscope_types.h"

#include <errno.h>

#include "base/cleanup.h"

/* The first row that fits names a type. NULL fits everything; "x*" fits what begins with x. */
static const struct rule {
    const char *type, *period_type;
    const char *name;
} rules[] = {
    {"wall", NULL, "wall"},       {"samples", "wall", "wall"},
    {"cpu", NULL, "process_cpu"}, {"samples", NULL, "process_cpu"},
    {"off_cpu", NULL, "off_cpu"}, {"contentions", "block", "block"},
    {"delay", "block", "block"},  {"contentions", NULL, "mutex"},
    {"delay", NULL, "mutex"},     {"alloc_*", NULL, "memory"},
    {"inuse_*", NULL, "memory"},  {"live*", NULL, "memory"},
    {"malloc_*", NULL, "memory"}, {"space", NULL, "memory"},
    {"objects", NULL, "memory"},  {"goroutine", NULL, "goroutine"},
};

static bool fits(struct bytes text, const char *pattern)
{
    struct bytes p = pattern ? bytes_of(pattern) : (struct bytes){0};

    if (!pattern)
        return true;
    if (p.len > 0 && p.data[p.len - 1] == '*')
        return bytes_start_with(text, bytes_head(p, p.len - 1));
    return bytes_equal(text, p);
}

static bool is_name_byte(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

void pyroscope_name_clean(struct bytes name, struct buf *out)
{
    for (size_t i = 0; i < name.len; i++)
        buf_add_byte(out, is_name_byte(name.data[i]) ? name.data[i] : '_');
}

void pyroscope_type_name(const struct pyroscope_type *t, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        if (fits(t->type, rules[i].type) && fits(t->period_type, rules[i].period_type)) {
            buf_add_str(out, rules[i].name);
            return;
        }
    }
    pyroscope_name_clean(t->type, out);
}

static struct pyroscope_type type_of(const struct store_series *s, size_t i)
{
    return (struct pyroscope_type){.type = s->types[i].name,
                                   .unit = s->types[i].unit,
                                   .period_type = s->period_type.name,
                                   .period_unit = s->period_type.unit};
}

void pyroscope_series_name(const struct store_series *s, size_t i, struct buf *out)
{
    struct bytes kind = label_value(s->labels, s->n_labels, BYTES(LABEL_PROFILE_KIND));
    struct pyroscope_type t = type_of(s, i);

    if (kind.len > 0)
        pyroscope_name_clean(kind, out);
    else
        pyroscope_type_name(&t, out);
}

void pyroscope_series_id(const struct store_series *s, size_t i, struct buf *out)
{
    struct pyroscope_type t = type_of(s, i);
    struct bytes parts[] = {t.type, t.unit, t.period_type, t.period_unit};

    pyroscope_series_name(s, i, out);
    for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
        buf_add_byte(out, ':');
        buf_add_bytes(out, parts[k]);
    }
}

/* Takes what follows the last ':' off *rest. */
static bool take_last(struct bytes *rest, struct bytes *ret)
{
    const uint8_t *colon = rest->len ? memrchr(rest->data, ':', rest->len) : NULL;

    if (!colon)
        return false;
    size_t at = (size_t)(colon - rest->data);
    *ret = bytes_from(*rest, at + 1);
    *rest = bytes_head(*rest, at);
    return true;
}

/* A sample type may itself hold colons (perf's "cycles:u"): units and names do not. */
int pyroscope_type_parse(struct bytes id, struct pyroscope_type *ret, struct error *err)
{
    struct pyroscope_type t;
    const uint8_t *colon = bytes_find_byte(id, ':');
    size_t at = colon ? (size_t)(colon - id.data) : 0;
    struct bytes rest = bytes_from(id, at + 1);
    bool is_sound = colon && at > 0 && take_last(&rest, &t.period_unit) &&
                    take_last(&rest, &t.period_type) && take_last(&rest, &t.unit) && rest.len > 0;

    for (size_t i = 0; i < at && is_sound; i++)
        is_sound = is_name_byte(id.data[i]);
    if (!is_sound)
        return error_set(
            err, -EINVAL,
            "\"%.*s\" is not a profile type: expected NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT",
            id.len > 200 ? 200 : (int)id.len, (const char *)id.data);
    t.name = bytes_head(id, at);
    t.type = rest;
    *ret = t;
    return 0;
}

void pyroscope_type_matcher(const struct pyroscope_type *t, struct buf *out)
{
    CLEANUP(buf_done) struct buf name = {0};

    pyroscope_type_name(t, &name);
    bool follows = bytes_equal(buf_bytes(&name), t->name);
    buf_addf(out, "%s=%s\"%s%.*s\"", LABEL_PROFILE_KIND, follows ? "~" : "", follows ? "|" : "",
             (int)t->name.len, (const char *)t->name.data);
}
