#include "server/pyroscope_labels.h"

#include <errno.h>

#include "server/ingest.h"

/* ---- Names */

void pyroscope_names_done(struct pyroscope_names *n)
{
    if (n->is_loaded)
        name_list_done(&n->list);
    n->is_loaded = false;
}

static bool is_hidden_name(struct bytes name)
{
    return bytes_start_with(name, BYTES("__"));
}

bool pyroscope_label_is_shown(struct bytes name)
{
    return !bytes_are(name, LABEL_PROFILE_KIND);
}

static bool is_shown_as(struct bytes kept, struct bytes shown)
{
    CLEANUP(buf_done) struct buf clean = {0};
    if (kept.len != shown.len)
        return false;
    pyroscope_name_clean(kept, &clean);
    return bytes_equal(buf_bytes(&clean), shown);
}

static int load(struct pyroscope_names *n, struct error *err)
{
    if (n->is_loaded)
        return 0;
    int r = query_label_names(n->all, &n->list, err);
    n->is_loaded = true;
    return r;
}

int pyroscope_names_find(struct pyroscope_names *n, struct bytes name, struct bytes *ret,
                         struct error *err)
{
    /* What nearly every question names needs no list. */
    if (bytes_are(name, "service_name") || bytes_are(name, LABEL_SERVICE)) {
        *ret = BYTES(LABEL_SERVICE);
        return 0;
    }
    if (bytes_are(name, LABEL_PROFILE_KIND)) {
        *ret = BYTES(LABEL_PROFILE_KIND);
        return 0;
    }
    int r = load(n, err);
    if (r < 0)
        return r;
    const struct bytes *names = n->list.names.data;
    struct bytes found = {0};
    for (size_t i = 0; i < n->list.names.len; i++) {
        if (bytes_equal(names[i], name)) {
            *ret = names[i];
            return 0;
        }
        if (found.len == 0 && is_shown_as(names[i], name))
            found = names[i];
    }
    *ret = found.len > 0 ? found : ingest_label_name(name);
    return 0;
}

/* ---- Types */

int pyroscope_id_parse(struct bytes id, struct pyroscope_type *ret, struct error *err)
{
    const struct bytes delta = BYTES(":delta");
    if (id.len > delta.len && bytes_equal(bytes_from(id, id.len - delta.len), delta))
        id.len -= delta.len;
    return pyroscope_type_parse(id, ret, err);
}

void pyroscope_type_label(const struct pyroscope_type *t, struct bytes name, struct buf *out)
{
    const struct {
        const char *name;
        struct bytes value;
    } parts[] = {
        {"__name__", t->name},
        {"__type__", t->type},
        {"__unit__", t->unit},
        {"__period_type__", t->period_type},
        {"__period_unit__", t->period_unit},
    };
    bool is_whole = bytes_are(name, "__profile_type__");

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (!is_whole && !bytes_are(name, parts[i].name))
            continue;
        if (is_whole && i > 0)
            buf_add_byte(out, ':');
        buf_add_bytes(out, parts[i].value);
    }
}

static bool holds_for_type(const struct pyroscope_selection *s, const struct pyroscope_type *t)
{
    CLEANUP(buf_done) struct buf value = {0};
    for (size_t i = 0; i < s->n_of_type; i++) {
        buf_clear(&value);
        pyroscope_type_label(t, s->of_type[i].name, &value);
        if (!matcher_holds(&s->of_type[i], buf_bytes(&value)))
            return false;
    }
    return true;
}

bool pyroscope_selection_takes(const struct pyroscope_selection *s,
                               const struct store_series *series, size_t i)
{
    CLEANUP(buf_done) struct buf name = {0};
    if (s->n_of_type == 0)
        return true;
    pyroscope_series_name(series, i, &name);
    struct pyroscope_type t = {.name = buf_bytes(&name),
                               .type = series->types[i].name,
                               .unit = series->types[i].unit,
                               .period_type = series->period_type.name,
                               .period_unit = series->period_type.unit};
    return holds_for_type(s, &t);
}

/* ---- Selections */

void pyroscope_query_split(struct bytes query, struct bytes *ret_name, struct bytes *ret_rest)
{
    query = bytes_trim(query);
    const uint8_t *brace = bytes_find_byte(query, '{');
    size_t at = brace ? (size_t)(brace - query.data) : query.len;
    *ret_name = bytes_trim(bytes_head(query, at));
    *ret_rest = brace ? bytes_from(query, at) : BYTES("{}");
}

/* What stands between the braces, without a comma at its end. */
static struct bytes inside(struct bytes braces)
{
    struct bytes in = bytes_trim(bytes_head(bytes_from(braces, 1), braces.len - 2));
    if (in.len > 0 && in.data[in.len - 1] == ',')
        in.len--;
    return in;
}

static void add_quoted(struct buf *out, struct bytes value)
{
    buf_add_byte(out, '"');
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] == '"' || value.data[i] == '\\')
            buf_add_byte(out, '\\');
        buf_add_byte(out, value.data[i]);
    }
    buf_add_byte(out, '"');
}

static void add_part(struct buf *out, struct bytes part)
{
    if (part.len == 0)
        return;
    if (out->len > 1)
        buf_add_byte(out, ',');
    buf_add_bytes(out, part);
}

/* All texts as one selector without a type. */
static int join(const struct pyroscope_selectors *from, struct buf *out, struct error *err)
{
    CLEANUP(buf_done) struct buf matcher = {0};
    size_t room = SELECTOR_TEXT_MAX;

    buf_add_byte(out, '{');
    for (size_t i = 0; i < from->n; i++) {
        struct bytes text = from->texts[i], name, rest;
        if (text.len > room)
            return error_set(err, -EINVAL, "selectors of more than %d bytes", SELECTOR_TEXT_MAX);
        room -= text.len;
        pyroscope_query_split(text, &name, &rest);
        if (rest.len < 2 || rest.data[rest.len - 1] != '}')
            return error_set(err, -EINVAL, "selector \"%.*s\": the brace is never closed",
                             (int)(text.len < 200 ? text.len : 200), (const char *)text.data);
        if (name.len > 0) {
            buf_clear(&matcher);
            buf_add_str(&matcher, bytes_find_byte(name, ':') ? "__profile_type__=" : "__name__=");
            add_quoted(&matcher, name);
            add_part(out, buf_bytes(&matcher));
        }
        add_part(out, inside(rest));
    }
    if (from->type) {
        buf_clear(&matcher);
        pyroscope_type_matcher(from->type, &matcher);
        add_part(out, buf_bytes(&matcher));
    }
    buf_add_byte(out, '}');
    return 0;
}

/* Ours first, those of "__" labels behind them. */
static int sort_out(struct pyroscope_selection *s, struct pyroscope_names *names, struct error *err)
{
    struct selector *p = s->parsed;
    size_t n = 0;

    for (size_t i = 0; i < p->n_matchers; i++) {
        struct matcher m = p->matchers[i];
        if (is_hidden_name(m.name))
            continue;
        int r = pyroscope_names_find(names, m.name, &m.name, err);
        if (r < 0)
            return r;
        p->matchers[i] = p->matchers[n];
        p->matchers[n++] = m;
    }
    s->ours = *p;
    s->ours.n_matchers = n;
    s->of_type = p->matchers + n;
    s->n_of_type = p->n_matchers - n;
    return 0;
}

static void narrow(struct pyroscope_selection *s, const struct pyroscope_type *type)
{
    s->ours.type = type->type;
    s->ours.unit = type->unit;
    s->ours.has_period = true;
    s->ours.period_type = type->period_type;
    s->ours.period_unit = type->period_unit;
    s->is_empty = !holds_for_type(s, type);
}

int pyroscope_selection_read(const struct pyroscope_selectors *from, struct pyroscope_names *names,
                             struct pyroscope_selection *ret, struct error *err)
{
    *ret = (struct pyroscope_selection){0};
    int r = join(from, &ret->text, err);
    if (r == 0)
        r = selector_parse(buf_bytes(&ret->text), &ret->parsed, err);
    if (r == 0)
        r = sort_out(ret, names, err);
    if (r == 0 && from->type)
        narrow(ret, from->type);
    return r;
}

void pyroscope_selection_done(struct pyroscope_selection *s)
{
    selector_free(s->parsed);
    buf_done(&s->text);
}
