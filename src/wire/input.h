#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Where bytes to decode come from: a file, standard input or memory, with gzip (also several
 * members in a row) and zstd taken off, layer by layer, so that a decoder sees plain content.
 *
 * A decoder either asks for everything at once (input_all) or streams (input_read). Memory is
 * charged to the budget given at the start, so a small file that unpacks without end stops at the
 * limit. Files are read, never mapped: a file cut short meanwhile is an error and not a crash.
 */
struct input;

/* `path` may be "-" for standard input. -ENOENT, -EACCES, -EISDIR... with the name in the text. */
int input_open(const char *path, struct budget *budget, struct input **ret, struct error *err);

/* `content` is borrowed and must outlive the input. */
struct input *input_from_bytes(struct bytes content, const char *name, struct budget *budget);

/* From a descriptor, which is taken over. */
struct input *input_from_fd(int fd, const char *name, struct budget *budget);

/* Reading more than n bytes of plain content by input_read() is -EFBIG: what streams is not held,
 * so that no budget ends it. */
void input_set_limit(struct input *in, uint64_t n);

/* The source ends n bytes from where its descriptor stands: one of several in a file. Before the
 * first read. */
void input_set_source(struct input *in, uint64_t n);

void input_close(struct input *in); /* NULL is fine */
DEFINE_CLEANUP(struct input *, input_close)

/* What to call it in messages. */
const char *input_name(const struct input *in);

/*
 * The first bytes of the plain content, for telling formats apart: INPUT_PEEK_BYTES, or all there
 * is. Borrowed until the next input_all() or input_read(). Does not consume. A damaged compressed
 * layer is -EBADMSG.
 */
#define INPUT_PEEK_BYTES ((size_t)64 << 10)
int input_peek(struct input *in, struct bytes *ret, struct error *err);

/* All of the plain content, borrowed until input_close(), with at least 16 readable bytes behind.
 * Not after input_read(). */
int input_all(struct input *in, struct bytes *ret, struct error *err);

/* The next bytes of the plain content: 1..size, 0 at the end, or a negative errno. */
ssize_t input_read(struct input *in, void *to, size_t size, struct error *err);
