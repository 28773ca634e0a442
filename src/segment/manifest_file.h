#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fs.h"

/*
 * The file that says what a store consists of: MANIFEST, replaced whole each time, its content in
 * it twice, so that one bad place never loses it. MANIFEST.old is the one before. What the content
 * means is the caller's; the layout is in manifest_file.c.
 */
#define MANIFEST_VERSION   1
#define MANIFEST_NAME      "MANIFEST"
#define MANIFEST_OLD_NAME  "MANIFEST.old"
#define MANIFEST_BYTES_MAX ((size_t)64 << 20) /* of the content */

/*
 * Makes this the content, durably. After a failure MANIFEST is what it was; unless *ret_in_doubt,
 * when it cannot be known whether the old one or the new one will be found: then nothing that
 * either of them names may be removed, and nothing more be written. *ret_in_doubt is set in any
 * case.
 */
int manifest_file_write(struct fs *fs, struct bytes content, bool *ret_in_doubt, struct error *err);

struct manifest_report {
    unsigned n_bad; /* copies that were damaged, of up to four */
    /* MANIFEST was of no use, and this is MANIFEST.old: the store as it was before the last change.
     * Files that it does not name may hold data: they must not be removed. */
    bool is_old;
    struct error trouble; /* about MANIFEST, when n_bad > 0 or is_old */
};

/* Adds the content of one of the two files, by its name, and counts its damaged copies in *n_bad;
 * the text says what is wrong also when one copy was good. Fails as manifest_file_read() does. */
int manifest_file_read_one(struct fs *fs, const char *name, struct buf *to, unsigned *n_bad,
                           struct error *err);

/*
 * Adds the content to `to`. -ENOENT when there is neither file, -EBADMSG when no copy is whole,
 * -EPROTONOSUPPORT for a version that this program does not know (also when the old one is known).
 */
int manifest_file_read(struct fs *fs, struct buf *to, struct manifest_report *ret,
                       struct error *err);
