#include "store_local/link.h"

#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "segment/run.h"
#include "segment/varint.h"
#include "store_local/changes.h"
#include "store_local/epoch.h"
#include "store_local/memtable.h"
#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/side.h"
#include "store_local/spans.h"
#include "store_local/version.h"

/* ---- Tenants and services */

struct tenant *local_tenant(struct local *l, uint32_t id)
{
    for (size_t i = 0; i < l->tenants.len; i++) {
        if (l->tenants.data[i].id == id)
            return &l->tenants.data[i];
    }
    return NULL;
}

struct tenant *local_find_tenant(struct local *l, struct bytes name)
{
    for (size_t i = 0; i < l->tenants.len; i++) {
        if (bytes_are(name, l->tenants.data[i].name))
            return &l->tenants.data[i];
    }
    return NULL;
}

struct tenant *local_add_tenant(struct local *l, uint32_t id, struct bytes name)
{
    if (!vec_push(&l->budget, &l->tenants, (struct tenant){.id = id}))
        return NULL;
    struct tenant *t = &vec_last(&l->tenants);
    t->name = must_copy(name);
    t->series = series_table_new();
    return t;
}

struct service *tenant_service(struct local *l, struct tenant *t, struct bytes name)
{
    for (size_t i = 0; i < t->services.len; i++) {
        if (bytes_are(name, t->services.data[i].name))
            return &t->services.data[i];
    }
    if (!vec_reserve(&l->budget, &t->services, 1))
        return NULL;
    t->services.data[t->services.len++] = (struct service){.name = must_copy(name)};
    return &vec_last(&t->services);
}

/* ---- Definitions */

static int malformed(const char *what, struct error *err)
{
    return error_set(err, -EBADMSG, "the record of %s is malformed", what);
}

static int link_tenant(struct local *l, struct bytes payload, struct error *err)
{
    struct record_tenant rec;

    if (!record_decode_tenant(payload, &rec))
        return malformed("a tenant", err);
    struct tenant *t = local_tenant(l, rec.id);
    bool is_known = t != NULL;
    if (t && !bytes_are(rec.name, t->name))
        return error_set(err, -EBADMSG, "two tenants have the number %u", rec.id);
    if (!t && local_find_tenant(l, rec.name))
        return error_set(err, -EBADMSG, "tenant \"%.*s\" is defined a second time",
                         (int)rec.name.len, (const char *)rec.name.data);
    if (!t && !(t = local_add_tenant(l, rec.id, rec.name)))
        return error_set(err, -ENOMEM, "no memory for a tenant");
    t->is_durable = true;
    return is_known;
}

static int add_epoch(struct local *l, const struct record_epoch *rec, struct error *err)
{
    struct tenant *t = local_tenant(l, rec->tenant);
    if (!t)
        return error_set(err, -ESTALE, "the tenant of a dictionary is not known");
    struct service *s = tenant_service(l, t, rec->service);
    CLEANUP(epoch_freep)
    struct epoch *e = epoch_new(rec->id, rec->tenant, rec->service, rec->created_ns);
    if (!s || !local_add_epoch(l, e))
        return error_set(err, -ENOMEM, "no memory for a dictionary");
    e->is_defined_durable = true;
    s->open = TAKE_PTR(e);
    if (rec->id >= l->next_id)
        l->next_id = rec->id + 1;
    return 0;
}

static int link_epoch(struct local *l, struct bytes payload, struct error *err)
{
    struct record_epoch rec;

    if (!record_decode_epoch(payload, &rec))
        return malformed("a dictionary", err);
    struct epoch *e = local_epoch(l, rec.id);
    if (!e)
        return add_epoch(l, &rec, err);
    if (e->tenant != rec.tenant || !bytes_are(rec.service, e->service))
        return error_set(err, -EBADMSG, "two dictionaries have the number %llu",
                         (unsigned long long)rec.id);
    e->is_defined_durable = true;
    return 1;
}

static int link_series(struct local *l, enum link_mode mode, struct bytes payload,
                       struct error *err)
{
    struct record_series rec;
    struct series *s = NULL;

    if (!record_decode_series(payload, &rec))
        return malformed("a series", err);
    struct tenant *t = local_tenant(l, rec.tenant);
    if (!t)
        return error_set(err, -ESTALE, "the tenant of a series is not known");
    uint32_t before = series_table_len(t->series);
    int r = series_apply(t->series, &rec.definition, &s, err);
    if (r < 0)
        return r;
    s->is_durable = true;
    return mode == LINK_WRITTEN || s->id <= before;
}

static int link_dict(struct local *l, enum link_mode mode, struct bytes payload, struct error *err)
{
    struct record_dict rec;
    struct epoch_mark from, to;

    if (!record_decode_dict(payload, &rec) || epoch_encoded_marks(rec.delta, &from, &to) < 0)
        return malformed("names", err);
    struct epoch *e = local_epoch(l, rec.epoch);
    if (!e)
        return error_set(err, -ESTALE, "the dictionary of names is not known");
    if (mode == LINK_WRITTEN) {
        epoch_mark_max(&e->durable, &to);
        return 0;
    }
    /* Nobody else is there yet: acquiring may well release the lock. */
    int r = epoch_acquire(l, e, err);
    if (r < 0)
        return r;
    struct epoch_mark have = epoch_mark_of(e->dict);
    bool is_known = epoch_mark_covers(&have, &to);
    r = is_known ? 1 : epoch_apply(e, rec.delta, err);
    e->durable = epoch_mark_of(e->dict);
    epoch_release(l, e);
    return r;
}

/* ---- Profiles */

int local_is_stored(struct local *l, uint32_t tenant, const struct series *series, int64_t start_ns,
                    const uint8_t *id, uint64_t content_hash)
{
    struct row_key key = {.tenant = tenant,
                          .series = series->id,
                          .start_ns = start_ns,
                          .has_id = id != NULL,
                          .id = id,
                          .content_hash = content_hash};

    if (start_ns > series->max_start_ns)
        return 0;
    if (memtable_has(l->head, &key) || (l->frozen && memtable_has(l->frozen, &key)))
        return 1;
    return local_find_in_segments(l, tenant, series->id, start_ns, id, content_hash);
}

static bool run_keys_are_below(const struct run *run, uint32_t n_nodes, uint32_t *keys)
{
    if (!run_keys(run, keys))
        return false;
    for (size_t i = 0; i < run->n; i++) {
        if (keys[i] >= n_nodes)
            return false;
    }
    return true;
}

bool payload_is_sound(struct bytes payload, uint32_t n_types, uint32_t n_nodes,
                      uint32_t n_attr_sets)
{
    struct run run;
    uint64_t attrs, before = 0;
    bool sound = true, is_first = true;

    for (; sound && payload.len > 0; is_first = false, before = attrs) {
        if (!take_varint(&payload, &attrs) || attrs >= n_attr_sets ||
            (!is_first && attrs <= before) || run_open(&payload, &run) < 0 ||
            run.n_cols != n_types || run.n > n_nodes)
            return false;
        uint32_t *keys = must_realloc(NULL, (run.n + 1) * sizeof(*keys));
        sound = run_keys_are_below(&run, n_nodes, keys);
        free(keys);
    }
    return sound;
}

int check_side(struct bytes in, uint32_t n_types, uint32_t n_nodes, uint32_t n_attr_sets,
               struct error *err)
{
    struct budget b;
    struct side_vecs vecs = {0};
    struct side_rows side = {0};

    if (in.len == 0)
        return 0;
    budget_init(&b, SIDE_BYTES_MAX);
    int r = side_decode(in, 0, n_types, &b, &vecs, &side);
    for (size_t i = 0; i < side.n; i++) {
        if (side.rows[i].node >= n_nodes || side.rows[i].attrs >= n_attr_sets)
            r = -EBADMSG;
    }
    side_vecs_done(&b, &vecs);
    if (r == -EBADMSG)
        return error_set(err, -EBADMSG, "links refer to names that are not known");
    return r < 0 ? budget_error(&b, err) : 0;
}

/* A profile as it is read back: its ids must mean something. */
static int check_profile(struct local *l, struct epoch *e, const struct record_profile *rec,
                         struct error *err)
{
    CLEANUP(buf_done) struct buf padded = {0};

    /* Runs may be read a little past their end, which the record's bytes do not allow. */
    buf_add_bytes(&padded, rec->payload);
    memset(buf_reserve(&padded, 16), 0, 16);
    int r = epoch_acquire(l, e, err);
    if (r < 0)
        return r;
    uint32_t n_nodes = (uint32_t)e->dict->node_parent.len;
    uint32_t n_attr_sets = (uint32_t)e->dict->attr_sets.len;
    r = check_side(rec->side, rec->n_types, n_nodes, n_attr_sets, err);
    if (r == -EBADMSG ||
        (r == 0 && !payload_is_sound(buf_bytes(&padded), rec->n_types, n_nodes, n_attr_sets)))
        r = error_set(err, -ESTALE, "a profile refers to names that are not known");
    epoch_release(l, e);
    return r;
}

static int link_profile(struct local *l, enum link_mode mode, uint64_t seq, struct bytes payload,
                        struct error *err)
{
    struct record_profile rec;

    if (!record_decode_profile(payload, &rec))
        return malformed("a profile", err);
    struct tenant *t = local_tenant(l, rec.tenant);
    struct series *s = t ? series_table_get(t->series, rec.series) : NULL;
    if (!s)
        return error_set(err, -ESTALE, "the series of a profile is not known");
    if (s->n_types != rec.n_types || s->is_group)
        return malformed("a profile", err);
    if (mode == LINK_REPLAYED && rec.start_ns < t->floors.profiles_ns)
        return 1; /* it was stored, and has been removed since */
    /* Before looking for its dictionary, which may be gone when this is a second copy. A file that
     * cannot be read must not keep new data out. */
    if (local_is_stored(l, rec.tenant, s, rec.start_ns, rec.has_id ? rec.id : NULL,
                        rec.content_hash) > 0)
        return 1;
    struct epoch *e = local_epoch(l, rec.epoch);
    if (!e || e->tenant != rec.tenant)
        return error_set(err, -ESTALE, "the dictionary of a profile is not known");
    if (mode == LINK_REPLAYED) {
        int r = check_profile(l, e, &rec, err);
        if (r < 0)
            return r;
    }
    if (!memtable_add(l->head, seq, e, &rec))
        return error_set(err, -ENOMEM, "no memory for a profile");
    if (rec.start_ns > s->max_start_ns)
        s->max_start_ns = rec.start_ns;
    local_changed(l, rec.start_ns);
    return 0;
}

static int link_spans(struct local *l, uint64_t seq, struct bytes payload, struct error *err)
{
    struct record_spans rec;

    if (!record_decode_spans(payload, &rec))
        return malformed("spans", err);
    if (!local_tenant(l, rec.tenant))
        return error_set(err, -ESTALE, "the tenant of spans is not known");
    return spans_link(l, seq, &rec, err);
}

int local_link(struct local *l, enum link_mode mode, enum record_type type, uint64_t seq,
               struct bytes payload, struct error *err)
{
    switch (type) {
    case RECORD_TENANT:
        return link_tenant(l, payload, err);
    case RECORD_EPOCH:
        return link_epoch(l, payload, err);
    case RECORD_SERIES:
        return link_series(l, mode, payload, err);
    case RECORD_DICT:
        return link_dict(l, mode, payload, err);
    case RECORD_PROFILE:
        return link_profile(l, mode, seq, payload, err);
    case RECORD_SPANS:
        return link_spans(l, seq, payload, err);
    }
    return error_set(err, -EBADMSG, "a record has the unknown type %u", (unsigned)type);
}
