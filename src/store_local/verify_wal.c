#include "store_local/verify_wal.h"

#include <errno.h>
#include <inttypes.h>

#include "segment/file_name.h"
#include "segment/wal.h"
#include "store_local/epoch.h"
#include "store_local/link.h"
#include "store_local/memtable.h"
#include "store_local/recover.h"
#include "store_local/scout.h"
#include "store_local/version.h"

#define HEAD_BYTES_MAX ((size_t)64 << 20)
#define TRIES_MAX      10

struct replaying {
    struct local *l;
    struct verify *v;
    bool is_second; /* definitions first, then what refers to them */
    uint64_t end;   /* of what the first reading saw: another process may be adding to it */
};

static int check_record(void *arg, const struct wal_record *record, struct error *err)
{
    struct replaying *p = arg;
    struct local *l = p->l;
    struct error why = {0};

    if (record_is_definition(record->type) == p->is_second ||
        (p->is_second && record->offset >= p->end))
        return 0;
    pthread_mutex_lock(&l->lock);
    int r = local_link(l, LINK_REPLAYED, record->type, record->seq, record->payload, &why);
    if (memtable_bytes(l->head) > HEAD_BYTES_MAX) {
        memtable_unref(l->head);
        l->head = memtable_new();
    }
    pthread_mutex_unlock(&l->lock);
    if (r == -ENOMEM || r == -ENOBUFS)
        return error_set(err, r, "%s", why.text);
    if (r < 0)
        verify_bad(p->v, "the record at %" PRIu64 ": %s", record->offset, why.text);
    return 0;
}

static void tell_report(struct verify *v, const struct wal_report *report)
{
    if (report->is_header_bad)
        verify_bad(v, "its header is damaged");
    if (report->n_skipped > 0)
        verify_bad(v, "%" PRIu64 " bytes in %" PRIu64 " places are damaged", report->skipped_bytes,
                   report->n_skipped);
    if (report->torn_bytes > 0 && report->is_cut)
        verify_note(v, "\"%s\" ends in a write of %" PRIu64 " bytes that was not finished", v->file,
                    report->torn_bytes);
    else if (report->torn_bytes > 0)
        verify_bad(
            v, "its last %" PRIu64 " bytes are damaged, or were being written when the power went",
            report->torn_bytes);
}

/* -ENOENT when the file is gone. */
static int check_wal(struct local *l, struct verify *v, uint64_t id, struct error *err)
{
    struct file_name name = file_name("wal", id, "wal");
    struct replaying p = {.l = l, .v = v};
    struct wal_report report = {0};
    struct error why = {0};
    struct wal_visitor visitor = {check_record, &p};

    verify_begin_file(v, name.text);
    int r = wal_read(l->fs, "wal", id, visitor, &report, &why);
    p.is_second = true;
    p.end = report.good_bytes;
    if (r == 0)
        r = wal_read(l->fs, "wal", id, visitor, &report, &why);
    if (r == -ENOENT || r == -ENOMEM || r == -ENOBUFS)
        return error_set(err, r, "%s", why.text);
    if (r < 0)
        verify_bad(v, "%s", why.text);
    else
        tell_report(v, &report);
    verify_begin_file(v, NULL);
    return 0;
}

static int check_wals(struct local *l, struct verify *v, struct error *err)
{
    struct scout_ids list = {0};
    struct error why;

    verify_begin_file(v, NULL);
    int r = recover_tables(l, &why);
    if (r == -EBADMSG)
        verify_bad(v, "logs were not checked: %s", why.text);
    if (r < 0)
        return r == -EBADMSG ? 0 : error_set(err, r, "%s", why.text);
    r = scout_wals(l, &list, err);
    /* Whether a profile is in a segment too does not matter here, and would be looked up. */
    version_discard(l->version);
    l->version = version_new();
    for (size_t i = 0; i < list.ids.len && r == 0; i++)
        r = check_wal(l, v, list.ids.data[i], err);
    vec_done(&l->budget, &list.ids);
    return r;
}

/* Findings are held back until it is known that they are of the files as they are. */
struct held {
    struct buf texts; /* 'b' or 'n', text, NUL */
};

static void hold(void *ctx, bool is_bad, const char *text)
{
    struct held *h = ctx;

    buf_add_byte(&h->texts, is_bad ? 'b' : 'n');
    buf_add(&h->texts, text, strlen(text) + 1);
}

static void tell_held(struct verify *v, struct held *h, uint64_t n_bad)
{
    for (size_t at = 0; at < h->texts.len;) {
        const char *text = (const char *)h->texts.data + at;
        if (v->report)
            v->report(v->ctx, *text == 'b', text + 1);
        at += strlen(text) + 1;
    }
    v->n_bad += n_bad;
}

static int read_generation(struct verify *v, uint64_t *ret, struct error *err)
{
    CLEANUP(scout_freep) struct local *l = scout_new(v->l->fs, v->l->clock);
    struct manifest_report report;

    int r = scout_manifest(l, &report, err);
    if (r == 0)
        *ret = l->version->generation;
    return r;
}

int verify_wals(struct verify *v, struct error *err)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        CLEANUP(scout_freep) struct local *l = scout_new(v->l->fs, v->l->clock);
        struct held held = {0};
        struct verify own = {.l = l, .report = hold, .ctx = &held};
        struct manifest_report report;
        uint64_t before = 0, now = 0;

        int r = scout_manifest(l, &report, err);
        before = r == 0 ? l->version->generation : 0;
        if (r == 0)
            r = check_wals(l, &own, err);
        if (r == -ENOENT || (r == 0 && own.n_bad > 0)) {
            int e = read_generation(v, &now, err);
            if (e < 0 || now != before) {
                buf_done(&held.texts);
                if (e < 0)
                    return e;
                continue;
            }
        }
        if (r == 0)
            tell_held(v, &held, own.n_bad);
        buf_done(&held.texts);
        if (r != -ENOENT)
            return r;
    }
    return error_set(err, -EBUSY, "logs were replaced faster than they could be checked");
}
