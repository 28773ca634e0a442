#include <errno.h>
#include <stdlib.h>

#include "store_local/append.h"
#include "store_local/link.h"
#include "store_local/retention.h"
#include "store_local/span_codec.h"
#include "store_local/spans.h"

/* A record ends when it has this much. */
#define RECORD_SPANS_MAX 4096
#define RECORD_BYTES_MAX ((size_t)8 << 20)   /* of the strings of its spans */
#define ENCODE_BYTES_MAX ((size_t)256 << 20) /* of memory for writing one */

/* ---- What may come in */

static int too_long(size_t span, const char *what, size_t len, size_t max, struct error *err)
{
    return error_set(err, -EINVAL, "span %zu: %s has %zu bytes: at most %zu are allowed", span,
                     what, len, max);
}

static int check_attributes(size_t i, const struct store_span *s, struct error *err)
{
    if (s->n_attributes > SPAN_ATTRIBUTES_MAX)
        return error_set(err, -EINVAL, "span %zu has %zu attributes: at most %d are allowed", i,
                         s->n_attributes, SPAN_ATTRIBUTES_MAX);
    for (size_t k = 0; k < s->n_attributes; k++) {
        size_t name = s->attributes[k].name.len, value = s->attributes[k].value.len;
        if (name > SPAN_ATTRIBUTE_NAME_MAX)
            return too_long(i, "the name of an attribute", name, SPAN_ATTRIBUTE_NAME_MAX, err);
        if (value > SPAN_ATTRIBUTE_VALUE_MAX)
            return too_long(i, "the value of an attribute", value, SPAN_ATTRIBUTE_VALUE_MAX, err);
    }
    return 0;
}

static int check_span(const struct local *l, size_t i, const struct store_span *s, int64_t now_ns,
                      struct error *err)
{
    const int64_t limit = l->options.max_future_ns;
    char is[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
    int64_t end;

    if (s->service.len > SPAN_SERVICE_MAX)
        return too_long(i, "its service", s->service.len, SPAN_SERVICE_MAX, err);
    if (s->name.len > SPAN_NAME_MAX)
        return too_long(i, "its name", s->name.len, SPAN_NAME_MAX, err);
    if (s->start_ns <= 0)
        return error_set(err, -EINVAL, "span %zu does not say when it began", i);
    if (s->duration_ns < 0 || __builtin_add_overflow(s->start_ns, s->duration_ns, &end))
        return error_set(err, -EINVAL, "span %zu: a duration of %lld ns cannot be", i,
                         (long long)s->duration_ns);
    if (s->start_ns - now_ns > limit)
        return error_set(err, -EINVAL, "span %zu is from %s in the future: the limit is %s", i,
                         duration_text(s->start_ns - now_ns, is), duration_text(limit, most));
    return check_attributes(i, s, err);
}

static size_t string_bytes(const struct store_span *s)
{
    size_t n = s->service.len + s->name.len;

    for (size_t k = 0; k < s->n_attributes; k++)
        n += s->attributes[k].name.len + s->attributes[k].value.len;
    return n;
}

/* ---- On their way in */

/* The payloads of one call, back to back. */
struct payloads {
    struct buf bytes;
    VEC(size_t) ends;
    struct budget budget;
};

static void payloads_done(struct payloads *p)
{
    buf_done(&p->bytes);
    vec_done(&p->budget, &p->ends);
}

static int add_payload(struct payloads *p, const struct store_span *spans, size_t n,
                       struct error *err)
{
    int r = span_encode(spans, n, &p->budget, &p->bytes, err);

    if (r == 0 && !vec_push(&p->budget, &p->ends, p->bytes.len))
        r = budget_error(&p->budget, err);
    return r;
}

/* Spans from `oldest` on, cut into records. */
static int encode_all(const struct store_span *spans, size_t n, int64_t oldest_ns,
                      struct payloads *ret, struct error *err)
{
    struct store_span *kept = calloc(n, sizeof(*kept));
    size_t n_kept = 0, bytes = 0;
    int r = 0;

    if (!kept)
        return error_set(err, -ENOMEM, "no memory for %zu spans", n);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (spans[i].start_ns < oldest_ns)
            continue;
        kept[n_kept++] = spans[i];
        bytes += string_bytes(&spans[i]);
        if (n_kept < RECORD_SPANS_MAX && bytes < RECORD_BYTES_MAX)
            continue;
        r = add_payload(ret, kept, n_kept, err);
        n_kept = bytes = 0;
    }
    if (r == 0 && n_kept > 0)
        r = add_payload(ret, kept, n_kept, err);
    free(kept);
    return r;
}

static int commit_payloads(struct local *l, struct bytes tenant, const struct payloads *p,
                           struct commit_item *item, struct error *err)
{
    struct tenant *t = NULL;

    int r = local_may_write(l, err);
    if (r == 0)
        r = local_need_tenant(l, tenant, &t, err);
    if (r < 0)
        return r;
    local_log_tenant(t, item);
    for (size_t i = 0, at = 0; i < p->ends.len; at = p->ends.data[i++]) {
        struct buf *out = commit_begin(item);
        record_begin_spans(t->id, out);
        buf_add(out, p->bytes.data + at, p->ends.data[i] - at);
        commit_end(item, RECORD_SPANS);
    }
    return commit_run(l, item, err);
}

int local_append_spans(struct store *s, struct bytes tenant, const struct store_span *spans,
                       size_t n, struct error *err)
{
    struct local *l = local_of(s);
    int64_t now = clock_wall_ns(l->clock);
    CLEANUP(payloads_done) struct payloads payloads = {0};
    struct commit_item item = {0};

    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        int r = check_span(l, i, &spans[i], now, err);
        if (r < 0)
            return r;
    }
    budget_init(&payloads.budget, ENCODE_BYTES_MAX);
    pthread_mutex_lock(&l->lock);
    int64_t oldest = retention_span_cutoff_ns(l, local_find_tenant(l, tenant));
    pthread_mutex_unlock(&l->lock);
    int r = encode_all(spans, n, oldest, &payloads, err);
    if (r < 0 || payloads.ends.len == 0)
        return r;
    pthread_mutex_lock(&l->lock);
    r = commit_payloads(l, tenant, &payloads, &item, err);
    pthread_mutex_unlock(&l->lock);
    commit_item_done(&item);
    return r;
}
