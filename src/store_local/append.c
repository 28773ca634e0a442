#include "store_local/append.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/epoch.h"
#include "store_local/link.h"
#include "store_local/series_table.h"
#include "store_local/source_map.h"

_Static_assert(PROFILE_TYPES_MAX <= RUN_COLS_MAX, "a run holds all types of a profile");

int local_source_attach(struct store_source *source, struct error *err)
{
    (void)err;
    source->backend = source_map_new(source->budget.limit);
    return 0;
}

void local_source_detach(struct store_source *source)
{
    struct local *l = local_of(source->store);

    pthread_mutex_lock(&l->lock);
    source_map_forget(source->backend, &l->source_bytes);
    pthread_mutex_unlock(&l->lock);
    source_map_free(source->backend);
    source->backend = NULL;
}

/* Others wait for memory that this source no longer has. */
void local_source_was_reset(struct store_source *source)
{
    struct local *l = local_of(source->store);
    struct source_map *m = source->backend;

    source_map_follow(m, source);
    if (!source_map_has_shrunk(m, source->budget.used))
        return;
    pthread_mutex_lock(&l->lock);
    source_map_count(m, source->budget.used, &l->source_bytes);
    pthread_cond_broadcast(&l->committed);
    pthread_mutex_unlock(&l->lock);
}

/* ---- What may come in */

static bool tenant_name_is_sound(struct bytes name)
{
    if (name.len == 0 || name.len > STORE_TENANT_MAX || bytes_are(name, ".") ||
        bytes_are(name, ".."))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

int local_need_tenant(struct local *l, struct bytes name, struct tenant **ret, struct error *err)
{
    struct tenant *t = local_find_tenant(l, name);
    uint32_t id = 1;

    if (!tenant_name_is_sound(name))
        return error_set(err, -EINVAL,
                         "\"%.*s\" cannot be the name of a tenant: letters, digits, '.', '_' and "
                         "'-', at most %d",
                         (int)(name.len > 64 ? 64 : name.len), (const char *)name.data,
                         STORE_TENANT_MAX);
    for (size_t i = 0; !t && i < l->tenants.len; i++) {
        if (l->tenants.data[i].id >= id)
            id = l->tenants.data[i].id + 1;
    }
    if (!t)
        t = local_add_tenant(l, id, name);
    if (!t)
        return error_set(err, -ENOMEM, "no memory for a tenant");
    *ret = t;
    return 0;
}

int append_check_labels(const struct label *labels, size_t n, struct error *err)
{
    if (n > APPEND_LABELS_MAX)
        return error_set(err, -EINVAL, "%zu labels are more than the %d a series may have", n,
                         APPEND_LABELS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct bytes name = labels[i].name, value = labels[i].value;
        int shown = (int)(name.len > 64 ? 64 : name.len);
        if (name.len == 0 || name.len > APPEND_LABEL_NAME_MAX)
            return error_set(err, -EINVAL, "the name of a label has %zu bytes: 1 to %d are allowed",
                             name.len, APPEND_LABEL_NAME_MAX);
        if (value.len > APPEND_LABEL_VALUE_MAX)
            return error_set(err, -EINVAL,
                             "the value of label \"%.*s\" has %zu bytes: at most %d are allowed",
                             shown, (const char *)name.data, value.len, APPEND_LABEL_VALUE_MAX);
        if (i > 0 && bytes_compare(labels[i - 1].name, name) >= 0)
            return error_set(err, -EINVAL, "labels are not sorted at \"%.*s\"", shown,
                             (const char *)name.data);
    }
    struct bytes service = label_value(labels, n, bytes_of(LABEL_SERVICE));
    if (service.len == 0)
        return error_set(err, -EINVAL, "the label " LABEL_SERVICE " is missing");
    /* Dictionaries know their service as text. */
    if (memchr(service.data, '\0', service.len))
        return error_set(err, -EINVAL, "the label " LABEL_SERVICE " has a NUL byte in it");
    return 0;
}

static int check_types(const struct profile *p, struct error *err)
{
    if (p->n_types == 0)
        return error_set(err, -EINVAL, "the profile measures nothing: it has no sample types");
    for (uint32_t i = 0; i < p->n_types; i++) {
        if (dict_text(p->dict, p->types[i].type).len > APPEND_LABEL_NAME_MAX ||
            dict_text(p->dict, p->types[i].unit).len > APPEND_LABEL_NAME_MAX)
            return error_set(err, -EINVAL,
                             "the name of a sample type is longer than the %d bytes allowed",
                             APPEND_LABEL_NAME_MAX);
    }
    return 0;
}

static int check_times(const struct local *l, const struct tenant *t, const struct profile *p,
                       struct error *err)
{
    const struct local_options *o = &l->options;
    int64_t now = clock_wall_ns(l->clock), start = p->time_unix_ns, end;
    char is[DURATION_TEXT_MAX], limit[DURATION_TEXT_MAX];
    int64_t max_age = t->policy.max_age_ns > 0 ? t->policy.max_age_ns : o->max_age_ns;

    if (start <= 0)
        return error_set(err, -ERANGE, "the profile does not say when it was taken");
    if (p->duration_ns < 0 || __builtin_add_overflow(start, p->duration_ns, &end))
        return error_set(err, -ERANGE, "a duration of %lld ns cannot be",
                         (long long)p->duration_ns);
    if (start - now > o->max_future_ns)
        return error_set(err, -ERANGE, "the profile is from %s in the future: the limit is %s",
                         duration_text(start - now, is), duration_text(o->max_future_ns, limit));
    if (now - start > max_age)
        return error_set(err, -ERANGE, "the profile is %s old: profiles are kept for %s",
                         duration_text(now - start, is), duration_text(max_age, limit));
    if (start < t->floors.profiles_ns)
        return error_set(err, -ERANGE,
                         "the profile is from %s before the oldest that are kept: older ones "
                         "were removed by retention",
                         duration_text(t->floors.profiles_ns - start, is));
    return 0;
}

/* ---- One profile on its way in */

struct arrival {
    const struct store_incoming *in;
    struct store_outcome *outcome;
    struct epoch *epoch; /* pinned; NULL when it was rejected before */
    struct series *series;
    size_t record; /* in the item, when is_sent */
    bool is_sent;
};

struct append {
    struct local *l;
    struct store_source *source;
    struct source_map *map;
    uint32_t tenant;
    struct arrival *arrivals;
    size_t n;
    struct commit_item item;
    struct buf payload, side;
};

static void reject(struct arrival *a, int code, const struct error *why)
{
    a->outcome->verdict = STORE_REJECTED;
    a->outcome->code = code;
    a->outcome->why = *why;
}

static bool epoch_is_over(const struct local *l, const struct epoch *e)
{
    int64_t age = clock_wall_ns(l->clock) - e->created_ns;

    if (e->is_damaged || age > EPOCH_AGE_MAX_NS)
        return true;
    return e->dict && (dict_n_nodes(e->dict) > EPOCH_NODES_MAX ||
                       epoch_bytes(e) - e->keep.bytes > EPOCH_BYTES_MAX);
}

static struct epoch *begin_epoch(struct local *l, uint32_t tenant, struct bytes service)
{
    struct service *s = tenant_service(l, local_tenant(l, tenant), service);
    CLEANUP(epoch_freep)
    struct epoch *e = epoch_new(l->next_id++, tenant, service, clock_wall_ns(l->clock));

    if (!s || !local_add_epoch(l, e))
        return NULL;
    s->open = e;
    return TAKE_PTR(e);
}

/* An epoch of the service that takes more, pinned. May release the lock. */
static int open_epoch(struct local *l, uint32_t tenant, struct bytes service, struct epoch **ret,
                      struct error *err)
{
    struct service *s = tenant_service(l, local_tenant(l, tenant), service);
    struct epoch *e = s ? s->open : NULL;
    struct error why = {0};

    if (e && !epoch_is_over(l, e)) {
        int r = epoch_acquire(l, e, &why);
        if (r == 0)
            epoch_release(l, e);
    }
    if (!e || !e->dict || epoch_is_over(l, e))
        e = begin_epoch(l, tenant, service);
    if (!e)
        return error_set(err, -ENOMEM, "no memory for a dictionary");
    e->pins++;
    *ret = e;
    return 0;
}

/* ---- Series */

static struct store_type type_of(const struct dict *d, struct value_type t)
{
    return (struct store_type){dict_text(d, t.type), dict_text(d, t.unit)};
}

static struct series *add_group(struct series_table *t, struct series_key key)
{
    static const char *const names[] = {LABEL_ENVIRONMENT, LABEL_SERVICE, LABEL_VERSION};
    struct label labels[ARRAY_SIZE(names)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct bytes value = label_value(key.labels, key.n_labels, bytes_of(names[i]));
        if (value.len > 0)
            labels[n++] = (struct label){bytes_of(names[i]), value};
    }
    key.labels = labels;
    key.n_labels = n;
    key.is_group = true;
    struct series *s = series_table_find(t, &key);
    return s ? s : series_table_add(t, &key, 0);
}

static uint32_t max_series(const struct local *l, struct bytes tenant)
{
    const struct local_options *o = &l->options;
    uint32_t own = o->max_series_of ? o->max_series_of(o->max_series_ctx, tenant) : 0;

    return own ? own : o->max_series;
}

static int need_series(struct append *x, const struct arrival *a, struct series **ret,
                       struct error *err)
{
    const struct store_incoming *in = a->in;
    const struct profile *p = in->profile;
    const struct tenant *tenant = local_tenant(x->l, x->tenant);
    struct series_table *t = tenant->series;
    struct store_type types[PROFILE_TYPES_MAX];
    struct series_key key = {.labels = in->labels,
                             .n_labels = in->n_labels,
                             .types = types,
                             .n_types = p->n_types,
                             .period_type = type_of(p->dict, p->period_type),
                             .is_instant = in->is_instant};

    for (uint32_t i = 0; i < p->n_types; i++)
        types[i] = type_of(p->dict, p->types[i]);
    *ret = series_table_find(t, &key);
    if (*ret)
        return 0;
    /* Groups are the store's own business: nobody is told off for them. */
    uint32_t n = series_table_len(t) - series_table_n_groups(t);
    uint32_t max = max_series(x->l, bytes_of(tenant->name));
    if (n >= max)
        return error_set(err, -EDQUOT, "the tenant has %u series: the limit is %u (series_max)", n,
                         max);
    struct series *group = in->is_instant ? NULL : add_group(t, key);
    if (group || in->is_instant)
        *ret = series_table_add(t, &key, group ? group->id : 0);
    return *ret ? 0 : error_set(err, -ENOMEM, "no memory for a series");
}

/* First step: all that may release the lock. Rejected ones have no epoch: what is beyond the limit
 * of series must not leave dictionaries behind. */
static int gather(struct append *x, struct error *err)
{
    struct local *l = x->l;

    for (size_t i = 0; i < x->n; i++) {
        struct arrival *a = &x->arrivals[i];
        const struct store_incoming *in = a->in;
        struct error why;
        int r = append_check_labels(in->labels, in->n_labels, &why);
        if (r == 0)
            r = check_types(in->profile, &why);
        if (r == 0)
            r = check_times(l, local_tenant(l, x->tenant), in->profile, &why);
        if (r == 0)
            r = need_series(x, a, &a->series, &why);
        if (r < 0) {
            reject(a, r, &why);
            continue;
        }
        struct bytes service = label_value(in->labels, in->n_labels, bytes_of(LABEL_SERVICE));
        r = open_epoch(l, x->tenant, service, &a->epoch, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- Records */

void local_log_tenant(struct tenant *t, struct commit_item *item)
{
    if (t->is_logged)
        return;
    struct record_tenant rec = {.id = t->id, .name = bytes_of(t->name)};
    record_encode_tenant(&rec, commit_begin(item));
    commit_end(item, RECORD_TENANT);
    t->is_logged = true;
}

/* All series up to this one: ids are dense when they are read back. */
static void log_series(struct append *x, const struct series *s)
{
    struct series_table *t = local_tenant(x->l, x->tenant)->series;
    uint32_t first = s->id;

    while (first > 0 && !series_table_get(t, first)->is_logged)
        first--;
    for (uint32_t id = first + 1; id <= s->id; id++) {
        struct series *each = series_table_get(t, id);
        struct buf *out = commit_begin(&x->item);
        record_begin_series(x->tenant, out);
        series_encode(each, out);
        commit_end(&x->item, RECORD_SERIES);
        each->is_logged = true;
    }
}

static void log_epoch(struct append *x, struct epoch *e)
{
    struct epoch_mark from = e->logged, to = epoch_mark_of(e->dict);

    if (!e->is_defined_logged) {
        struct record_epoch rec = {.id = e->id,
                                   .tenant = e->tenant,
                                   .service = bytes_of(e->service),
                                   .created_ns = e->created_ns};
        record_encode_epoch(&rec, commit_begin(&x->item));
        commit_end(&x->item, RECORD_EPOCH);
        e->is_defined_logged = true;
    }
    epoch_mark_max(&from, &e->flushed);
    if (!epoch_mark_equal(&from, &to)) {
        struct buf *out = commit_begin(&x->item);
        record_begin_dict(e->id, out);
        epoch_encode(e->dict, &from, &to, out);
        commit_end(&x->item, RECORD_DICT);
    }
    e->logged = to;
}

/* Per attribute set: varint id, run. */
static int encode_payload(const struct translated *t, struct buf *out, struct error *err)
{
    const int64_t *values[PROFILE_TYPES_MAX];

    for (size_t first = 0, end; first < t->n; first = end) {
        for (end = first; end < t->n && t->attrs[end] == t->attrs[first];)
            end++;
        for (unsigned k = 0; k < t->n_types; k++)
            values[k] = t->values[k] + first;
        add_varint(out, t->attrs[first]);
        int r = run_encode(t->nodes + first, values, end - first, t->n_types, out);
        if (r < 0)
            return error_set(err, r, "%zu different samples are more than a profile may have",
                             t->n);
    }
    return 0;
}

static int encode_samples(struct append *x, const struct arrival *a, const struct translated *t,
                          struct error *err)
{
    buf_clear(&x->payload);
    buf_clear(&x->side);
    int r = encode_payload(t, &x->payload, err);
    if (r == 0 && t->side.n > 0)
        side_encode(&t->side, a->in->profile->time_unix_ns, &x->side);
    size_t bytes = x->payload.len + x->side.len;
    if (r == 0 && bytes > APPEND_BYTES_MAX)
        r = error_set(err, -EFBIG, "the profile takes %zu bytes: at most %zu are allowed", bytes,
                      APPEND_BYTES_MAX);
    return r;
}

static void log_profile(struct append *x, struct arrival *a, const struct series *s,
                        const struct translated *t)
{
    const struct profile *p = a->in->profile;
    struct record_profile rec = {.tenant = x->tenant,
                                 .series = s->id,
                                 .epoch = a->epoch->id,
                                 .start_ns = p->time_unix_ns,
                                 .duration_ns = p->duration_ns,
                                 .period = p->period,
                                 .content_hash = t->content_hash,
                                 .has_id = a->in->has_id,
                                 .n_samples = (uint32_t)t->n,
                                 .n_types = t->n_types,
                                 .payload = buf_bytes(&x->payload),
                                 .side = buf_bytes(&x->side)};

    memcpy(rec.id, a->in->id, sizeof(rec.id));
    memcpy(rec.totals, t->totals, t->n_types * sizeof(*rec.totals));
    local_log_tenant(local_tenant(x->l, x->tenant), &x->item);
    log_series(x, s);
    log_epoch(x, a->epoch);
    a->record = x->item.n_records;
    a->is_sent = true;
    record_encode_profile(&rec, commit_begin(&x->item));
    commit_end(&x->item, RECORD_PROFILE);
}

/* The profile in terms of its epoch. One that is full is left for a new one, once. */
static int translate_arrival(struct append *x, struct arrival *a, struct translated *t,
                             struct error *err)
{
    const struct store_incoming *in = a->in;
    int r = source_map_run(x->map, x->source, a->epoch, in->profile, t, err);

    if (r != -ENOBUFS || dict_n_nodes(a->epoch->dict) < 2)
        return r;
    struct epoch *e = begin_epoch(x->l, x->tenant, bytes_of(a->epoch->service));
    if (!e)
        return r;
    a->epoch->pins--;
    a->epoch = e;
    e->pins++;
    return source_map_run(x->map, x->source, e, in->profile, t, err);
}

/* Second step, with the lock held throughout: what counts as logged is in the queue before anybody
 * else may rely on it. Fails where a file that may have the profile could not be read: guessing
 * would store it twice. */
static int prepare(struct append *x, struct arrival *a, struct error *err)
{
    struct series *s = a->series;
    struct translated t;
    struct error why;

    int r = translate_arrival(x, a, &t, &why);
    if (r == 0)
        r = encode_samples(x, a, &t, &why);
    if (r < 0) {
        reject(a, r, &why);
        return 0;
    }
    if (a->in->sender)
        t.content_hash = stable_mix(t.content_hash, a->in->sender);
    r = local_is_stored(x->l, x->tenant, s, a->in->profile->time_unix_ns,
                        a->in->has_id ? a->in->id : NULL, t.content_hash);
    if (r < 0) {
        errno = -r;
        return error_set(err, r, "could not tell whether a profile is stored already: %m");
    }
    if (r > 0)
        a->outcome->verdict = STORE_DUPLICATE;
    else
        log_profile(x, a, s, &t);
    return 0;
}

static void settle(struct append *x, struct arrival *a)
{
    struct local *l = x->l;

    if (a->is_sent)
        a->outcome->verdict = x->item.records[a->record].linked ? STORE_DUPLICATE : STORE_STORED;
    l->n_appended += a->outcome->verdict == STORE_STORED;
    l->n_duplicates += a->outcome->verdict == STORE_DUPLICATE;
    l->n_rejected += a->outcome->verdict == STORE_REJECTED;
}

/* Sources are the senders': only they can give their memory back. */
static void count_source(struct append *x)
{
    struct local *l = x->l;

    source_map_count(x->map, x->source->budget.used, &l->source_bytes);
    x->source->is_too_large = l->source_bytes > local_source_bytes(l);
}

static int append_locked(struct append *x, struct bytes tenant, struct error *err)
{
    struct local *l = x->l;
    struct tenant *t;

    count_source(x);
    int r = local_may_write(l, err);
    if (r == 0)
        r = local_need_tenant(l, tenant, &t, err);
    if (r < 0)
        return r;
    x->tenant = t->id;
    r = gather(x, err);
    for (size_t i = 0; r == 0 && i < x->n; i++) {
        if (x->arrivals[i].epoch)
            r = prepare(x, &x->arrivals[i], err);
        if (r < 0) /* what others of the call define will not be written */
            local_forget_logged(l);
    }
    if (r == 0 && x->item.n_records > 0)
        r = commit_run(l, &x->item, err);
    for (size_t i = 0; i < x->n; i++) {
        if (x->arrivals[i].epoch)
            x->arrivals[i].epoch->pins--;
        if (r == 0)
            settle(x, &x->arrivals[i]);
    }
    return r;
}

int local_append(struct store_source *source, struct bytes tenant, const struct store_incoming *in,
                 size_t n, struct store_outcome *ret, struct error *err)
{
    struct local *l = local_of(source->store);
    struct append x = {.l = l, .source = source, .map = source->backend, .n = n};

    if (n == 0)
        return 0;
    x.arrivals = calloc(n, sizeof(*x.arrivals));
    if (!x.arrivals)
        return error_set(err, -ENOMEM, "no memory for %zu profiles", n);
    for (size_t i = 0; i < n; i++) {
        x.arrivals[i] = (struct arrival){.in = &in[i], .outcome = &ret[i]};
        ret[i].verdict = STORE_REJECTED;
        ret[i].code = 0;
        ret[i].why.text[0] = '\0';
    }
    pthread_mutex_lock(&l->lock);
    int r = append_locked(&x, tenant, err);
    pthread_mutex_unlock(&l->lock);
    commit_item_done(&x.item);
    buf_done(&x.payload);
    buf_done(&x.side);
    free(x.arrivals);
    return r;
}
