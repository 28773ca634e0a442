#include "store_local/backup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "segment/file_name.h"
#include "segment/wal.h"
#include "store_local/scout.h"
#include "store_local/version.h"

#define PIECE_BYTES ((size_t)1 << 20)

/* Each try copies only what is new, so a few are enough beside any writer that sleeps at times. */
#define TRIES_MAX 20

static const char *const dirs[] = {"wal", "seg", "dict", "series"};

struct copying {
    struct fs *from, *to;
    const struct clock *clock;
    struct local *l; /* with the manifest of this try */
    uint8_t *piece;
};

static int copy_bytes(struct copying *c, struct fs_file *from, struct fs_file *to, uint64_t len,
                      const char *name, struct error *err)
{
    for (uint64_t at = 0; at < len;) {
        size_t n = len - at < PIECE_BYTES ? (size_t)(len - at) : PIECE_BYTES;
        ssize_t got = fs_pread(from, c->piece, n, at, err);
        if (got < 0)
            return (int)got;
        if ((size_t)got < n)
            return error_set(err, -EBADMSG,
                             "\"%s\" is damaged: it is %" PRIu64 " bytes long and was %" PRIu64,
                             name, at + (uint64_t)got, len);
        int r = fs_pwrite(to, c->piece, n, at, err);
        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

/* The first `len` bytes of a file, durable. -ENOENT when it is not there. */
static int copy_file(struct copying *c, const char *name, uint64_t len, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *from = NULL, *to = NULL;

    int r = fs_open(c->from, name, FS_READ, &from, err);
    if (r < 0)
        return r;
    r = fs_open(c->to, name, FS_WRITE | FS_CREATE, &to, err);
    if (r == 0)
        r = fs_truncate(to, 0, err);
    if (r == 0)
        r = copy_bytes(c, from, to, len, name, err);
    if (r == 0)
        r = fs_sync(to, err);
    /* -ENOENT says one thing only: the file went while we were about it. */
    return r == -ENOENT ? -EIO : r;
}

/* ---- What the manifest names */

static int copy_segment(struct copying *c, const struct segment *s, struct error *err)
{
    struct file_name name = file_name("seg", s->id, "seg");
    uint64_t have = 0;

    /* Written and synced by a try before: files that were broken off have no full size. */
    if (fs_path_size(c->to, name.text, &have, NULL) == 0 && have == s->bytes)
        return 0;
    return copy_file(c, name.text, s->bytes, err);
}

static int copy_named(struct copying *c, struct error *err)
{
    const struct version *v = c->l->version;
    int r = 0;

    for (size_t i = 0; i < v->segments.len && r == 0; i++)
        r = copy_segment(c, v->segments.data[i], err);
    for (size_t i = 0; i < v->epochs.len && r == 0; i++) {
        const struct epoch_entry *e = &v->epochs.data[i];
        if (e->file_len > 0)
            r = copy_file(c, file_name("dict", e->id, "dict").text, e->file_len, err);
    }
    for (size_t i = 0; i < v->tenants.len && r == 0; i++) {
        const struct tenant_entry *t = &v->tenants.data[i];
        if (t->series_file_len > 0)
            r = copy_file(c, file_name("series", t->id, "series").text, t->series_file_len, err);
    }
    return r;
}

/* ---- Logs */

static int pass_over(void *arg, const struct wal_record *record, struct error *err)
{
    (void)arg, (void)record, (void)err;
    return 0;
}

/* Up to the last good record: what follows was not acknowledged when we looked. */
static int copy_wal(struct copying *c, uint64_t id, struct error *err)
{
    struct wal_report report;

    int r = wal_read(c->from, "wal", id, (struct wal_visitor){.record = pass_over}, &report, err);
    if (r < 0)
        return r;
    return copy_file(c, file_name("wal", id, "wal").text, report.good_bytes, err);
}

/* In their order: a log is full before the next one is begun, so what is copied is a prefix. */
static int copy_wals(struct copying *c, struct error *err)
{
    struct scout_ids list = {0};

    int r = scout_wals(c->l, &list, err);
    for (size_t i = 0; i < list.ids.len && r == 0; i++)
        r = copy_wal(c, list.ids.data[i], err);
    vec_done(&c->l->budget, &list.ids);
    return r;
}

/* ---- One try */

/* Logs that were flushed and removed before they were copied: their records are in segments that
 * our manifest does not name. */
static int is_flushed_since(struct copying *c, struct error *err)
{
    CLEANUP(scout_freep) struct local *now = scout_new(c->from, c->clock);
    struct manifest_report report;

    int r = scout_manifest(now, &report, err);
    return r < 0 ? r : now->version->flushed_wal != c->l->version->flushed_wal;
}

struct leftover {
    struct copying *c;
    const char *dir;
};

static int drop_leftover(void *arg, const char *name, bool is_dir)
{
    struct leftover *left = arg;
    char path[160];

    if (is_dir || scout_is_named(left->c->l->version, name))
        return 0;
    snprintf(path, sizeof(path), "%s/%.128s", left->dir, name);
    return fs_unlink(left->c->to, path, NULL);
}

static int finish(struct copying *c, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};
    bool in_doubt;
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++) {
        struct leftover left = {c, dirs[i]};
        r = fs_list(c->to, dirs[i], drop_leftover, &left, err);
        if (r == 0)
            r = fs_sync_dir(c->to, dirs[i], err);
    }
    if (r == 0)
        r = fs_sync_dir(c->to, ".", err);
    if (r < 0)
        return r;
    version_encode(c->l->version, &content);
    return manifest_file_write(c->to, buf_bytes(&content), &in_doubt, err);
}

/* 1 when it must be tried again. */
static int try_copy(struct copying *c, struct error *err)
{
    CLEANUP(scout_freep) struct local *l = scout_new(c->from, c->clock);
    struct manifest_report report;

    c->l = l;
    int r = scout_manifest(l, &report, err);
    if (r < 0)
        return r;
    if (report.is_old)
        return error_set(err, -EUCLEAN, "the store must be repaired first: %s",
                         report.trouble.text);
    r = copy_named(c, err);
    if (r == 0)
        r = copy_wals(c, err);
    if (r == -ENOENT)
        return 1;
    if (r == 0)
        r = is_flushed_since(c, err);
    return r == 0 ? finish(c, err) : r;
}

int backup_copy(struct fs *from, const struct clock *clock, struct fs *to, struct error *err)
{
    CLEANUP(freep) uint8_t *piece = malloc(PIECE_BYTES);
    struct copying c = {.from = from, .to = to, .clock = clock, .piece = piece};
    struct error why = {0};
    int r = piece ? 0 : error_set(&why, -ENOMEM, "no memory");

    for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++)
        r = fs_mkdir(to, dirs[i], &why);
    for (int i = 0; i < TRIES_MAX && r == 0; i++) {
        r = try_copy(&c, &why);
        if (r == 0)
            return 0;
        r = r > 0 ? 0 : r;
    }
    if (r == 0)
        return error_set(
            err, -EAGAIN,
            "no backup: the store changed faster than it could be copied, %d times%s%s", TRIES_MAX,
            why.text[0] ? "; at last: " : "", why.text);
    return error_set(err, r, "no backup: %s", why.text);
}

static int find_any(void *arg, const char *name, bool is_dir)
{
    (void)arg, (void)name, (void)is_dir;
    return 1;
}

int local_backup(struct store *s, const char *to_dir, struct error *err)
{
    struct local *l = local_of(s);
    CLEANUP(fs_freep) struct fs *to = NULL;

    int r = fs_real_make_root(to_dir, err);
    if (r == 0)
        r = fs_real_new(to_dir, &to, err);
    if (r == 0)
        r = fs_list(to, ".", find_any, NULL, err);
    if (r > 0)
        return error_set(err, -ENOTEMPTY, "\"%s\" is not empty", to_dir);
    return r < 0 ? r : backup_copy(l->fs, l->clock, to, err);
}
