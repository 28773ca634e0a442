#include "store_local/version.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/must.h"
#include "segment/block_cache.h"
#include "segment/file_name.h"
#include "segment/manifest_file.h"
#include "store_local/part.h"

/* Segments that no version names any more, to be unlinked without the lock. */
struct dead_list {
    VEC(struct segment *) segments;
    struct budget budget;
};

static void dead_unlink(struct local *l, struct dead_list *dead)
{
    for (size_t i = 0; i < dead->segments.len; i++) {
        struct segment *s = dead->segments.data[i];
        struct error err;
        if (s->is_condemned) {
            int r = fs_unlink(l->fs, file_name("seg", s->id, "seg").text, &err);
            if (r < 0 && r != -ENOENT)
                local_log(l, "%s", err.text);
            if (l->cache)
                block_cache_forget(l->cache, s->id);
        }
        segment_free(s);
    }
    vec_done(&dead->budget, &dead->segments);
}

/* ---- References */

struct version *version_new(void)
{
    struct version *v = must_calloc(1, sizeof(*v));

    v->refs = 1;
    v->next_id = 1;
    budget_init(&v->budget, SIZE_MAX / 2);
    return v;
}

/* With the lock held, when there is one. Where the list of the dead cannot grow the file stays:
 * recovery deletes what the manifest does not name. */
static void version_free(struct version *v, struct dead_list *dead)
{
    if (v->newer)
        v->newer->older = v->older;
    if (v->older)
        v->older->newer = v->newer;
    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *s = v->segments.data[i];
        if (--s->refs == 0 && !vec_push(&dead->budget, &dead->segments, s))
            segment_free(s);
    }
    for (size_t i = 0; i < v->tombstones.len; i++)
        free(v->tombstones.data[i].selector);
    for (size_t i = 0; i < v->epochs.len; i++)
        free(v->epochs.data[i].service);
    for (size_t i = 0; i < v->tenants.len; i++)
        free(v->tenants.data[i].name);
    vec_done(&v->budget, &v->segments);
    vec_done(&v->budget, &v->tombstones);
    vec_done(&v->budget, &v->epochs);
    vec_done(&v->budget, &v->tenants);
    free(v);
}

struct version *version_ref(struct version *v)
{
    v->refs++;
    return v;
}

struct version *version_acquire(struct local *l)
{
    pthread_mutex_lock(&l->lock);
    struct version *v = version_ref(l->version);
    pthread_mutex_unlock(&l->lock);
    return v;
}

void version_release(struct local *l, struct version *v)
{
    struct dead_list dead = {0};

    if (!v)
        return;
    budget_init(&dead.budget, SIZE_MAX / 2);
    pthread_mutex_lock(&l->lock);
    if (--v->refs == 0)
        version_free(v, &dead);
    pthread_mutex_unlock(&l->lock);
    dead_unlink(l, &dead);
}

void version_discard(struct version *v)
{
    struct dead_list dead = {0};

    if (!v)
        return;
    budget_init(&dead.budget, SIZE_MAX / 2);
    version_free(v, &dead);
    for (size_t i = 0; i < dead.segments.len; i++)
        segment_free(dead.segments.data[i]);
    vec_done(&dead.budget, &dead.segments);
}

bool version_uses_epoch(const struct local *l, uint64_t epoch)
{
    for (const struct version *v = l->version; v; v = v->older) {
        for (size_t i = 0; i < v->segments.len; i++) {
            const struct segment *s = v->segments.data[i];
            size_t at = BISECT(s->n_epochs, j, s->epochs[j] < epoch);
            if (at < s->n_epochs && s->epochs[at] == epoch)
                return true;
        }
    }
    return false;
}

const struct epoch_entry *version_epoch(const struct version *v, uint64_t id)
{
    size_t at = BISECT(v->epochs.len, i, v->epochs.data[i].id < id);

    return at < v->epochs.len && v->epochs.data[at].id == id ? &v->epochs.data[at] : NULL;
}

const struct tenant_entry *version_tenant(const struct version *v, uint32_t id)
{
    size_t at = BISECT(v->tenants.len, i, v->tenants.data[i].id < id);

    return at < v->tenants.len && v->tenants.data[at].id == id ? &v->tenants.data[at] : NULL;
}

uint64_t local_new_id(struct local *l)
{
    return l->next_id++;
}

/* ---- Editing */

static bool edit_tenants(struct version *v, const struct version *old,
                         const struct version_edit *edit)
{
    for (size_t i = 0; i < old->tenants.len; i++) {
        struct tenant_entry e = old->tenants.data[i];
        if (!vec_reserve(&v->budget, &v->tenants, 1))
            return false;
        e.name = must_copy(bytes_of(e.name));
        v->tenants.data[v->tenants.len++] = e;
    }
    for (size_t i = 0; i < edit->n_tenants; i++) {
        struct tenant_entry e = edit->tenants[i];
        size_t at = BISECT(v->tenants.len, j, v->tenants.data[j].id < e.id);
        if (!vec_reserve(&v->budget, &v->tenants, 1))
            return false;
        e.name = must_copy(bytes_of(e.name));
        if (at < v->tenants.len && v->tenants.data[at].id == e.id) {
            free(v->tenants.data[at].name);
            v->tenants.data[at] = e;
            continue;
        }
        memmove(&v->tenants.data[at + 1], &v->tenants.data[at], (v->tenants.len - at) * sizeof(e));
        v->tenants.data[at] = e;
        v->tenants.len++;
    }
    return true;
}

static bool is_listed(uint64_t id, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

static bool edit_epochs(struct version *v, const struct version *old,
                        const struct version_edit *edit)
{
    for (size_t i = 0; i < old->epochs.len; i++) {
        struct epoch_entry e = old->epochs.data[i];
        if (is_listed(e.id, edit->dead_epochs, edit->n_dead_epochs))
            continue;
        if (!vec_reserve(&v->budget, &v->epochs, 1))
            return false;
        e.service = must_copy(bytes_of(e.service));
        v->epochs.data[v->epochs.len++] = e;
    }
    for (size_t i = 0; i < edit->n_epochs; i++) {
        struct epoch_entry e = edit->epochs[i];
        size_t at = BISECT(v->epochs.len, j, v->epochs.data[j].id < e.id);
        if (!vec_reserve(&v->budget, &v->epochs, 1))
            return false;
        e.service = must_copy(bytes_of(e.service));
        if (at < v->epochs.len && v->epochs.data[at].id == e.id) {
            free(v->epochs.data[at].service);
            v->epochs.data[at] = e;
            continue;
        }
        memmove(&v->epochs.data[at + 1], &v->epochs.data[at], (v->epochs.len - at) * sizeof(e));
        v->epochs.data[at] = e;
        v->epochs.len++;
    }
    return true;
}

static bool is_removed(const struct segment *s, const struct version_edit *edit)
{
    for (size_t i = 0; i < edit->n_remove; i++) {
        if (edit->remove[i] == s)
            return true;
    }
    return false;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = (*(struct segment *const *)a)->id, y = (*(struct segment *const *)b)->id;

    return x < y ? -1 : x > y;
}

/* References are taken only when the version is published. */
static bool edit_segments(struct version *v, const struct version *old,
                          const struct version_edit *edit)
{
    for (size_t i = 0; i < old->segments.len; i++) {
        if (!is_removed(old->segments.data[i], edit) &&
            !vec_push(&v->budget, &v->segments, old->segments.data[i]))
            return false;
    }
    if (!vec_append(&v->budget, &v->segments, edit->add, edit->n_add))
        return false;
    if (v->segments.len > 0)
        qsort(v->segments.data, v->segments.len, sizeof(struct segment *), by_id);
    return true;
}

/* Whether some segment may still hold rows that the tombstone hides. */
static bool is_pending(const struct version *v, const struct tombstone *t)
{
    for (size_t i = 0; i < v->segments.len; i++) {
        const struct segment *s = v->segments.data[i];
        if (s->kind == SEGMENT_PROFILES && s->tenant == t->tenant && s->tombstone_seq < t->seq &&
            s->min_ns < t->to_ns && s->max_ns >= t->from_ns)
            return true;
    }
    return false;
}

static bool edit_tombstones(struct version *v, const struct version *old,
                            const struct version_edit *edit)
{
    for (size_t i = 0; i < old->tombstones.len; i++) {
        struct tombstone t = old->tombstones.data[i];
        if (edit->prunes_tombstones && !is_pending(v, &t))
            continue;
        if (!vec_reserve(&v->budget, &v->tombstones, 1))
            return false;
        t.selector = must_copy(bytes_of(t.selector));
        v->tombstones.data[v->tombstones.len++] = t;
    }
    if (edit->tombstone) {
        struct tombstone t = *edit->tombstone;
        t.seq = ++v->tombstone_seq;
        if (!vec_reserve(&v->budget, &v->tombstones, 1))
            return false;
        t.selector = must_copy(bytes_of(t.selector));
        v->tombstones.data[v->tombstones.len++] = t;
    }
    return true;
}

static void drop_segments(struct version *v)
{
    vec_clear(&v->segments);
}

static int version_edited(struct local *l, const struct version_edit *edit, struct version **ret,
                          struct error *err)
{
    const struct version *old = l->version;
    CLEANUP(version_discardp) struct version *v = version_new();

    v->generation = old->generation + 1;
    pthread_mutex_lock(&l->lock);
    v->next_id = l->next_id;
    pthread_mutex_unlock(&l->lock);
    v->flushed_wal = edit->flushed_wal ? edit->flushed_wal : old->flushed_wal;
    v->disk_limit = edit->disk_limit ? edit->disk_limit : old->disk_limit;
    v->tombstone_seq = old->tombstone_seq;
    if (!edit_tenants(v, old, edit) || !edit_epochs(v, old, edit) || !edit_segments(v, old, edit) ||
        !edit_tombstones(v, old, edit)) {
        drop_segments(v);
        return error_set(err, -ENOMEM, "could not make a new version: no memory");
    }
    *ret = TAKE_PTR(v);
    return 0;
}

struct version *version_install(struct local *l, struct version *v)
{
    struct version *old = l->version;
    size_t j = 0;

    for (size_t i = 0; i < v->segments.len; i++)
        v->segments.data[i]->refs++;
    for (size_t i = 0; i < old->segments.len; i++) { /* both ascend by id */
        struct segment *s = old->segments.data[i];
        while (j < v->segments.len && v->segments.data[j]->id < s->id)
            j++;
        if (j == v->segments.len || v->segments.data[j] != s)
            s->is_condemned = true;
    }
    v->older = old;
    old->newer = v;
    l->version = v;
    return old;
}

/* Whether what was synced so far can be relied on. */
static int check_alive(struct local *l, struct error *err)
{
    pthread_mutex_lock(&l->lock);
    int r = local_is_dead(l, NULL) ? local_dead_error(l, err) : 0;
    pthread_mutex_unlock(&l->lock);
    return r;
}

static void die_in_doubt(struct local *l, struct error *err)
{
    struct error none = {"could not write the manifest"};

    pthread_mutex_lock(&l->lock);
    local_die(l, "%s", err ? err->text : none.text);
    pthread_mutex_unlock(&l->lock);
}

int version_prepare(struct local *l, const struct version_edit *edit, struct version **ret,
                    struct error *err)
{
    struct version *v = NULL;
    CLEANUP(buf_done) struct buf content = {0};

    int r = check_alive(l, err);
    if (r == 0)
        r = version_edited(l, edit, &v, err);
    if (r < 0)
        return r;
    version_encode(v, &content);
    bool in_doubt = false;
    r = manifest_file_write(l->fs, buf_bytes(&content), &in_doubt, err);
    if (r < 0 && (in_doubt || fs_is_in_doubt(l->fs)))
        die_in_doubt(l, err);
    if (r == 0)
        r = check_alive(l, err);
    if (r < 0) {
        /* What either manifest names stays: also the files that were to be added. */
        drop_segments(v);
        version_discard(v);
        return r;
    }
    *ret = v;
    return 0;
}

int version_publish(struct local *l, const struct version_edit *edit, struct error *err)
{
    struct version *v;

    int r = version_prepare(l, edit, &v, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    struct version *old = version_install(l, v);
    pthread_mutex_unlock(&l->lock);
    version_release(l, old);
    for (size_t i = 0; i < edit->n_dead_epochs; i++) {
        struct error why;
        r = fs_unlink(l->fs, file_name("dict", edit->dead_epochs[i], "dict").text, &why);
        if (r < 0 && r != -ENOENT)
            local_log(l, "%s", why.text);
    }
    return 0;
}
