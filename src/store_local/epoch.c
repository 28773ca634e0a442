#include "store_local/epoch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/must.h"
#include "segment/chunk_log.h"
#include "segment/file_name.h"

/* No epoch grows past this, whatever one profile brings: all of it encoded, which takes less, must
 * fit one record of the WAL. */
#define EPOCH_BYTES_LIMIT ((size_t)60 << 20)

static void make_dict(struct epoch *e)
{
    e->dict = dict_new(&e->budget);
    /* Without its null elements a dictionary is none: every id would be off by one. */
    if (budget_failed(&e->budget) || !epoch_update_hashes(e))
        abort();
}

static void drop_dict(struct epoch *e)
{
    e->budget.keep = NULL;
    dict_free(e->dict);
    e->dict = NULL;
    vec_done(&e->budget, &e->node_hash);
    vec_done(&e->budget, &e->location_hash);
    vec_done(&e->budget, &e->attrs_hash);
    idset_done(&e->budget, &e->binaries);
    e->binaries_seen = 0;
}

struct epoch *epoch_new(uint64_t id, uint32_t tenant, struct bytes service, int64_t created_ns)
{
    struct epoch *e = must_calloc(1, sizeof(*e));
    e->id = id;
    e->tenant = tenant;
    e->service = must_copy(service);
    e->created_ns = created_ns;
    budget_init(&e->budget, EPOCH_BYTES_LIMIT);
    make_dict(e);
    e->logged = e->durable = e->flushed = epoch_mark_of(e->dict);
    return e;
}

struct epoch *epoch_new_in_file(const struct epoch_entry *entry)
{
    struct epoch *e =
        epoch_new(entry->id, entry->tenant, bytes_of(entry->service), entry->created_ns);

    drop_dict(e);
    e->logged = e->durable = e->flushed = entry->mark;
    e->file_len = entry->file_len;
    e->is_defined_logged = e->is_defined_durable = true;
    return e;
}

void epoch_free(struct epoch *e)
{
    if (!e)
        return;
    e->budget.keep = &e->keep;
    budget_reclaim(&e->budget);
    drop_dict(e);
    free(e->service);
    free(e);
}

/* ---- The store's epochs */

static size_t lower_bound(const struct local *l, uint64_t id)
{
    size_t lo = 0, hi = l->epochs.len;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->epochs.data[mid]->id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct epoch *local_epoch(struct local *l, uint64_t id)
{
    size_t at = lower_bound(l, id);
    return at < l->epochs.len && l->epochs.data[at]->id == id ? l->epochs.data[at] : NULL;
}

bool local_add_epoch(struct local *l, struct epoch *e)
{
    size_t at = lower_bound(l, e->id);

    if (!vec_push(&l->budget, &l->epochs, e))
        return false;
    memmove(l->epochs.data + at + 1, l->epochs.data + at,
            (l->epochs.len - 1 - at) * sizeof(struct epoch *));
    l->epochs.data[at] = e;
    return true;
}

size_t epoch_bytes(const struct epoch *e)
{
    return e->budget.used;
}

bool epoch_is_idle(const struct epoch *e)
{
    if (!e->dict || e->readers > 0 || e->pins > 0 || e->is_loading || e->memtables > 0)
        return false;
    struct epoch_mark now = epoch_mark_of(e->dict);
    return epoch_mark_equal(&now, &e->flushed);
}

size_t local_evict_epochs(struct local *l, size_t want)
{
    size_t got = 0;

    while (got < want) {
        struct epoch *oldest = NULL;
        for (size_t i = 0; i < l->epochs.len; i++) {
            struct epoch *e = l->epochs.data[i];
            if (epoch_is_idle(e) && (!oldest || e->used_at < oldest->used_at))
                oldest = e;
        }
        if (!oldest)
            break;
        got += epoch_bytes(oldest);
        drop_dict(oldest);
    }
    return got;
}

/* ---- Reading */

/* A chunk that does not fit ends it: what stands behind cannot be right either. */
static int apply_chunk(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct epoch *e = arg;
    struct error why = {0};
    int r = epoch_apply(e, payload, &why);

    (void)offset;
    if (r == -EBADMSG || r == -ESTALE) {
        e->is_damaged = true;
        return 0;
    }
    return r < 0 ? error_set(err, r, "%s", why.text) : 0;
}

int epoch_read_file(struct local *l, struct epoch *into, uint64_t file_len, struct error *err)
{
    struct file_name name = file_name("dict", into->id, "dict");
    struct chunk_visitor visitor = {.chunk = apply_chunk, .arg = into};
    struct chunk_report report = {0};

    if (file_len == 0)
        return 0;
    int r = chunk_log_read(&(struct chunk_log){l->fs, name.text, into->id}, file_len, visitor,
                           &report, err);
    if (r < 0)
        return error_prefix(err, r, "could not read the names of service \"%s\"", into->service);
    into->is_damaged |= report.n_bad > 0;
    if (into->is_damaged)
        local_log(l, "\"%s\" is damaged: some names of service \"%s\" are lost", name.text,
                  into->service);
    return 0;
}

/* Reads into an epoch of its own, so that nobody sees half of it. */
static int load(struct local *l, struct epoch *e, struct error *err)
{
    CLEANUP(epoch_freep)
    struct epoch *fresh = epoch_new(e->id, e->tenant, bytes_of(e->service), e->created_ns);
    uint64_t len = e->file_len;

    e->is_loading = true;
    pthread_mutex_unlock(&l->lock);
    int r = epoch_read_file(l, fresh, len, err);
    pthread_mutex_lock(&l->lock);
    e->is_loading = false;
    pthread_cond_broadcast(&l->committed);
    if (r < 0)
        return r;
    e->is_damaged |= fresh->is_damaged;

    /* The dictionary points at the budget that it is charged to. */
    e->dict = TAKE_PTR(fresh->dict);
    e->budget = fresh->budget;
    e->dict->budget = e->dict->text.budget = &e->budget;
    e->node_hash = (__typeof__(e->node_hash)){0};
    memcpy(&e->node_hash, &fresh->node_hash, sizeof(e->node_hash));
    memcpy(&e->location_hash, &fresh->location_hash, sizeof(e->location_hash));
    memcpy(&e->attrs_hash, &fresh->attrs_hash, sizeof(e->attrs_hash));
    e->binaries = fresh->binaries;
    e->binaries_seen = fresh->binaries_seen;
    fresh->binaries = (struct idset){0};
    memset(&fresh->node_hash, 0, sizeof(fresh->node_hash));
    memset(&fresh->location_hash, 0, sizeof(fresh->location_hash));
    memset(&fresh->attrs_hash, 0, sizeof(fresh->attrs_hash));
    budget_init(&fresh->budget, EPOCH_BYTES_LIMIT);
    return 0;
}

int epoch_acquire(struct local *l, struct epoch *e, struct error *err)
{
    e->readers++;
    while (!e->dict) {
        if (e->is_loading) {
            pthread_cond_wait(&l->committed, &l->lock);
            continue;
        }
        int r = load(l, e, err);
        if (r < 0 && r != -ENOMEM && r != -ENOBUFS && !e->dict && !e->is_loading)
            r = load(l, e, err); /* the disk may do better the second time */
        if (r < 0) {
            epoch_release(l, e);
            return r;
        }
    }
    e->budget.keep = &e->keep;
    e->used_at = clock_monotonic_ns(l->clock);
    return 0;
}

void epoch_release(struct local *l, struct epoch *e)
{
    (void)l;
    if (--e->readers > 0)
        return;
    e->budget.keep = &e->keep;
    budget_reclaim(&e->budget);
    e->budget.keep = NULL;
}

struct dict epoch_view(const struct epoch *e)
{
    return *e->dict;
}

/* ---- Marks */

struct epoch_mark epoch_mark_of(const struct dict *d)
{
    return (struct epoch_mark){
        .strings = (uint32_t)d->strings.len,
        .functions = (uint32_t)d->functions.len,
        .mappings = (uint32_t)d->mappings.len,
        .locations = (uint32_t)d->locations.len,
        .lines = (uint32_t)d->lines.len,
        .attributes = (uint32_t)d->attributes.len,
        .attr_sets = (uint32_t)d->attr_sets.len,
        .attr_ids = (uint32_t)d->attr_ids.len,
        .nodes = (uint32_t)d->node_parent.len,
    };
}

bool epoch_mark_equal(const struct epoch_mark *a, const struct epoch_mark *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool epoch_mark_covers(const struct epoch_mark *a, const struct epoch_mark *b)
{
    return a->strings >= b->strings && a->functions >= b->functions && a->mappings >= b->mappings &&
           a->locations >= b->locations && a->lines >= b->lines && a->attributes >= b->attributes &&
           a->attr_sets >= b->attr_sets && a->attr_ids >= b->attr_ids && a->nodes >= b->nodes;
}

/* Marks of one epoch are always ordered: every table only grows. */
void epoch_mark_max(struct epoch_mark *to, const struct epoch_mark *other)
{
    if (epoch_mark_covers(other, to))
        *to = *other;
}

/* ---- Hashes: of content, so that they do not depend on ids */

#define mix stable_mix

static uint64_t text_hash(const struct dict *d, uint32_t id)
{
    struct bytes s = dict_text(d, id);
    return s.len ? checksum64(s.data, s.len) : 0;
}

static uint64_t hash_attrs(const struct dict *d, uint32_t set)
{
    struct attrs have = d->attr_sets.data[set];
    uint64_t sum = 0;

    for (uint32_t i = 0; i < have.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[have.first + i]];
        sum += mix(mix(text_hash(d, a->key), text_hash(d, a->unit)),
                   mix(text_hash(d, a->text), mix(a->kind, (uint64_t)a->number)));
    }
    return sum;
}

static uint64_t hash_location(const struct dict *d, uint32_t id)
{
    const struct location *l = &d->locations.data[id];
    const struct mapping *m = &d->mappings.data[l->mapping];
    /* The place in the binary, not where it was loaded. */
    uint64_t h = mix(l->address - m->start + m->offset, text_hash(d, l->type));

    h = mix(h, text_hash(d, m->build_id ? m->build_id : m->file) + l->is_folded);
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct line *line = &d->lines.data[l->first_line + i];
        const struct function *f = &d->functions.data[line->function];
        h = mix(h, mix(text_hash(d, f->name), text_hash(d, f->file)));
        h = mix(h, mix((uint64_t)line->line, (uint64_t)line->column));
    }
    return h;
}

bool epoch_update_hashes(struct epoch *e)
{
    const struct dict *d = e->dict;
    struct budget *b = &e->budget;
    size_t sets = e->attrs_hash.len, locations = e->location_hash.len, nodes = e->node_hash.len;

    if (!vec_reserve(b, &e->attrs_hash, d->attr_sets.len - sets) ||
        !vec_reserve(b, &e->location_hash, d->locations.len - locations) ||
        !vec_reserve(b, &e->node_hash, d->node_parent.len - nodes))
        return false;
    for (; sets < d->attr_sets.len; sets++)
        e->attrs_hash.data[sets] = hash_attrs(d, (uint32_t)sets);
    for (; locations < d->locations.len; locations++)
        e->location_hash.data[locations] = hash_location(d, (uint32_t)locations);
    for (; nodes < d->node_parent.len; nodes++)
        e->node_hash.data[nodes] = nodes == 0
                                       ? 1
                                       : mix(e->node_hash.data[d->node_parent.data[nodes]],
                                             e->location_hash.data[d->node_location.data[nodes]]);
    e->attrs_hash.len = sets;
    e->location_hash.len = locations;
    e->node_hash.len = nodes;
    return true;
}

/* ---- One binary, loaded at different addresses */

#define PAGE 0x1000u

static uint64_t size_in_pages(const struct mapping *m)
{
    return (m->limit - m->start + PAGE - 1) / PAGE;
}

static uint32_t identity(const struct mapping *m)
{
    return m->build_id ? m->build_id : m->file;
}

static bool is_same_binary(const struct mapping *a, const struct mapping *b)
{
    return size_in_pages(a) == size_in_pages(b) && a->offset == b->offset &&
           identity(a) == identity(b);
}

static uint64_t binary_hash(const struct mapping *m)
{
    return hash_mix(hash_mix(size_in_pages(m), m->offset), identity(m));
}

static uint32_t find_binary(const struct epoch *e, const struct mapping *m)
{
    uint32_t at =
        IDSET_FIND(&e->binaries, binary_hash(m), i, is_same_binary(&e->dict->mappings.data[i], m));
    return at == IDSET_NONE ? 0 : at;
}

uint32_t epoch_find_binary(struct epoch *e, const struct mapping *m)
{
    for (; e->binaries_seen < e->dict->mappings.len; e->binaries_seen++) {
        const struct mapping *seen = &e->dict->mappings.data[e->binaries_seen];
        if (identity(seen) != 0 && !find_binary(e, seen) &&
            !idset_add(&e->budget, &e->binaries, binary_hash(seen), e->binaries_seen))
            break;
    }
    return identity(m) != 0 ? find_binary(e, m) : 0;
}
