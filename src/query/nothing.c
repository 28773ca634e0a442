/* Why a selection found nothing: a wrong range, label, value or type, told with what there is. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "query/query.h"
#include "query/time_range.h"

#define NAMES_SHOWN   8
#define NAMES_WEIGHED 1000
#define NAME_SHOWN    60

int query_nothing(const struct query *q, struct error *err)
{
    const int64_t second = 1000000000;
    char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
    struct bytes text = q->selector->text;

    return error_set(
        err, -ENODATA, "nothing is stored%s%.*s%s from %s to %s", text.len > 0 ? " for \"" : "",
        (int)(text.len < 200 ? text.len : 200), (const char *)text.data, text.len > 0 ? "\"" : "",
        time_text(q->from_ns / second * second, from), time_text(q->to_ns / second * second, to));
}

__attribute__((format(printf, 2, 3))) static void add(struct error *err, const char *fmt, ...)
{
    size_t used = strlen(err->text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err->text + used, sizeof(err->text) - used, fmt, ap);
    va_end(ap);
}

static int shown(struct bytes s)
{
    return (int)(s.len < NAME_SHOWN ? s.len : NAME_SHOWN);
}

/* The name that was probably meant, or some of those there are. */
static void add_names(struct error *err, const struct name_list *l, struct bytes asked)
{
    size_t least = SIZE_MAX, best = 0;

    for (size_t i = 0; asked.len <= NAME_SHOWN && i < l->names.len && i < NAMES_WEIGHED; i++) {
        struct bytes name = l->names.data[i];
        size_t d = name.len <= NAME_SHOWN ? bytes_distance(asked, name) : SIZE_MAX;
        if (d < least) {
            least = d;
            best = i;
        }
    }
    if (least <= 1 + asked.len / 4) {
        add(err, "; did you mean \"%.*s\"?", shown(l->names.data[best]),
            (const char *)l->names.data[best].data);
        return;
    }
    for (size_t i = 0; i < l->names.len && i < NAMES_SHOWN; i++)
        add(err, "%s\"%.*s\"", i == 0 ? ": there is " : ", ", shown(l->names.data[i]),
            (const char *)l->names.data[i].data);
    if (l->names.len > NAMES_SHOWN)
        add(err, " and %zu more", l->names.len - NAMES_SHOWN);
}

static bool has_any(const struct query *q)
{
    CLEANUP(name_list_done) struct name_list l = {0};

    return query_types(q, &l, NULL) == 0 && l.names.len > 0;
}

static void add_label(const struct query *all, struct bytes label, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};

    if (query_label_names(all, &l, NULL) < 0)
        return;
    if (l.names.len == 0) {
        add(err, ", nor at any other time");
        return;
    }
    add(err, "; no profile has the label \"%.*s\"", shown(label), (const char *)label.data);
    add_names(err, &l, label);
}

/* Whether this matcher is why nothing was found; then it is told. */
static bool blame_matcher(const struct query *all, const struct matcher *m, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};

    if (matcher_holds(m, (struct bytes){0}) || query_label_values(all, m->name, &l, NULL) < 0)
        return false;
    for (size_t i = 0; i < l.names.len; i++)
        if (matcher_holds(m, l.names.data[i]))
            return false;
    if (l.names.len == 0) {
        add_label(all, m->name, err);
        return true;
    }
    add(err, "; no profile has such a \"%.*s\"", shown(m->name), (const char *)m->name.data);
    add_names(err, &l, m->value);
    return true;
}

static bool blame_type(const struct query *all, const struct selector *s, struct error *err)
{
    CLEANUP(name_list_done) struct name_list l = {0};

    if (s->type.len == 0 || query_types(all, &l, NULL) < 0 || l.names.len == 0)
        return false;
    for (size_t i = 0; i < l.names.len; i++) {
        struct bytes name = l.names.data[i];
        const uint8_t *colon = bytes_find_last_byte(name, ':');
        size_t len = colon ? (size_t)(colon - name.data) : name.len;
        if (selector_takes(s, bytes_head(name, len), bytes_from(name, len + (colon ? 1 : 0))))
            return false;
    }
    add(err, "; no profile has the sample type \"%.*s\"", shown(s->type),
        (const char *)s->type.data);
    add_names(err, &l, s->type);
    return true;
}

int query_explain(const struct query *q, int r, struct error *err)
{
    CLEANUP(selector_freep) struct selector *every = NULL;
    struct query always = *q;

    if (r != -ENODATA || !err || q->supply || q->has_id || q->has_trace || q->has_span)
        return r;
    always.from_ns = 0;
    always.to_ns = INT64_MAX;
    if (has_any(&always)) {
        add(err, "; there is at other times: choose them with from and until");
        return r;
    }
    if (selector_parse(BYTES("{}"), &every, NULL) < 0)
        return r;
    always.selector = every;
    for (size_t i = 0; i < q->selector->n_matchers; i++)
        if (blame_matcher(&always, &q->selector->matchers[i], err))
            return r;
    if (!blame_type(&always, q->selector, err))
        add(err,
            has_any(&always) ? "; no profile has all of that together" : ", nor at any other time");
    return r;
}

int query_no_label(const struct query *q, struct bytes label, struct error *err)
{
    if (!has_any(q))
        return query_explain(q, query_nothing(q, err), err);
    error_set(err, -ENODATA, "nothing was found in that range");
    if (err)
        add_label(q, label, err);
    return -ENODATA;
}
