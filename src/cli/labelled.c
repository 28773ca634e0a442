#include "cli/labelled.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cli/report.h"
#include "formats/format.h"
#include "wire/input.h"

bool labelled_needed(const struct options *o, int report)
{
    const struct report_options *r = &o->report;
    return report == REPORT_TAGS || report == REPORT_TRACES || r->tagfocus || r->tagignore ||
           r->tagroot || r->tagleaf;
}

struct labelled {
    struct profile_set *set;
    const struct format *format;
    size_t n;
    struct error *err;
};

/* By way of a format that keeps labels, for every profile found has a dictionary of its own. */
static int on_found(void *ctx, const struct store_found *f)
{
    struct labelled *l = ctx;
    CLEANUP(buf_done) struct buf bytes = {.budget = l->set->budget};
    CLEANUP(buf_done) struct buf losses = {0};
    struct profile *only[] = {(struct profile *)f->profile};
    struct profile_set one = {
        .budget = f->profile->dict->budget, .dict = f->profile->dict, .profiles = {only, 1, 1}};

    l->n++;
    int r = l->format->encode(&one, &bytes, &losses, l->err);
    if (r < 0)
        return r;
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(buf_bytes(&bytes), "a stored profile", l->set->budget);
    return format_read(in, l->format, l->set, NULL, l->err);
}

static int note_instant(void *ctx, const struct store_series *series)
{
    bool *has_moments = ctx;
    *has_moments |= series->is_instant;
    return 0;
}

int labelled_read(const struct query *q, struct profile_set *set, struct error *err)
{
    struct labelled l = {.set = set, .format = format_by_name("pprof"), .err = err};
    struct store_scope scope = {q->tenant, q->selector, q->from_ns, q->to_ns};
    struct query labelled = *q;
    struct profile *sum;
    bool has_moments = false;

    int r = q->instant != INSTANT_SUM
                ? store_series(q->store, &scope, note_instant, &has_moments, err)
                : 0;
    if (r < 0)
        return r;
    labelled.with_labels = true;
    if (has_moments)
        return query_explain(q, query_merge_into(&labelled, set, &sum, err), err);
    struct store_find find = {.tenant = q->tenant,
                              .selector = q->selector,
                              .from_ns = q->from_ns,
                              .to_ns = q->to_ns,
                              .with_samples = true,
                              .instant = q->instant};
    r = store_profiles(q->store, &find, on_found, &l, err);
    return r == 0 && l.n == 0 ? query_explain(q, query_nothing(q, err), err) : r;
}
