#pragma once

#include "base/error.h"
#include "profile/frames.h"
#include "profile/profile.h"

/*
 * Tables about a merged profile. Every number is of the whole profile: nothing is computed from
 * what was cut for showing.
 */
struct table_row {
    uint32_t frame; /* of table.frames: table_name() */
    int64_t flat, cum;
    int64_t line; /* of line tables */
};

struct table {
    struct budget *budget;
    struct frames frames;
    VEC(struct table_row) rows;
    size_t n_all;  /* rows before the limit */
    int64_t total; /* of the column */
};

enum table_order { TABLE_BY_FLAT, TABLE_BY_CUM, TABLE_BY_NAME };

struct table_options {
    uint32_t type; /* the column */
    struct frame_options frames;
    enum table_order order;
    size_t limit; /* 0: all */
};

/* Who spends. Returns 0, -EINVAL for a column that is not there, or -ENOBUFS; table_done() is due
 * either way. */
int table_top(const struct profile *p, const struct table_options *o, struct table *ret,
              struct error *err);

/* The lines of one source file, in order: flat and cum of each. The file is given by its whole
 * name, or by its end from a slash on. -ENOENT when no frame is of that file. */
int table_lines(const struct profile *p, const struct table_options *o, const char *file,
                struct table *ret, struct error *err);

/*
 * Who calls the function of this exact name, and whom it calls: in both tables cum is what passes
 * through that call. `self` is the function's own row. -ENOENT when there is none.
 */
struct sandwich {
    struct table callers, callees; /* frames of both are those of callers: sandwich_name() */
    struct table_row self;
};
int table_sandwich(const struct profile *p, const struct table_options *o, const char *function,
                   struct sandwich *ret, struct error *err);

void table_done(struct table *t);
void sandwich_done(struct sandwich *s);

static inline const char *sandwich_name(struct sandwich *s, const struct table_row *row)
{
    return frames_name(&s->callers.frames, row->frame);
}

static inline const char *table_name(struct table *t, const struct table_row *row)
{
    return frames_name(&t->frames, row->frame);
}
