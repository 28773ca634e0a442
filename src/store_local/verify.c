#include "store_local/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "segment/manifest_file.h"
#include "store_local/epoch.h"
#include "store_local/epoch_names.h"
#include "store_local/link.h"
#include "store_local/local_ops.h"
#include "store_local/memtable.h"
#include "store_local/scout.h"
#include "store_local/series_table.h"
#include "store_local/verify_wal.h"
#include "store_local/version.h"

#define FINDINGS_PER_FILE 20
#define PROGRESS_NS       (2 * (int64_t)1000000000)

/* A writer that replaces files faster than they are checked is given up on. */
#define ROUNDS_MAX 50

/* ---- Telling */

void verify_begin_file(struct verify *v, const char *name)
{
    snprintf(v->file, sizeof(v->file), "%.120s", name ? name : "");
    v->in_file = 0;
}

__attribute__((format(printf, 3, 0))) static void tell(struct verify *v, bool is_bad,
                                                       const char *fmt, va_list args)
{
    struct error text;
    int n = 0;

    if (v->file[0] && is_bad)
        n = snprintf(text.text, sizeof(text.text), "\"%.100s\": ", v->file);
    vsnprintf(text.text + n, sizeof(text.text) - (size_t)n, fmt, args);
    if (v->report)
        v->report(v->ctx, is_bad, text.text);
}

void verify_bad(struct verify *v, const char *fmt, ...)
{
    va_list args;

    v->n_bad++;
    v->in_file++;
    if (v->file[0] && v->in_file > FINDINGS_PER_FILE + 1)
        return;
    va_start(args, fmt);
    tell(v, true, v->file[0] && v->in_file > FINDINGS_PER_FILE ? "and more" : fmt, args);
    va_end(args);
}

void verify_note(struct verify *v, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    tell(v, false, fmt, args);
    va_end(args);
}

static void tell_progress(struct verify *v, const char *what, size_t i, size_t n)
{
    int64_t now = clock_monotonic_ns(v->l->clock);

    if (now - v->told_at < PROGRESS_NS)
        return;
    v->told_at = now;
    verify_note(v, "%s: %zu of %zu checked", what, i, n);
}

/* ---- Series */

struct series_check {
    struct verify *v;
    struct tenant *tenant;
    bool has_name;
};

static int check_definitions(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct series_check *c = arg;
    struct bytes name;

    if (series_take_tenant(&payload, &name)) {
        if (!bytes_are(name, c->tenant->name) || c->has_name)
            verify_bad(c->v, "it names another tenant than the manifest");
        c->has_name = true;
    }
    while (payload.len > 0) {
        struct series *s = NULL;
        struct error why;
        uint32_t before = series_table_len(c->tenant->series);
        int r = series_apply_sparse(c->tenant->series, &payload, &s, &why);
        if (r == -ENOBUFS || r == -ENOMEM)
            return error_set(err, r, "%s", why.text);
        if (r < 0) {
            verify_bad(c->v, "the chunk at %" PRIu64 ": %s", offset, why.text);
            return 0;
        }
        if (s->id != before + 1)
            verify_bad(c->v, "series %" PRIu32 " follows series %" PRIu32, s->id, before);
        if (s->group > s->id || (s->group && !series_table_get(c->tenant->series, s->group)))
            verify_bad(c->v, "series %" PRIu32 " is of a group that is not known", s->id);
    }
    return 0;
}

static void tell_chunks(struct verify *v, const struct chunk_report *report)
{
    if (report->is_header_bad)
        verify_bad(v, "its header is damaged");
    if (report->n_bad > 0)
        verify_bad(v, "%" PRIu64 " bytes in %" PRIu64 " places are damaged, the first at %" PRIu64,
                   report->bad_bytes, report->n_bad, report->first_bad);
}

int verify_series(struct verify *v, const struct tenant_entry *entry, struct error *err)
{
    struct file_name name = file_name("series", entry->id, "series");
    struct chunk_report report = {0};
    struct error why;

    verify_begin_file(v, name.text);
    struct tenant *t = local_add_tenant(v->l, entry->id, bytes_of(entry->name));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for a tenant");
    struct series_check c = {.v = v, .tenant = t};
    int r =
        chunk_log_read(&(struct chunk_log){v->l->fs, name.text, entry->id}, entry->series_file_len,
                       (struct chunk_visitor){check_definitions, &c}, &report, &why);
    if (r == -ENOENT || r == -ENOMEM || r == -ENOBUFS)
        return error_set(err, r, "%s", why.text);
    if (r < 0)
        verify_bad(v, "%s", why.text);
    tell_chunks(v, &report);
    return 0;
}

/* ---- Dictionaries */

struct dict_check {
    struct verify *v;
    struct epoch *epoch;
    uint64_t first_bad; /* offset of the first chunk that does not fit; UINT64_MAX: none */
};

static int check_names(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct dict_check *c = arg;
    struct epoch_mark from, to, have = epoch_mark_of(c->epoch->dict);
    struct error why = {0};

    if (c->first_bad != UINT64_MAX)
        return 0; /* nothing that follows has a meaning */
    int r = epoch_encoded_marks(payload, &from, &to);
    if (r == 0 && !epoch_mark_equal(&from, &have))
        r = error_set(&why, -EBADMSG, "it does not go on where the one before it ends");
    if (r == 0)
        r = epoch_apply(c->epoch, payload, &why);
    if (r == 0)
        have = epoch_mark_of(c->epoch->dict);
    if (r == 0 && !epoch_mark_equal(&to, &have))
        r = error_set(&why, -EBADMSG, "names did not get the ids they had");
    if (r == -ENOBUFS || r == -ENOMEM)
        return error_set(err, r, "%s", why.text);
    if (r < 0) {
        c->first_bad = offset;
        verify_bad(c->v, "the chunk at %" PRIu64 ": %s", offset,
                   why.text[0] ? why.text : "malformed");
    }
    return 0;
}

/* Of lists that are wrong nothing is lost, but functions would not be found. */
static int check_list(void *arg, uint64_t offset, struct bytes list, struct error *err)
{
    struct dict_check *c = arg;

    (void)err;
    if (c->first_bad == UINT64_MAX && !epoch_names_are_right(c->epoch->dict, list))
        verify_bad(c->v, "the list at %" PRIu64 " does not name the functions before it", offset);
    return 0;
}

int verify_dict(struct verify *v, const struct epoch_entry *entry, struct epoch **ret,
                uint64_t *ret_good, struct error *err)
{
    struct file_name name = file_name("dict", entry->id, "dict");
    struct chunk_report report = {0};
    struct error why;
    CLEANUP(epoch_freep)
    struct epoch *e =
        epoch_new(entry->id, entry->tenant, bytes_of(entry->service), entry->created_ns);

    verify_begin_file(v, name.text);
    if (!e)
        return error_set(err, -ENOMEM, "no memory for a dictionary");
    struct dict_check c = {.v = v, .epoch = e, .first_bad = UINT64_MAX};
    int r = chunk_log_read(&(struct chunk_log){v->l->fs, name.text, entry->id}, entry->file_len,
                           (struct chunk_visitor){check_names, &c, check_list}, &report, &why);
    if (r == -ENOENT || r == -ENOMEM || r == -ENOBUFS)
        return error_set(err, r, "%s", why.text);
    if (r < 0)
        verify_bad(v, "%s", why.text);
    tell_chunks(v, &report);
    *ret_good = report.good_end;
    if (report.n_bad > 0 && report.first_bad < *ret_good)
        *ret_good = report.first_bad;
    if (c.first_bad < *ret_good)
        *ret_good = c.first_bad;
    *ret = TAKE_PTR(e);
    return 0;
}

/* ---- The manifest */

static void check_manifest(struct verify *v, const char *name, bool may_miss)
{
    CLEANUP(buf_done) struct buf content = {0};
    CLEANUP(version_discardp) struct version *version = NULL;
    struct error err = {0};
    unsigned n_bad = 0;

    verify_begin_file(v, name);
    int r = manifest_file_read_one(v->l->fs, name, &content, &n_bad, &err);
    if (r == -ENOENT && may_miss)
        return;
    if (r < 0 || n_bad > 0) {
        verify_bad(v, "%s", err.text);
        return;
    }
    if (version_decode(buf_bytes(&content), &version, &err) < 0)
        verify_bad(v, "%s", err.text);
}

/* Ids that refer to something, each file named once. */
static void check_version(struct verify *v)
{
    const struct version *version = v->l->version;

    verify_begin_file(v, MANIFEST_NAME);
    for (size_t i = 0; i < version->epochs.len; i++) {
        const struct epoch_entry *e = &version->epochs.data[i];
        if (!local_tenant(v->l, e->tenant))
            verify_bad(v, "epoch %" PRIu64 " is of tenant %" PRIu32 ", which is not known", e->id,
                       e->tenant);
        if (e->id >= version->next_id)
            verify_bad(v, "epoch %" PRIu64 " has a number that is still to be given", e->id);
    }
    for (size_t i = 0; i < version->segments.len; i++) {
        const struct segment *s = version->segments.data[i];
        if (!local_tenant(v->l, s->tenant))
            verify_bad(v, "segment %" PRIu64 " is of tenant %" PRIu32 ", which is not known", s->id,
                       s->tenant);
        if (s->id >= version->next_id)
            verify_bad(v, "segment %" PRIu64 " has a number that is still to be given", s->id);
        if (s->tombstone_seq > version->tombstone_seq)
            verify_bad(v, "segment %" PRIu64 " had a tombstone applied that never was", s->id);
    }
}

/* ---- Strays */

struct stray_check {
    struct verify *v;
    const char *dir;
    uint64_t n;
};

static int check_stray(void *arg, const char *name, bool is_dir)
{
    struct stray_check *c = arg;

    if (is_dir || scout_is_named(c->v->l->version, name))
        return 0;
    if (c->n++ < FINDINGS_PER_FILE)
        verify_note(c->v, "\"%s/%.128s\" is not named by the manifest", c->dir, name);
    return 0;
}

static void check_strays(struct verify *v)
{
    static const char *const dirs[] = {"wal", "seg", "dict", "series"};

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        struct stray_check c = {.v = v, .dir = dirs[i]};
        (void)fs_list(v->l->fs, dirs[i], check_stray, &c, NULL);
        if (c.n > FINDINGS_PER_FILE)
            verify_note(v, "and %" PRIu64 " more in \"%s\"", c.n - FINDINGS_PER_FILE, dirs[i]);
    }
}

/* ---- All of it */

struct checked_file {
    uint64_t id, len;
};

struct verifying {
    struct verify v;
    struct fs *fs;
    const struct clock *clock;
    struct budget budget;
    VEC(struct checked_file) files;
    size_t n_before; /* of them in rounds before */
    bool has_vanished;
    uint64_t generation; /* of the round before; 0: none */
    bool is_last;        /* nothing has changed since: what is missing is missing */
};

static bool is_done(const struct verifying *a, uint64_t id, uint64_t len)
{
    for (size_t i = 0; i < a->n_before; i++) {
        if (a->files.data[i].id == id && a->files.data[i].len == len)
            return true;
    }
    return false;
}

/* What came of looking at a file. */
static int file_done(struct verifying *a, uint64_t id, uint64_t len, int r, struct error *err)
{
    if (r == -ENOENT) {
        a->has_vanished = true;
        if (a->is_last)
            verify_bad(&a->v, "it is missing");
        return 0;
    }
    if (r < 0)
        return r;
    return vec_push(&a->budget, &a->files, (struct checked_file){id, len})
               ? 0
               : error_set(err, -ENOMEM, "no memory for a list of files");
}

static int check_dict(struct verifying *a, const struct epoch_entry *entry, struct error *err)
{
    CLEANUP(epoch_freep) struct epoch *e = NULL;
    uint64_t before = a->v.n_bad, good;

    int r = verify_dict(&a->v, entry, &e, &good, err);
    if (r < 0)
        return r;
    struct epoch_mark mark = epoch_mark_of(e->dict);
    if (a->v.n_bad == before && !epoch_mark_equal(&mark, &entry->mark))
        verify_bad(&a->v, "it does not hold what the manifest says");
    return 0;
}

static int check_tables(struct verifying *a, struct error *err)
{
    const struct version *version = a->v.l->version;
    int r = 0;

    for (size_t i = 0; i < version->tenants.len && r == 0; i++) {
        const struct tenant_entry *t = &version->tenants.data[i];
        r = verify_series(&a->v, t, err);
        if (r == -ENOENT) {
            a->has_vanished = true;
            if (a->is_last)
                verify_bad(&a->v, "it is missing");
            r = 0;
        }
    }
    for (size_t i = 0; i < version->epochs.len && r == 0; i++) {
        const struct epoch_entry *e = &version->epochs.data[i];
        if (is_done(a, e->id, e->file_len))
            continue;
        r = file_done(a, e->id, e->file_len, check_dict(a, e, err), err);
        tell_progress(&a->v, "dictionaries", i + 1, version->epochs.len);
    }
    return r;
}

static int check_segments(struct verifying *a, struct error *err)
{
    const struct version *version = a->v.l->version;
    int r = 0;

    for (size_t i = 0; i < version->segments.len && r == 0; i++) {
        struct segment *s = version->segments.data[i];
        if (is_done(a, s->id, s->bytes))
            continue;
        r = file_done(a, s->id, s->bytes, verify_segment(&a->v, s, err), err);
        tell_progress(&a->v, "segments", i + 1, version->segments.len);
    }
    return r;
}

/* One look at everything that was not looked at yet. 1 when there must be another. */
static int round_of(struct verifying *a, struct error *err)
{
    CLEANUP(scout_freep) struct local *l = scout_new(a->fs, a->clock);
    struct manifest_report report;

    a->v.l = l;
    a->has_vanished = false;
    a->n_before = a->files.len;
    if (a->generation == 0) {
        check_manifest(&a->v, MANIFEST_NAME, false);
        check_manifest(&a->v, MANIFEST_OLD_NAME, true);
    }
    int r = scout_manifest(l, &report, err);
    if (r < 0)
        return r == -ENOENT || r == -EBADMSG ? -EUCLEAN : r;
    a->is_last = a->generation == l->version->generation;
    bool is_first = a->generation == 0;
    a->generation = l->version->generation;
    r = check_tables(a, err);
    if (r == 0 && is_first)
        check_version(&a->v);
    if (r == 0)
        r = check_segments(a, err);
    if (r < 0 || (a->has_vanished && !a->is_last))
        return r < 0 ? r : 1;
    r = verify_wals(&a->v, err);
    if (r == 0)
        r = verify_rows_once(&a->v, NULL, NULL, err);
    check_strays(&a->v);
    return r;
}

int local_verify(struct store *s, store_report_fn report, void *ctx, struct error *err)
{
    struct local *l = local_of(s);
    struct verifying a = {.v = {.report = report, .ctx = ctx}, .fs = l->fs, .clock = l->clock};
    int r = 1;

    budget_init(&a.budget, SIZE_MAX / 2);
    a.v.told_at = clock_monotonic_ns(l->clock);
    for (int i = 0; i < ROUNDS_MAX && r > 0; i++)
        r = round_of(&a, err);
    vec_done(&a.budget, &a.files);
    if (r > 0)
        return error_set(err, -EBUSY, "files were replaced faster than they could be checked");
    if (r < 0)
        return r;
    return a.v.n_bad > 0 ? error_set(err, -EUCLEAN, "%" PRIu64 " things are wrong", a.v.n_bad) : 0;
}
