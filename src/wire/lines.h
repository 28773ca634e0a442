#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/error.h"
#include "wire/input.h"

/*
 * Reads text line by line, in chunks: a file larger than memory costs one chunk. A line longer
 * than a chunk is held whole, within the budget.
 *
 *     struct lines l;
 *     lines_init(&l, in, budget);
 *     for (struct bytes line; lines_next(&l, &line);) use(line, l.number);
 *     int r = lines_result(&l, err);
 *     lines_done(&l);
 *
 * Failure is sticky and ends the loop, also when the budget was spent on what the lines hold;
 * lines_result() says which it was.
 */
struct lines {
    struct input *in;
    struct budget *budget;
    uint8_t *data;
    size_t cap;
    size_t pos, end; /* what is read but not handed out */
    size_t searched; /* of it, how far there is no newline */
    uint64_t number; /* of the line handed out last, from 1 */
    bool at_end;
    int failure;
    struct error error;
};

void lines_init(struct lines *l, struct input *in, struct budget *budget);
void lines_done(struct lines *l);

/* The next line without its "\n" or "\r\n", borrowed until the next call. False at the end, or when
 * reading failed. A last line needs no newline. */
bool lines_next(struct lines *l, struct bytes *ret_line);

/* 0, or what ended the reading before the end: an I/O error, a damaged compressed layer, or
 * -ENOBUFS when the budget is spent. */
int lines_result(const struct lines *l, struct error *err);

/* Sets "WHAT at line N: WHY" for the line handed out last and returns -EBADMSG. */
int lines_refuse(const struct lines *l, const char *what, const char *why, struct error *err);
