#include "store_local/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "segment/wal.h"
#include "store_local/epoch.h"
#include "store_local/epoch_names.h"
#include "store_local/link.h"
#include "store_local/part.h"
#include "store_local/salvage.h"
#include "store_local/scout.h"
#include "store_local/series_table.h"
#include "store_local/span_file.h"
#include "store_local/verify.h"
#include "store_local/version.h"

struct repair {
    struct local *l; /* l->version: what the new manifest will say */
    struct version *old;
    bool is_current; /* the old one is that of the last change */
    store_report_fn report;
    void *ctx;
    struct budget budget;
    VEC(struct segment *) superseded; /* borrowed */
    const char *dir;                  /* being listed */
    VEC(uint64_t) ids;                /* found there */
    const char *extension;
};

static void tell(struct repair *r, bool is_bad, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(struct repair *r, bool is_bad, const char *fmt, ...)
{
    struct error text;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text.text, sizeof(text.text), fmt, args);
    va_end(args);
    r->report(r->ctx, is_bad, text.text);
}

/* ---- Putting aside */

/* A name in lost/ that is free: what earlier repairs put there stays. */
static int lost_name(struct repair *r, const char *name, struct file_name *ret, struct error *err)
{
    for (unsigned i = 0; i < 1000; i++) {
        if (i == 0)
            snprintf(ret->text, sizeof(ret->text), LOST_DIR "/%.60s", name);
        else
            snprintf(ret->text, sizeof(ret->text), LOST_DIR "/%.60s.%u", name, i);
        int found = fs_exists(r->l->fs, ret->text, err);
        if (found <= 0)
            return found;
    }
    return error_set(err, -EEXIST, "there are a thousand \"%s\" in \"%s\"", name, LOST_DIR);
}

static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int put_aside(struct repair *r, const char *path, struct error *err)
{
    struct file_name to;
    int e = lost_name(r, leaf_of(path), &to, err);

    return e < 0 ? e : fs_rename(r->l->fs, path, to.text, err);
}

/* Where the file itself is still needed. */
static int keep_copy(struct repair *r, const char *path, struct error *err)
{
    struct file_name to;
    int e = lost_name(r, leaf_of(path), &to, err);

    return e < 0 ? e : fs_link(r->l->fs, path, to.text, err);
}

/* Puts a file that was written anew in the place of a damaged one, which stays in lost/. */
static int replace_file(struct repair *r, const char *dir, const char *tmp, const char *path,
                        struct error *err)
{
    int e = fs_exists(r->l->fs, path, err);

    if (e > 0)
        e = keep_copy(r, path, err);
    if (e == 0)
        e = fs_sync_dir(r->l->fs, LOST_DIR, err);
    if (e == 0)
        e = fs_rename(r->l->fs, tmp, path, err);
    return e < 0 ? e : fs_sync_dir(r->l->fs, dir, err);
}

/* ---- What is there */

static int note_id(void *arg, const char *name, bool is_dir)
{
    struct repair *r = arg;
    uint64_t id;

    if (is_dir || !file_name_id(name, r->extension, &id))
        return 0;
    if (id >= r->l->next_id && id < INT64_MAX)
        r->l->next_id = id + 1;
    return vec_push(&r->budget, &r->ids, id) ? 0 : -ENOMEM;
}

static int list_ids(struct repair *r, const char *dir, const char *extension, struct error *err)
{
    vec_clear(&r->ids);
    r->extension = extension;
    return fs_list(r->l->fs, dir, note_id, r, err);
}

/* ---- The manifest */

static int read_manifest(struct repair *r, struct error *err)
{
    struct local *l = r->l;
    struct manifest_report report = {0};
    struct error why;

    int e = scout_manifest(l, &report, &why);
    if (e == -EPROTONOSUPPORT || is_own_trouble(e))
        return error_set(err, e, "%s", why.text);
    r->is_current = e == 0 && !report.is_old;
    if (e < 0)
        tell(r, true,
             "%s: it is made anew from the files; what was erased since the last merging is back, "
             "and policies are lost",
             why.text);
    else if (report.n_bad > 0 || report.is_old)
        tell(r, report.is_old, "%s%s", report.trouble.text,
             report.is_old ? "; the one before it is used" : "; its other copy is used");
    if (e < 0 || report.n_bad > 0)
        (void)keep_copy(r, MANIFEST_NAME, NULL);
    r->old = e == 0 ? l->version : version_new();
    l->version = version_new();
    l->version->generation = r->old->generation + 1;
    l->version->flushed_wal = r->old->flushed_wal;
    l->version->tombstone_seq = r->old->tombstone_seq;
    l->version->disk_limit = r->old->disk_limit;
    l->next_id = r->old->next_id;
    for (size_t i = 0; i < r->old->tombstones.len; i++) {
        struct tombstone t = r->old->tombstones.data[i];
        if (!vec_reserve(&l->version->budget, &l->version->tombstones, 1))
            return error_set(err, -ENOMEM, "no memory for a manifest");
        t.selector = must_copy(bytes_of(t.selector));
        l->version->tombstones.data[l->version->tombstones.len++] = t;
    }
    return 0;
}

/* ---- Series */

static int take_name(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    char *name = arg;
    struct bytes text;

    (void)offset, (void)err;
    if (series_take_tenant(&payload, &text))
        snprintf(name, STORE_TENANT_MAX + 1, "%.*s", (int)text.len, (const char *)text.data);
    return 1; /* only the first */
}

/* Whether there is damage in what the manifest says counts. All of the file is read then: a repair
 * that was broken off may have written it again already, and what it says is true in any case. */
static bool is_series_bad(struct repair *r, const struct tenant_entry *entry)
{
    CLEANUP(scout_freep) struct local *l = scout_new(r->l->fs, r->l->clock);
    struct verify check = {.l = l};
    struct error err;

    return !entry->name || verify_series(&check, entry, &err) < 0 || check.n_bad > 0;
}

/* What the manifest said of a tenant, or what its file says. */
static void find_tenant(struct repair *r, uint32_t id, struct tenant_entry *ret)
{
    struct file_name name = file_name("series", id, "series");
    char text[STORE_TENANT_MAX + 1] = "";
    struct chunk_report report;
    uint64_t size = 0;

    *ret = (struct tenant_entry){.id = id};
    for (size_t i = 0; i < r->old->tenants.len; i++) {
        if (r->old->tenants.data[i].id == id)
            *ret = r->old->tenants.data[i];
    }
    (void)fs_path_size(r->l->fs, name.text, &size, NULL);
    if (!r->is_current || is_series_bad(r, ret))
        ret->series_file_len = size;
    (void)chunk_log_read(&(struct chunk_log){r->l->fs, name.text, id}, size,
                         (struct chunk_visitor){take_name, text}, &report, NULL);
    if (!ret->name && text[0] == '\0') {
        snprintf(text, sizeof(text), "tenant-%" PRIu32, id);
        tell(r, true, "the name of tenant %" PRIu32 " is lost: it is \"%s\" now", id, text);
    }
    ret->name = must_copy(bytes_of(ret->name ? ret->name : text));
}

/* Ids that rows refer to must not be given again. */
static int pad_series(struct repair *r, struct tenant *t, struct error *err)
{
    uint32_t max = 0;

    for (size_t i = 0; i < r->l->version->segments.len; i++) {
        struct segment *s = r->l->version->segments.data[i];
        struct segment_file *f;
        if (s->tenant != t->id || s->kind != SEGMENT_PROFILES)
            continue;
        int e = segment_file_get(r->l, s, &f, err);
        if (is_own_trouble(e))
            return e;
        if (e < 0)
            continue;
        for (uint32_t k = 0; k < f->n_parts; k++)
            max = f->parts[k].max_series > max ? f->parts[k].max_series : max;
    }
    return series_table_pad(t->series, max) ? 0 : error_set(err, -ENOMEM, "no memory for series");
}

static int write_series(struct repair *r, struct tenant_entry *entry, struct error *err)
{
    struct file_name name = file_name("series", entry->id, "series");
    struct file_name tmp = file_name_tmp("series", entry->id);
    struct tenant *t = local_tenant(r->l, entry->id);
    CLEANUP(buf_done) struct buf all = {0};

    int e = pad_series(r, t, err);
    entry->series_file_len = 0;
    if (series_table_len(t->series) == 0)
        return e; /* nothing is left, nor was anything used */
    series_encode_tenant(bytes_of(entry->name), &all);
    for (uint32_t id = 1; id <= series_table_len(t->series) && e == 0; id++) {
        series_encode(series_table_get(t->series, id), &all);
        if (all.len < (size_t)8 << 20 && id < series_table_len(t->series))
            continue;
        e = chunk_log_append(&(struct chunk_log){r->l->fs, tmp.text, entry->id},
                             entry->series_file_len, buf_bytes(&all), &entry->series_file_len, err);
        buf_clear(&all);
    }
    return e < 0 ? e : replace_file(r, "series", tmp.text, name.text, err);
}

/* Says what verifying says, as what it is that was lost. */
static void on_finding(void *ctx, bool is_bad, const char *text)
{
    struct repair *r = ctx;

    r->report(r->ctx, is_bad, text);
}

static int repair_tenant(struct repair *r, uint32_t id, struct error *err)
{
    struct version *v = r->l->version;
    struct verify check = {.l = r->l, .report = on_finding, .ctx = r};
    struct tenant_entry entry;

    find_tenant(r, id, &entry);
    if (!vec_push(&v->budget, &v->tenants, entry)) {
        free(entry.name);
        return error_set(err, -ENOMEM, "no memory for a tenant");
    }
    int e = verify_series(&check, &entry, err);
    if (e < 0 && e != -ENOENT)
        return e;
    if (e == -ENOENT)
        tell(r, true, "\"series/%010" PRIu32 ".series\" is missing", id);
    if (check.n_bad == 0 && e == 0)
        return 0;
    return write_series(r, &vec_last(&v->tenants), err);
}

static int by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void sort_ids(struct repair *r)
{
    size_t n = 0;

    if (r->ids.len > 0)
        qsort(r->ids.data, r->ids.len, sizeof(uint64_t), by_u64);
    for (size_t i = 0; i < r->ids.len; i++) {
        if (n == 0 || r->ids.data[n - 1] != r->ids.data[i])
            r->ids.data[n++] = r->ids.data[i];
    }
    r->ids.len = n;
}

static int repair_tenants(struct repair *r, struct error *err)
{
    uint64_t next_id = r->l->next_id; /* tenants are counted by themselves */
    int e = list_ids(r, "series", "series", err);

    r->l->next_id = next_id;
    if (e == 0 && r->is_current)
        vec_clear(&r->ids);
    for (size_t i = 0; i < r->old->tenants.len && e == 0; i++) {
        if (!vec_push(&r->budget, &r->ids, r->old->tenants.data[i].id))
            e = error_set(err, -ENOMEM, "no memory for a list of files");
    }
    sort_ids(r);
    for (size_t i = 0; i < r->ids.len && e == 0; i++)
        e = r->ids.data[i] > UINT32_MAX ? 0 : repair_tenant(r, (uint32_t)r->ids.data[i], err);
    return e;
}

/* ---- Dictionaries */

/* Whose a dictionary is, from rows that refer to it: 1, or 0 when none does. */
static int find_owner(struct repair *r, uint64_t id, struct epoch_entry *ret, struct error *err)
{
    const struct version *v = r->l->version;

    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *s = v->segments.data[i];
        struct tenant *t = local_tenant(r->l, s->tenant);
        struct segment_file *f;
        if (!t || s->kind != SEGMENT_PROFILES)
            continue;
        int e = segment_file_get(r->l, s, &f, err);
        if (is_own_trouble(e))
            return e;
        if (e < 0)
            continue;
        for (uint32_t k = 0; k < f->n_parts; k++) {
            const struct series *series = series_table_get(t->series, f->parts[k].min_series);
            struct bytes service =
                series ? label_value(series->labels, series->n_labels, bytes_of(LABEL_SERVICE))
                       : (struct bytes){0};
            if (f->parts[k].epoch != id || service.len == 0)
                continue;
            ret->tenant = s->tenant;
            ret->created_ns = f->parts[k].min_ns;
            ret->service = must_copy(service);
            return 1;
        }
    }
    return 0;
}

/* Writes a dictionary again as one chunk. */
static int write_dict(struct repair *r, const struct epoch *e, struct epoch_entry *entry,
                      struct error *err)
{
    struct file_name name = file_name("dict", entry->id, "dict");
    struct file_name tmp = file_name_tmp("dict", entry->id);
    CLEANUP(epoch_freep) struct epoch *empty = epoch_new(entry->id, entry->tenant, bytes_of(""), 0);
    CLEANUP(buf_done) struct buf all = {0}, names = {0};
    struct epoch_mark none = epoch_mark_of(empty->dict);

    epoch_encode(e->dict, &none, &entry->mark, &all);
    if (none.functions < entry->mark.functions)
        epoch_encode_names(e->dict, none.functions, entry->mark.functions, &names);
    int f = chunk_log_append_listed(&(struct chunk_log){r->l->fs, tmp.text, entry->id}, 0,
                                    buf_bytes(&all), buf_bytes(&names), &entry->file_len, err);
    return f < 0 ? f : replace_file(r, "dict", tmp.text, name.text, err);
}

/* What can be read of the names. A repair that was broken off may have written the file again
 * already: then it is not as long as the manifest says. */
static int read_dict(struct repair *r, struct verify *check, struct epoch_entry *entry,
                     struct epoch **ret, struct error *err)
{
    CLEANUP(epoch_freep) struct epoch *first = NULL, *second = NULL;
    struct verify quiet = {.l = r->l};
    uint64_t good = 0, size = 0;

    int e = verify_dict(check, entry, &first, &good, err);
    (void)fs_path_size(r->l->fs, file_name("dict", entry->id, "dict").text, &size, NULL);
    if (e == 0 && check->n_bad > 0 && size > entry->file_len) {
        struct epoch_entry longer = *entry;
        longer.file_len = size;
        e = verify_dict(&quiet, &longer, &second, &good, err);
    }
    if (e < 0)
        return e;
    struct epoch_mark a = epoch_mark_of(first->dict);
    struct epoch_mark b = second ? epoch_mark_of(second->dict) : a;
    *ret = second && epoch_mark_covers(&b, &a) ? TAKE_PTR(second) : TAKE_PTR(first);
    return 0;
}

static int repair_dict(struct repair *r, uint64_t id, struct error *err)
{
    struct version *v = r->l->version;
    struct verify check = {.l = r->l, .report = on_finding, .ctx = r};
    struct file_name name = file_name("dict", id, "dict");
    const struct epoch_entry *old = version_epoch(r->old, id);
    struct epoch_entry entry = {.id = id};
    CLEANUP(epoch_freep) struct epoch *e = NULL;
    uint64_t size = 0;
    int f = 1;

    if (old) {
        entry = *old;
        entry.service = must_copy(bytes_of(old->service));
    } else {
        f = find_owner(r, id, &entry, err);
    }
    if (f <= 0)
        return f; /* a stray */
    if (!vec_push(&v->budget, &v->epochs, entry)) {
        free(entry.service);
        return error_set(err, -ENOMEM, "no memory for a dictionary");
    }
    struct epoch_entry *kept = &vec_last(&v->epochs);
    (void)fs_path_size(r->l->fs, name.text, &size, NULL);
    if (!r->is_current) /* what stands behind the end of an unfinished chunk is no damage */
        kept->file_len = size;
    f = read_dict(r, &check, kept, &e, err);
    if (f == -ENOENT) {
        tell(r, true, "\"%s\" is missing", name.text);
        e = epoch_new(id, entry.tenant, bytes_of(entry.service), entry.created_ns);
    } else if (f < 0) {
        return f;
    }
    kept->mark = epoch_mark_of(e->dict);
    if (f == 0 && check.n_bad == 0 && (!old || epoch_mark_covers(&kept->mark, &old->mark)))
        return 0;
    tell(r, true, "\"%s\" is written again with what could be read", name.text);
    return write_dict(r, e, kept, err);
}

static int repair_dicts(struct repair *r, struct error *err)
{
    int e = list_ids(r, "dict", "dict", err);

    if (e == 0 && r->is_current)
        vec_clear(&r->ids);
    for (size_t i = 0; i < r->old->epochs.len && e == 0; i++) {
        if (!vec_push(&r->budget, &r->ids, r->old->epochs.data[i].id))
            e = error_set(err, -ENOMEM, "no memory for a list of files");
    }
    sort_ids(r);
    for (size_t i = 0; i < r->ids.len && e == 0; i++)
        e = repair_dict(r, r->ids.data[i], err);
    return e;
}

/* ---- Segments */

static struct segment *old_segment(const struct repair *r, uint64_t id)
{
    for (size_t i = 0; i < r->old->segments.len; i++) {
        if (r->old->segments.data[i]->id == id)
            return r->old->segments.data[i];
    }
    return NULL;
}

static int add_segment(struct repair *r, struct segment *s, struct error *err)
{
    struct version *v = r->l->version;

    if (!vec_push(&v->budget, &v->segments, s)) {
        segment_free(s);
        return error_set(err, -ENOMEM, "no memory for a manifest");
    }
    s->refs = 1;
    return 0;
}

/* Takes a file among those to be looked at, if it says what it is. */
static int take_segment(struct repair *r, uint64_t id, struct error *err)
{
    struct file_name name = file_name("seg", id, "seg");
    const struct segment *old = old_segment(r, id);
    struct segment *s = NULL;
    struct error why, spans;

    if (r->is_current && !old)
        return 0; /* a stray */
    int e = segment_describe(r->l, id, &s, &why);
    if (e < 0 && !is_own_trouble(e)) {
        e = span_file_describe(r->l, id, &s, &spans);
        if (is_own_trouble(e))
            why = spans;
    }
    if (e < 0) {
        if (is_own_trouble(e) || e == -EPROTONOSUPPORT)
            return error_set(err, e, "%s", why.text);
        tell(r, true, "%s: all that is in it is lost%s", why.text, old ? "" : ", if anything");
        if (old)
            tell(r, true, "\"%s\" had %" PRIu64 " profiles or spans", name.text, old->n_rows);
        return 0;
    }
    s->tombstone_seq = old ? old->tombstone_seq : 0;
    return add_segment(r, s, err);
}

static int take_segments(struct repair *r, struct error *err)
{
    int e = list_ids(r, "seg", "seg", err);

    sort_ids(r);
    for (size_t i = 0; i < r->ids.len && e == 0; i++)
        e = take_segment(r, r->ids.data[i], err);
    for (size_t i = 0; i < r->old->segments.len && e == 0; i++) {
        const struct segment *s = r->old->segments.data[i];
        if (!bsearch(&s->id, r->ids.data, r->ids.len, sizeof(uint64_t), by_u64))
            tell(r, r->is_current, "\"%s\" is missing, with %" PRIu64 " profiles or spans%s",
                 file_name("seg", s->id, "seg").text, s->n_rows,
                 r->is_current ? "" : ", unless they were merged");
    }
    return e;
}

static bool is_superseded(const struct repair *r, const struct segment *s)
{
    for (size_t i = 0; i < r->superseded.len; i++) {
        if (r->superseded.data[i] == s)
            return true;
    }
    return false;
}

/* A profile is stored once: who has it too, and is newer, was made of the older one. */
static void on_twice(void *arg, const struct verify_twice *twice)
{
    struct repair *r = arg;

    if (twice->a != twice->b && !is_superseded(r, twice->a))
        (void)vec_push(&r->budget, &r->superseded, twice->a);
}

static int drop_superseded(struct repair *r, struct error *err)
{
    struct verify check = {.l = r->l};
    struct version *v = r->l->version;
    size_t n = 0;

    int e = verify_rows_once(&check, on_twice, r, err);
    if (e == 0 && budget_failed(&r->budget))
        e = budget_error(&r->budget, err);
    for (size_t i = 0; i < v->segments.len; i++) {
        struct segment *s = v->segments.data[i];
        struct file_name name = file_name("seg", s->id, "seg");
        if (e < 0 || !is_superseded(r, s)) {
            v->segments.data[n++] = s;
            continue;
        }
        tell(r, false, "\"%s\" was merged into a newer one", name.text);
        segment_free(s);
    }
    v->segments.len = n;
    return e;
}

static int save_segment(struct repair *r, size_t i, struct error *err)
{
    struct segment *s = r->l->version->segments.data[i], *saved = NULL;
    struct file_name name = file_name("seg", s->id, "seg");
    const char *what = s->kind == SEGMENT_SPANS ? "spans" : "profiles";
    uint64_t n_lost = 0, n = s->n_rows;

    int e = salvage(r->l, s, &saved, &n_lost, err);
    if (e < 0)
        return error_prefix(err, e, "could not save what is left of \"%s\"", name.text);
    tell(r, n_lost > 0, "\"%s\" is written again: %" PRIu64 " of its %" PRIu64 " %s are lost",
         name.text, n_lost, n, what);
    segment_free(s);
    r->l->version->segments.data[i] = saved; /* NULL: taken out by the caller */
    if (saved)
        saved->refs = 1;
    return 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = (*(struct segment *const *)a)->id, y = (*(struct segment *const *)b)->id;

    return x < y ? -1 : x > y;
}

static int repair_segments(struct repair *r, struct error *err)
{
    struct version *v = r->l->version;
    size_t n = 0;
    int e = 0;

    for (size_t i = 0; i < v->segments.len && e == 0; i++) {
        struct verify check = {.l = r->l, .report = on_finding, .ctx = r};
        e = verify_segment(&check, v->segments.data[i], err);
        if (e == 0 && check.n_bad > 0)
            e = save_segment(r, i, err);
    }
    for (size_t i = 0; i < v->segments.len; i++) {
        if (v->segments.data[i])
            v->segments.data[n++] = v->segments.data[i];
    }
    v->segments.len = n;
    if (n > 0)
        qsort(v->segments.data, n, sizeof(struct segment *), by_id);
    return e;
}

/* ---- Logs, strays, the manifest */

static int pass_over(void *arg, const struct wal_record *record, struct error *err)
{
    (void)arg, (void)record, (void)err;
    return 0;
}

static int repair_wals(struct repair *r, struct error *err)
{
    int e = list_ids(r, "wal", "wal", err);

    for (size_t i = 0; i < r->ids.len && e == 0; i++) {
        uint64_t id = r->ids.data[i];
        struct file_name name = file_name("wal", id, "wal");
        struct wal_report report = {0};
        struct error why;
        if (id <= r->l->version->flushed_wal)
            continue; /* a stray */
        int f =
            wal_read(r->l->fs, "wal", id, (struct wal_visitor){.record = pass_over}, &report, &why);
        if (f == 0 && report.n_skipped == 0 && !report.is_header_bad &&
            (report.torn_bytes == 0 || report.is_cut))
            continue;
        tell(r, true, "\"%s\" is damaged: %" PRIu64 " bytes of it are lost", name.text,
             report.skipped_bytes + report.torn_bytes);
        e = keep_copy(r, name.text, err);
    }
    return e;
}

struct stray_list {
    struct repair *r;
    const char *dir;
    struct error *err;
};

static int put_stray_aside(void *arg, const char *name, bool is_dir)
{
    struct stray_list *list = arg;
    const struct version *v = list->r->l->version;
    char path[160];

    /* Before the manifest was read, only what was never finished is known to be one. */
    if (is_dir || (v ? scout_is_named(v, name) : !file_name_is_tmp(name)))
        return 0;
    snprintf(path, sizeof(path), "%s/%.128s", list->dir, name);
    tell(list->r, false, "\"%s\" is not named by the manifest: it is put aside", path);
    return put_aside(list->r, path, list->err);
}

static const char *const dirs[] = {"wal", "seg", "dict", "series"};

static int put_strays_aside(struct repair *r, struct error *err)
{
    int e = 0;

    for (size_t i = 0; i < ARRAY_SIZE(dirs) && e == 0; i++) {
        struct stray_list list = {r, dirs[i], err};
        e = fs_list(r->l->fs, dirs[i], put_stray_aside, &list, err);
        if (e == 0)
            e = fs_sync_dir(r->l->fs, dirs[i], err);
    }
    return e < 0 ? e : fs_sync_dir(r->l->fs, LOST_DIR, err);
}

static int write_manifest(struct repair *r, struct error *err)
{
    struct version *v = r->l->version;
    uint64_t room = 0, total = 0;
    int e = 0;

    if (v->disk_limit == 0 && fs_space(r->l->fs, &room, &total, NULL) == 0)
        v->disk_limit = room / 5 * 4;
    for (int i = 0; i < 2 && e == 0; i++, v->generation++) {
        CLEANUP(buf_done) struct buf content = {0};
        bool in_doubt;
        v->next_id = r->l->next_id;
        version_encode(v, &content);
        e = manifest_file_write(r->l->fs, buf_bytes(&content), &in_doubt, err);
    }
    return e;
}

static int repair_files(struct repair *r, struct error *err)
{
    int e = local_take_lock(r->l, err);

    for (size_t i = 0; i < ARRAY_SIZE(dirs) && e == 0; i++)
        e = fs_mkdir(r->l->fs, dirs[i], err);
    if (e == 0)
        e = fs_mkdir(r->l->fs, LOST_DIR, err);
    if (e == 0)
        e = put_strays_aside(r, err); /* unfinished files, of a process that is gone */
    if (e == 0)
        e = read_manifest(r, err);
    if (e == 0)
        e = list_ids(r, "wal", "wal", err);
    if (e == 0)
        e = list_ids(r, "dict", "dict", err);
    if (e == 0)
        e = take_segments(r, err);
    if (e == 0)
        e = repair_tenants(r, err);
    if (e == 0)
        e = repair_dicts(r, err);
    if (e == 0 && !r->is_current)
        e = drop_superseded(r, err);
    if (e == 0)
        e = repair_segments(r, err);
    if (e == 0)
        e = repair_wals(r, err);
    /* Until here everything that the old manifest names is where it was. */
    if (e == 0)
        e = write_manifest(r, err);
    return e < 0 ? e : put_strays_aside(r, err);
}

/* ---- The store as it is then */

static void on_log(void *ctx, const char *text)
{
    struct repair *r = ctx;

    r->report(r->ctx, false, text);
}

/* After a flush, what is left of logs could not be restored. */
static int drop_wals(struct repair *r, struct local *l, struct error *err)
{
    CLEANUP(scout_freep) struct local *scout = scout_new(l->fs, l->clock);
    struct scout_ids list = {0};
    struct manifest_report report;

    int e = scout_manifest(scout, &report, err);
    if (e == 0)
        e = scout_wals(scout, &list, err);
    r->l = scout;
    for (size_t i = 0; i < list.ids.len && e == 0; i++) {
        if (!l->wal || wal_id(l->wal) != list.ids.data[i])
            e = put_aside(r, file_name("wal", list.ids.data[i], "wal").text, err);
    }
    vec_done(&scout->budget, &list.ids);
    r->l = NULL;
    return e;
}

static int open_repaired(struct repair *r, struct fs *fs, struct error *err)
{
    CLEANUP(store_closep) struct store *s = NULL;
    struct local_options options = {
        .fs = fs, .must_exist = true, .threads = 1, .log = on_log, .log_ctx = r};

    int e = local_open(&options, &s, err);
    if (e < 0)
        return e;
    do
        e = store_upkeep(s, UPKEEP_FLUSH, err);
    while (e > 0);
    if (e == 0)
        e = drop_wals(r, local_of(s), err);
    return e < 0 ? e : store_verify(s, r->report, r->ctx, err);
}

int local_repair(struct fs *fs, store_report_fn report, void *ctx, struct error *err)
{
    struct repair r = {.l = scout_new(fs, NULL), .report = report, .ctx = ctx};

    budget_init(&r.budget, SIZE_MAX / 2);
    int e = repair_files(&r, err);
    version_discard(r.old);
    scout_free(TAKE_PTR(r.l));
    vec_done(&r.budget, &r.ids);
    vec_done(&r.budget, &r.superseded);
    if (e < 0) {
        fs_free(fs);
        return error_prefix(err, e, "could not repair the store");
    }
    return open_repaired(&r, fs, err);
}
