#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "profile/profile.h"
#include "wire/input.h"

/*
 * A profile format that Vesta reads, writes, or both. To add one: write formats/<name>.c defining
 * `const struct format format_<name>`, add it to the table in format.c and to meson.build, add a
 * test and a line to fuzz/meson.build.
 */
struct format {
    const char *name;      /* what --format takes and `info` prints: "pprof" */
    const char *title;     /* for people: "pprof protobuf" */
    const char *extension; /* what `convert` looks for in an output name: ".pb.gz"; or NULL */

    /*
     * How sure we are from the first bytes of the plain content (up to INPUT_PEEK_BYTES): 0 is no,
     * 100 is "saw a magic number". Never reads past `head`. NULL for formats only
     * written, and for those that nothing tells apart: they are read when named.
     */
    int (*sniff)(struct bytes head);

    /*
     * Decodes all of `in`, appending to `out`. Everything read is hostile. On failure what was
     * appended so far is the caller's to drop (format_read does).
     *
     * Returns 0, -EBADMSG (malformed: the text names the byte offset or line and the reason), or
     * -ENOBUFS (the budget is spent).
     */
    int (*decode)(struct input *in, struct profile_set *out, struct error *err);

    /*
     * Encodes a set, appending to `out`. What the format cannot express goes into `losses`, one
     * sentence per kind of loss, each ended by a newline; never NULL. A format that holds one
     * profile is given a set of one. NULL for formats only read.
     *
     * Returns 0, or -EOPNOTSUPP with what it cannot express at all.
     */
    int (*encode)(const struct profile_set *set, struct buf *out, struct buf *losses,
                  struct error *err);

    bool holds_many; /* encode takes sets of any size (OTLP); else the caller merges first */
    bool is_binary;  /* what encode writes is not for a terminal */
};

/* NULL when there is none of that name. */
const struct format *format_by_name(const char *name);

/* The format to write a file of this name in, by the longest matching extension, or NULL. */
const struct format *format_by_extension(const char *path);

/* The n-th format, or NULL past the end: for help texts and tests. */
const struct format *format_at(size_t n);

/* The most likely format of this content, or NULL. */
const struct format *format_detect(struct bytes head);

/*
 * Reads a whole input into `out`: tells the format by content (or takes `forced` when not NULL),
 * decodes, and drops what a failed decode left. Errors read "NAME: FORMAT ...: reason". An input
 * that is empty, or of no known format, is -EBADMSG with what was seen. *ret_format, when asked
 * for, is set as soon as the format is known.
 */
int format_read(struct input *in, const struct format *forced, struct profile_set *out,
                const struct format **ret_format, struct error *err);
