#include "store_local/commit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "segment/file_name.h"
#include "segment/wal.h"
#include "store_local/link.h"
#include "store_local/memtable.h"
#include "store_local/series_table.h"
#include "store_local/version.h"

struct commit {
    struct commit_item *first, **last; /* waiting, in order */
    bool is_busy;                      /* a group is being written */
    unsigned paused;
};

struct commit *commit_new(void)
{
    struct commit *c = must_calloc(1, sizeof(*c));
    c->last = &c->first;
    return c;
}

void commit_free(struct commit *c)
{
    free(c);
}

/* ---- Items */

struct buf *commit_begin(struct commit_item *item)
{
    if (item->n_records == item->cap_records) {
        size_t cap = item->cap_records ? item->cap_records * 2 : 8;
        item->records = must_realloc(item->records, cap * sizeof(*item->records));
        item->cap_records = cap;
    }
    item->records[item->n_records] = (struct commit_record){.offset = item->bytes.len};
    return &item->bytes;
}

void commit_end(struct commit_item *item, enum record_type type)
{
    struct commit_record *r = &item->records[item->n_records++];

    r->type = type;
    r->len = item->bytes.len - r->offset;
}

void commit_item_done(struct commit_item *item)
{
    buf_done(&item->bytes);
    free(item->records);
}

static struct bytes record_bytes(const struct commit_item *item, const struct commit_record *r)
{
    return (struct bytes){item->bytes.data + r->offset, r->len};
}

/* ---- Failing */

void local_forget_logged(struct local *l)
{
    for (size_t i = 0; i < l->epochs.len; i++) {
        struct epoch *e = l->epochs.data[i];
        e->logged = e->flushed;
        e->is_defined_logged = version_epoch(l->version, e->id) != NULL;
    }
    for (size_t i = 0; i < l->tenants.len; i++) {
        struct tenant *t = &l->tenants.data[i];
        t->is_logged = t->is_flushed;
        for (uint32_t id = 1; id <= series_table_len(t->series); id++) {
            struct series *s = series_table_get(t->series, id);
            s->is_logged = s->is_flushed;
        }
    }
}

static void finish(struct commit_item *item, int r, const struct error *err)
{
    item->result = r;
    if (r < 0)
        item->err = *err;
    item->is_done = true;
}

static void fail_items(struct commit_item *item, int r, const struct error *err)
{
    for (struct commit_item *next; item; item = next) {
        next = item->next; /* it may be gone once its thread sees that it is done */
        finish(item, r, err);
    }
}

/* What waits may refer to definitions in what failed, so it fails too. */
static void fail_all(struct local *l, struct commit_item *group, int r, const struct error *err)
{
    struct commit *c = l->commit;
    struct commit_item *waiting = c->first;

    c->first = NULL;
    c->last = &c->first;
    fail_items(group, r, err);
    fail_items(waiting, r, err);
    local_forget_logged(l);
}

/* ---- Leading */

/* Numbers for all records and for the second copies of definitions, which come last. */
static void number_group(struct local *l, struct commit_item *group)
{
    for (struct commit_item *item = group; item; item = item->next) {
        for (size_t i = 0; i < item->n_records; i++)
            item->records[i].seq = l->next_seq++;
    }
}

static int add_group(struct wal *w, const struct commit_item *group, bool only_definitions,
                     struct error *err)
{
    for (const struct commit_item *item = group; item; item = item->next) {
        for (size_t i = 0; i < item->n_records; i++) {
            const struct commit_record *rec = &item->records[i];
            if (only_definitions && !record_is_definition(rec->type))
                continue;
            int r = wal_add(w, (uint8_t)rec->type, rec->seq, record_bytes(item, rec), err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* Without the lock, but nobody else touches the WAL while the commit is busy. A definition stands
 * twice, before and behind what refers to it: one damaged record costs no other. */
static int write_group(struct local *l, uint64_t new_wal, const struct commit_item *group,
                       struct error *err)
{
    if (!l->wal) {
        int r = wal_create(l->fs, "wal", new_wal, &l->wal, err);
        if (r < 0)
            return r;
    }
    int r = add_group(l->wal, group, false, err);
    if (r == 0)
        r = add_group(l->wal, group, true, err);
    if (r < 0) {
        wal_drop(l->wal);
        return r;
    }
    return wal_commit(l->wal, err);
}

static void link_item(struct local *l, struct commit_item *item)
{
    struct error err = {0};
    int r = 0;

    for (size_t i = 0; i < item->n_records && r == 0; i++) {
        struct commit_record *rec = &item->records[i];
        rec->linked =
            local_link(l, LINK_WRITTEN, rec->type, rec->seq, record_bytes(item, rec), &err);
        r = rec->linked < 0 ? rec->linked : 0;
    }
    /* It is on disk, so it must show; all that can be done is to come back with it. */
    if (r < 0)
        local_die(l, "what was written could not be shown: %s", err.text);
    finish(item, r, &err);
}

/* The group on disk becomes visible. */
static void link_group(struct local *l, struct commit_item *group)
{
    for (struct commit_item *item = group, *next; item; item = next) {
        next = item->next;
        link_item(l, item);
    }
}

static void lead(struct local *l)
{
    struct commit *c = l->commit;
    struct commit_item *group = c->first;
    struct error err = {0};
    uint64_t new_wal = l->wal ? 0 : l->next_id++;

    c->first = NULL;
    c->last = &c->first;
    if (local_is_dead(l, NULL)) {
        int dead = local_dead_error(l, &err);
        fail_all(l, group, dead, &err);
        pthread_cond_broadcast(&l->committed);
        return;
    }
    number_group(l, group);
    c->is_busy = true;
    if (new_wal)
        l->last_wal = new_wal;
    pthread_mutex_unlock(&l->lock);
    int r = write_group(l, new_wal, group, &err);
    pthread_mutex_lock(&l->lock);
    c->is_busy = false;
    if (r < 0 && l->wal && wal_is_dead(l->wal))
        local_die(l, "%s", err.text);
    /* Another thread's sync may have failed meanwhile, and taken with it what ours was told is
     * safe. */
    if (local_is_dead(l, &err) && r == 0)
        r = local_dead_error(l, &err);
    if (r < 0)
        fail_all(l, group, r, &err);
    else
        link_group(l, group);
    pthread_cond_broadcast(&l->committed);
}

int commit_run(struct local *l, struct commit_item *item, struct error *err)
{
    struct commit *c = l->commit;

    item->next = NULL;
    *c->last = item;
    c->last = &item->next;
    while (!item->is_done) {
        if (c->is_busy || c->paused > 0)
            pthread_cond_wait(&l->committed, &l->lock);
        else
            lead(l);
    }
    if (item->result < 0 && err)
        *err = item->err;
    return item->result;
}

/* ---- Between groups */

void commit_pause(struct local *l)
{
    l->commit->paused++;
    while (l->commit->is_busy)
        pthread_cond_wait(&l->committed, &l->lock);
}

void commit_resume(struct local *l)
{
    l->commit->paused--;
    pthread_cond_broadcast(&l->committed);
}

int local_rotate(struct local *l, struct error *err)
{
    commit_pause(l);
    if (local_is_dead(l, NULL)) {
        commit_resume(l);
        return local_dead_error(l, err);
    }
    bool has_any = !memtable_is_empty(l->head) || l->last_wal > l->version->flushed_wal;
    if (has_any) {
        l->frozen = l->head;
        l->frozen_wal = l->last_wal;
        l->head = memtable_new();
        wal_free(l->wal);
        l->wal = NULL;
    }
    commit_resume(l);
    return has_any;
}

struct stale_wals {
    struct local *l;
    uint64_t up_to;
};

static int remove_wal(void *arg, const char *name, bool is_dir)
{
    struct stale_wals *s = arg;
    struct error err = {0};
    uint64_t id;

    if (is_dir || !file_name_id(name, "wal", &id) || id > s->up_to)
        return 0;
    int r = fs_unlink(s->l->fs, file_name("wal", id, "wal").text, &err);
    if (r < 0 && r != -ENOENT)
        local_log(s->l, "%s", err.text);
    return 0;
}

void local_flushed(struct local *l, struct version *version)
{
    struct stale_wals stale = {.l = l, .up_to = version->flushed_wal};
    struct error err = {0};

    pthread_mutex_lock(&l->lock);
    struct version *before = version_install(l, version);
    memtable_unref(l->frozen);
    l->frozen = NULL;
    l->flush_wanted = false;
    l->memory_checked_at = 0;
    pthread_cond_broadcast(&l->committed);
    pthread_mutex_unlock(&l->lock);
    version_release(l, before);
    if (fs_list(l->fs, "wal", remove_wal, &stale, &err) < 0)
        local_log(l, "%s", err.text);
}
