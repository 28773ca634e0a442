/*
 * The layout of a manifest: two copies, equal but for their number and sum. A copy:
 *
 *      0  magic "VMAN", u16 version, u16 number of the copy (0, 1)
 *      8  u64  length of the content
 *     16  u64  checksum64 of bytes 0 to 15 and, seeded with that, of the content
 *     24       content
 *
 * The second one begins in the middle of the file: no byte of the first is needed to find it.
 */
#include "segment/manifest_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"

#define HEAD_BYTES 24
#define TMP_NAME   "tmp-" MANIFEST_NAME

static const uint8_t magic[4] = "VMAN";

static uint64_t copy_sum(const uint8_t *head, struct bytes content)
{
    return checksum64_seeded(content.data, content.len, checksum64(head, 16));
}

static void add_copy(struct buf *to, struct bytes content, uint16_t number)
{
    uint8_t h[HEAD_BYTES];

    memcpy(h, magic, sizeof(magic));
    le16_put(h + 4, MANIFEST_VERSION);
    le16_put(h + 6, number);
    le64_put(h + 8, content.len);
    le64_put(h + 16, copy_sum(h, content));
    buf_add(to, h, sizeof(h));
    buf_add_bytes(to, content);
}

static int write_tmp(struct fs *fs, struct bytes content, struct error *err)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    CLEANUP(buf_done) struct buf out = {0};

    add_copy(&out, content, 0);
    add_copy(&out, content, 1);
    int r = fs_open(fs, TMP_NAME, FS_WRITE | FS_CREATE, &file, err);
    if (r == 0)
        r = fs_truncate(file, 0, err);
    if (r == 0)
        r = fs_pwrite(file, out.data, out.len, 0, err);
    if (r == 0)
        r = fs_sync(file, err);
    return r;
}

/* Gives MANIFEST its second name. Where there are no hard links, there is no old manifest. */
static int keep_old(struct fs *fs, struct error *err)
{
    struct error why;
    int r = fs_unlink(fs, MANIFEST_OLD_NAME, &why);

    if (r == 0 || r == -ENOENT)
        r = fs_link(fs, MANIFEST_NAME, MANIFEST_OLD_NAME, &why);
    if (r == 0 || r == -ENOENT || r == -EPERM || r == -EOPNOTSUPP)
        return 0;
    return error_set(err, r, "%s", why.text);
}

int manifest_file_write(struct fs *fs, struct bytes content, bool *ret_in_doubt, struct error *err)
{
    *ret_in_doubt = false;
    if (content.len > MANIFEST_BYTES_MAX)
        return error_set(err, -EFBIG, "could not write a manifest of %zu bytes: the limit is %zu",
                         content.len, MANIFEST_BYTES_MAX);
    int r = write_tmp(fs, content, err);
    if (r == 0)
        r = keep_old(fs, err);
    if (r == 0) {
        r = fs_rename(fs, TMP_NAME, MANIFEST_NAME, err);
        *ret_in_doubt = r < 0 && r != -ENOSPC && r != -EDQUOT;
    }
    if (r < 0) {
        (void)fs_unlink(fs, TMP_NAME, NULL);
        return r;
    }
    r = fs_sync_dir(fs, ".", err);
    *ret_in_doubt = r < 0;
    return r;
}

/* NULL and the content of the copy at the start of `from`, or what is wrong with it. */
static const char *take_copy(struct bytes from, uint16_t number, uint16_t *ret_version,
                             struct bytes *ret)
{
    if (from.len < HEAD_BYTES || memcmp(from.data, magic, sizeof(magic)) != 0)
        return "does not begin as a manifest does";
    uint64_t len = le64_get(from.data + 8);
    if (len > from.len - HEAD_BYTES)
        return "is longer than the file";
    struct bytes content = {from.data + HEAD_BYTES, (size_t)len};
    if (le64_get(from.data + 16) != copy_sum(from.data, content))
        return "does not hold against its checksum";
    if (le16_get(from.data + 6) != number)
        return "is the other one";
    *ret_version = le16_get(from.data + 4);
    *ret = content;
    return NULL;
}

int manifest_file_read_one(struct fs *fs, const char *name, struct buf *to, unsigned *n_bad,
                           struct error *err)
{
    CLEANUP(buf_done) struct buf file = {0};
    const char *wrong[2];
    struct bytes copy[2];
    uint16_t version[2];

    int r = fs_read_all(fs, name, 2 * (MANIFEST_BYTES_MAX + HEAD_BYTES), &file, err);
    if (r < 0)
        return r;
    for (uint16_t i = 0; i < 2; i++) {
        wrong[i] =
            take_copy(bytes_from(buf_bytes(&file), i * (file.len / 2)), i, &version[i], &copy[i]);
        *n_bad += wrong[i] != NULL;
    }
    if (wrong[0] || wrong[1])
        r = error_set(err, -EBADMSG, "\"%s\" is damaged: copy %d of the content %s", name,
                      wrong[0] ? 1 : 2, wrong[0] ? wrong[0] : wrong[1]);
    if (wrong[0] && wrong[1])
        return r;
    int good = wrong[0] ? 1 : 0;
    if (version[good] != MANIFEST_VERSION)
        return error_set(err, -EPROTONOSUPPORT,
                         "\"%s\" has format version %u, this program reads version %d", name,
                         version[good], MANIFEST_VERSION);
    buf_add_bytes(to, copy[good]);
    return 0;
}

int manifest_file_read(struct fs *fs, struct buf *to, struct manifest_report *ret,
                       struct error *err)
{
    *ret = (struct manifest_report){0};
    int r = manifest_file_read_one(fs, MANIFEST_NAME, to, &ret->n_bad, &ret->trouble);
    if (r == -ENOENT || r == -EBADMSG || r == -EFBIG) {
        struct error old = {{0}};
        int first = r;
        ret->is_old = true;
        r = manifest_file_read_one(fs, MANIFEST_OLD_NAME, to, &ret->n_bad, &old);
        if (r == -ENOENT) /* then what is wrong is the first thing */
            r = first == -EFBIG ? -EBADMSG : first;
        else if (r < 0)
            return error_set(err, r, "%s", old.text);
    }
    return r < 0 ? error_set(err, r, "%s", ret->trouble.text) : 0;
}
