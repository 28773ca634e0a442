#include "store_local/recover.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bisect.h"
#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "segment/manifest_file.h"
#include "segment/wal.h"
#include "store_local/commit.h"
#include "store_local/epoch.h"
#include "store_local/flush.h"
#include "store_local/link.h"
#include "store_local/memtable.h"
#include "store_local/part.h"
#include "store_local/series_table.h"
#include "store_local/upkeep.h"
#include "store_local/version.h"

/* ---- The manifest */

static int choose_disk_limit(struct local *l, uint64_t *ret, struct error *err)
{
    uint64_t room = 0, total = 0;
    char text[BUDGET_TEXT_MAX];

    *ret = l->options.disk_limit;
    if (*ret > 0)
        return 0;
    int r = fs_space(l->fs, &room, &total, err);
    if (r < 0)
        return r;
    *ret = room / 5 * 4;
    local_log(l, "new store: at most %s of disk will be used, 80 %% of what is free now",
              budget_text((size_t)*ret, text));
    return 0;
}

/* The manifest comes before anything it could name, so a store without one is a new one. */
static int make_store(struct local *l, struct error *err)
{
    struct version_edit edit = {0};

    l->version = version_new();
    l->next_id = l->next_seq = 1;
    int r = choose_disk_limit(l, &edit.disk_limit, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->upkeep_lock);
    r = version_publish(l, &edit, err);
    pthread_mutex_unlock(&l->upkeep_lock);
    return r;
}

static int is_file(void *arg, const char *name, bool is_dir)
{
    uint64_t id;

    (void)arg;
    return !is_dir && (file_name_id(name, "wal", &id) || file_name_id(name, "seg", &id));
}

static int no_manifest(struct local *l, struct error *err)
{
    static const char *const dirs[] = {"wal", "seg"};

    if (l->options.must_exist || l->options.read_only)
        return error_set(err, -ENOENT, "there is no store here: %s is missing", MANIFEST_NAME);
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        int r = fs_list(l->fs, dirs[i], is_file, NULL, err);
        if (r < 0)
            return r;
        if (r > 0)
            return error_set(err, -EBADMSG, "%s is missing, but there are files in \"%s\"",
                             MANIFEST_NAME, dirs[i]);
    }
    return make_store(l, err);
}

int recover_manifest(struct local *l, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};
    struct manifest_report report = {0};

    int r = manifest_file_read(l->fs, &content, &report, err);
    if (r == -ENOENT)
        return no_manifest(l, err);
    if (r < 0)
        return r;
    r = version_decode(buf_bytes(&content), &l->version, err);
    if (r < 0)
        return error_prefix(err, r, MANIFEST_NAME);
    if (report.n_bad > 0 || report.is_old)
        local_log(l, "%s%s", report.trouble.text,
                  report.is_old ? "; the manifest before it is used" : "");
    l->keeps_unnamed = report.is_old;
    l->next_id = l->version->next_id;
    l->next_seq = 1;
    return 0;
}

/* ---- Tables */

struct series_reader {
    struct tenant *tenant;
    uint32_t n_lost;
};

static int apply_series(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct series_reader *reader = arg;

    struct bytes name;

    (void)offset;
    (void)series_take_tenant(&payload, &name);
    while (payload.len > 0) {
        struct series *s = NULL;
        struct error why;
        int r = series_apply_sparse(reader->tenant->series, &payload, &s, &why);
        if (r == -EBADMSG) {
            reader->n_lost++;
            return 0; /* where the next one begins is not known */
        }
        if (r < 0)
            return error_set(err, r, "%s", why.text);
        s->is_logged = s->is_durable = s->is_flushed = true;
    }
    return 0;
}

/* What segments refer to must not be given to other series. */
static void keep_lost_ids(struct local *l, struct tenant *t)
{
    uint32_t max = 0;

    for (size_t i = 0; i < l->version->segments.len; i++) {
        struct segment *s = l->version->segments.data[i];
        struct segment_file *f;
        if (s->tenant != t->id || s->kind != SEGMENT_PROFILES ||
            segment_file_get(l, s, &f, NULL) < 0)
            continue;
        for (uint32_t k = 0; k < f->n_parts; k++) {
            if (f->parts[k].max_series > max)
                max = f->parts[k].max_series;
        }
    }
    (void)series_table_pad(t->series, max);
}

/* A disk that cannot read now may do so the next time; too much would be lost by not asking. */
#define RECOVER_TRIES 3

static bool is_worth_another_try(int r)
{
    return r < 0 && r != -EBADMSG && r != -ENOENT && r != -ENOMEM && r != -ENOBUFS &&
           r != -EPROTONOSUPPORT;
}

static int read_series(struct local *l, struct tenant *t, struct error *err)
{
    struct file_name name = file_name("series", t->id, "series");
    struct series_reader reader = {.tenant = t};
    struct chunk_visitor visitor = {.chunk = apply_series, .arg = &reader};
    struct chunk_report report = {0};

    if (t->series_file_len == 0)
        return 0;
    struct chunk_log log = {l->fs, name.text, t->id};
    int r = chunk_log_read(&log, t->series_file_len, visitor, &report, err);
    for (int i = 1; i < RECOVER_TRIES && is_worth_another_try(r); i++) {
        reader.n_lost = 0;
        r = chunk_log_read(&log, t->series_file_len, visitor, &report, err);
    }
    /* Whoever writes would give ids to new series that others have. */
    if (r < 0 && r != -ENOENT && !(r == -EIO && l->options.read_only))
        return error_prefix(err, r, "could not read \"%s\"", name.text);
    if (r < 0 || report.n_bad > 0 || reader.n_lost > 0) {
        local_log(l, "\"%s\" is damaged: labels of some series of tenant \"%s\" are lost",
                  name.text, t->name);
        keep_lost_ids(l, t);
    }
    return 0;
}

static int64_t newest_start(const struct version *v, uint32_t tenant)
{
    int64_t max = INT64_MIN;

    for (size_t i = 0; i < v->segments.len; i++) {
        const struct segment *s = v->segments.data[i];
        if (s->tenant == tenant && s->kind == SEGMENT_PROFILES && s->max_ns > max)
            max = s->max_ns;
    }
    return max;
}

static int recover_tenant(struct local *l, const struct tenant_entry *entry, struct error *err)
{
    struct tenant *t = local_add_tenant(l, entry->id, bytes_of(entry->name));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for a tenant");
    t->policy = entry->policy;
    t->floors = entry->floors;
    t->series_file_len = entry->series_file_len;
    t->is_logged = t->is_durable = t->is_flushed = true;
    int r = read_series(l, t, err);
    if (r < 0)
        return r;
    int64_t max = newest_start(l->version, t->id);
    for (uint32_t id = 1; id <= series_table_len(t->series); id++)
        series_table_get(t->series, id)->max_start_ns = max;
    return 0;
}

static int recover_epoch(struct local *l, const struct epoch_entry *entry, struct error *err)
{
    struct tenant *t = local_tenant(l, entry->tenant);
    struct service *s = t ? tenant_service(l, t, bytes_of(entry->service)) : NULL;
    CLEANUP(epoch_freep) struct epoch *e = epoch_new_in_file(entry);

    if (!t)
        return error_set(err, -EBADMSG, "the manifest names a dictionary of an unknown tenant");
    if (!s || !local_add_epoch(l, e))
        return error_set(err, -ENOMEM, "no memory for a dictionary");
    if (!s->open || s->open->id < e->id)
        s->open = e;
    (void)TAKE_PTR(e);
    return 0;
}

int recover_tables(struct local *l, struct error *err)
{
    const struct version *v = l->version;
    int r = 0;

    for (size_t i = 0; i < v->tenants.len && r == 0; i++)
        r = recover_tenant(l, &v->tenants.data[i], err);
    for (size_t i = 0; i < v->epochs.len && r == 0; i++)
        r = recover_epoch(l, &v->epochs.data[i], err);
    return r;
}

/* ---- WALs */

struct replay {
    struct local *l;
    uint64_t wal;
    bool is_second;
    uint64_t end;  /* of what the first reading saw: a writer beside us may be adding to it */
    bool is_stuck; /* nothing can be flushed now */
    uint64_t n_profiles, n_known, n_spans, n_lost;
    char why_lost[128]; /* the first */
};

/*
 * What was replayed so far goes to segments when it is much: memory has a limit here too. The WAL
 * stays until all of it is there; read again, its rows are known.
 */
static void flush_midway(struct replay *p)
{
    struct local *l = p->l;
    uint64_t last_wal = l->last_wal;
    struct error why = {0};

    if (l->options.read_only || p->is_stuck ||
        memtable_bytes(l->head) < l->options.memory_limit / UPKEEP_HEAD_SHARE)
        return;
    pthread_mutex_lock(&l->upkeep_lock);
    l->last_wal = p->wal - 1;
    p->is_stuck = local_flush(l, &why) < 0;
    l->last_wal = last_wal;
    pthread_mutex_unlock(&l->upkeep_lock);
    if (p->is_stuck)
        local_log(l, "%s; recovery goes on in memory", why.text);
}

/* First the definitions, then what refers to them: of a damaged one the second copy stands behind.
 */
static int replay_record(void *arg, const struct wal_record *record, struct error *err)
{
    struct replay *p = arg;
    struct local *l = p->l;
    struct error why = {0};
    enum record_type type = record->type;

    if (record->seq >= l->next_seq)
        l->next_seq = record->seq + 1;
    if (record_is_definition(type) == p->is_second || (p->is_second && record->offset >= p->end))
        return 0;
    pthread_mutex_lock(&l->lock);
    int r = local_link(l, LINK_REPLAYED, type, record->seq, record->payload, &why);
    pthread_mutex_unlock(&l->lock);
    if (r == -ENOMEM || r == -ENOBUFS)
        return error_set(err, r, "%s", why.text);
    if (!p->is_second)
        return 0;
    flush_midway(p);
    p->n_profiles += r == 0 && type == RECORD_PROFILE;
    p->n_spans += r == 0 && type == RECORD_SPANS;
    p->n_known += r > 0;
    if (r < 0 && p->n_lost++ == 0)
        snprintf(p->why_lost, sizeof(p->why_lost), "%.120s", why.text);
    return 0;
}

static void tell(struct local *l, const char *name, const struct replay *p,
                 const struct wal_report *report)
{
    if (!l->options.read_only) /* who only reads finds a log like any other file */
        local_log(l,
                  "\"%s\" replayed: %" PRIu64 " profiles and %" PRIu64
                  " groups of spans restored, %" PRIu64 " were stored already",
                  name, p->n_profiles, p->n_spans, p->n_known);
    if (report->torn_bytes > 0 && !l->options.read_only)
        local_log(l, "\"%s\": an unfinished write of %" PRIu64 " bytes at its end was dropped",
                  name, report->torn_bytes);
    if (report->n_skipped > 0)
        local_log(l, "\"%s\" is damaged: %" PRIu64 " bytes in %" PRIu64 " places are lost", name,
                  report->skipped_bytes, report->n_skipped);
    if (p->n_lost > 0)
        local_log(l, "\"%s\": %" PRIu64 " records could not be restored: %s", name, p->n_lost,
                  p->why_lost);
}

/* A file that cannot be read is out of the way of what can, but not lost. */
static int set_aside(struct local *l, uint64_t id, const struct error *why, struct error *err)
{
    struct file_name from = file_name("wal", id, "wal"), to = file_name("wal", id, "bad");

    local_log(l, "%s; it is kept as \"%s\"", why->text, to.text);
    l->n_lost++;
    return l->options.read_only ? 0 : fs_rename(l->fs, from.text, to.text, err);
}

static int read_wal(struct replay *p, uint64_t id, struct wal_report *report, struct error *err)
{
    struct wal_visitor visitor = {.record = replay_record, .arg = p};

    int r = wal_read(p->l->fs, "wal", id, visitor, report, err);
    p->is_second = true;
    p->end = report->good_bytes;
    if (r == 0)
        r = wal_read(p->l->fs, "wal", id, visitor, report, err);
    return r;
}

static int replay_wal(struct local *l, uint64_t id, struct error *err)
{
    struct replay p = {.l = l, .wal = id};
    struct wal_report report = {0};
    struct error why = {0};

    int r = read_wal(&p, id, &report, &why);
    for (int i = 1; i < RECOVER_TRIES && is_worth_another_try(r); i++) {
        p = (struct replay){.l = l, .wal = id};
        r = read_wal(&p, id, &report, &why);
    }
    if (r == -ENOENT && l->options.read_only)
        return 0; /* whoever writes has just flushed it */
    if (r == -ENOMEM || r == -ENOBUFS || r == -EPROTONOSUPPORT)
        return error_set(err, r, "%s", why.text);
    if (r < 0)
        return set_aside(l, id, &why, err);
    if (report.n_records > 0 || report.torn_bytes > 0 || report.n_skipped > 0)
        tell(l, file_name("wal", id, "wal").text, &p, &report);
    l->n_lost += p.n_lost + report.n_skipped;
    return 0;
}

struct wal_list {
    struct local *l;
    VEC(uint64_t) ids;
};

static int note_wal(void *arg, const char *name, bool is_dir)
{
    struct wal_list *list = arg;
    struct local *l = list->l;
    uint64_t id;

    if (is_dir || (!file_name_id(name, "wal", &id) && !file_name_id(name, "bad", &id)))
        return 0;
    if (id >= l->next_id)
        l->next_id = id + 1;
    if (id > l->last_wal)
        l->last_wal = id;
    if (id > l->version->flushed_wal && file_name_id(name, "wal", &id) &&
        !vec_push(&l->budget, &list->ids, id))
        return -ENOMEM;
    return 0;
}

/* No number that a file has is given again, also when nothing names the file. */
static int note_number(void *arg, const char *name, bool is_dir)
{
    struct local *l = arg;
    const char *digits = file_name_is_tmp(name) ? name + strlen("tmp-") : name;
    uint64_t id = 0;

    for (; *digits >= '0' && *digits <= '9' && id < UINT64_MAX / 20; digits++)
        id = id * 10 + (uint64_t)(*digits - '0');
    if (!is_dir && id >= l->next_id)
        l->next_id = id + 1;
    return 0;
}

static int note_numbers(struct local *l, struct error *err)
{
    static const char *const dirs[] = {"seg", "dict"};

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        int r = fs_list(l->fs, dirs[i], note_number, l, err);
        if (r < 0 && !(r == -ENOENT && l->options.read_only))
            return r;
    }
    return 0;
}

int recover_wals(struct local *l, struct error *err)
{
    struct wal_list list = {.l = l};

    int r = note_numbers(l, err);
    if (r == 0)
        r = fs_list(l->fs, "wal", note_wal, &list, err);
    if (r == -ENOENT && l->options.read_only)
        r = 0;
    for (size_t i = 0; i < list.ids.len && r == 0; i++)
        r = replay_wal(l, list.ids.data[i], err);
    vec_done(&l->budget, &list.ids);
    if (r < 0)
        return r;
    pthread_mutex_lock(&l->lock);
    local_forget_logged(l);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/*
 * A process that was killed leaves a WAL, and a manifest, that can be read but may never reach the
 * disk, and a sync that failed is not made good by another. So both are written again before
 * anything else is.
 */
int recover_write_again(struct local *l, struct error *err)
{
    bool is_written = false;
    int r;

    do {
        r = local_flush(l, err);
        is_written |= r > 0;
    } while (r > 0);
    if (r == 0 && !is_written)
        r = version_publish(l, &(struct version_edit){0}, err);
    pthread_mutex_lock(&l->lock);
    l->is_unsettled = r < 0;
    pthread_mutex_unlock(&l->lock);
    return r < 0 ? r : is_written;
}

int recover_settle(struct local *l, struct error *err)
{
    struct error why = {0};
    bool has_rows = !memtable_is_empty(l->head) || l->frozen;

    pthread_mutex_lock(&l->upkeep_lock);
    int r = recover_write_again(l, &why);
    pthread_mutex_unlock(&l->upkeep_lock);
    if (r >= 0)
        return 0;
    if (!has_rows && r != -ENOSPC && r != -EDQUOT)
        return error_set(err, r, "%s", why.text);
    local_log(l, "%s; writes are refused until it can be", why.text);
    return 0;
}

/* ---- Leftovers */

static bool has_segment(const struct version *v, uint64_t id)
{
    size_t at = BISECT(v->segments.len, i, v->segments.data[i]->id < id);

    return at < v->segments.len && v->segments.data[at]->id == id;
}

struct cleaner {
    struct local *l;
    const char *dir;
};

static bool is_unnamed(const struct local *l, const char *name)
{
    uint64_t id;

    if (file_name_is_tmp(name))
        return true;
    if (file_name_id(name, "wal", &id))
        return id <= l->version->flushed_wal;
    if (file_name_id(name, "seg", &id))
        return !has_segment(l->version, id);
    if (file_name_id(name, "dict", &id))
        return version_epoch(l->version, id) == NULL;
    return false;
}

static int clean_file(void *arg, const char *name, bool is_dir)
{
    struct cleaner *c = arg;
    struct error err;
    char path[160];

    if (is_dir || !is_unnamed(c->l, name))
        return 0;
    snprintf(path, sizeof(path), "%s/%.128s", c->dir, name);
    if (fs_unlink(c->l->fs, path, &err) < 0)
        local_log(c->l, "%s", err.text);
    return 0;
}

void recover_clean(struct local *l)
{
    static const char *const dirs[] = {"wal", "seg", "dict", "series"};
    struct error err;

    /* With an old manifest, what it does not name may be all that is left. */
    for (size_t i = 0; i < ARRAY_SIZE(dirs) && !l->keeps_unnamed && !l->is_unsettled; i++) {
        struct cleaner c = {.l = l, .dir = dirs[i]};
        if (fs_list(l->fs, dirs[i], clean_file, &c, &err) < 0)
            local_log(l, "%s", err.text);
    }
}
