#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fs.h"

/*
 * Frames: checked pieces of bytes, one after the other in a file that grows: records of the
 * write-ahead log, chunks of a dictionary. Damage costs the frames that it touches and no others.
 *
 *      0  magic, 4 bytes
 *      4  u32  head sum: low half of checksum64 of bytes 8 to 31, seeded
 *      8  u64  sum of the payload, seeded
 *     16  u64  number    what it and `tag` mean is the user's
 *     24  u32  length of the payload
 *     28  u32  tag
 *     32       payload
 *
 * Two sums, so that the length is known to be right before anything is done with it: a frame with a
 * damaged payload is stepped over, and looking for the next frame after a damaged head does not
 * hash what follows every chance magic. The seed is the id of the file, and ties frames to it: what
 * another file left on the disk is not accepted.
 */
#define FRAME_HEAD_BYTES 32

/* Damage longer than this is taken for the end, so that a file that is something else (or has
 * terabytes of hole) is given up soon. */
#define FRAME_GAP_BYTES_MAX ((uint64_t)256 << 20)

struct frame_kind {
    uint8_t magic[4];
    uint32_t payload_max;
};

struct frame {
    uint64_t offset; /* of its head in the file */
    uint64_t number;
    uint32_t tag;
    struct bytes payload; /* until the callback returns */
};

void frame_add(const struct frame_kind *kind, uint64_t seed, const struct frame *frame,
               struct buf *to);

struct frame_visitor {
    /* Anything but 0 ends the reading and is returned by it. */
    int (*frame)(void *arg, const struct frame *frame, struct error *err);
    void *arg;
};

struct frame_report {
    uint64_t n_frames;
    uint64_t n_skipped;     /* damaged places with good frames behind, a frame or more each */
    uint64_t skipped_bytes; /* in them */
    uint64_t first_skipped; /* where the first begins */
    uint64_t good_end;      /* behind the last good frame */
    uint64_t torn_bytes;    /* from there to the end, without the zeros at the end */
    bool is_cut;            /* they begin as a frame does, which the end cuts off */
};

struct frame_source {
    struct fs_file *file;
    const char *name;
    uint64_t from, to; /* in the file; `to` is not behind its end */
    uint64_t seed;
};

/*
 * Calls back for each good frame in order. Memory: about the largest frame, at least 1 MiB. Damage
 * is no error, but told in *ret, which is right as far as reading came when this fails.
 */
int frame_read(const struct frame_kind *kind, const struct frame_source *source,
               struct frame_visitor visitor, struct frame_report *ret, struct error *err);

/*
 * Calls back for the frames whose tag has a bit of `tags`, and reads no more than the heads of
 * others. Nothing is searched for: -EBADMSG at the first head that is damaged, or payload that is
 * wanted.
 */
int frame_walk(const struct frame_kind *kind, const struct frame_source *source, uint32_t tags,
               struct frame_visitor visitor, struct error *err);
