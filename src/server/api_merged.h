#pragma once

#include "query/flame_wire.h"
#include "server/api_answer.h"

/* A selection merged, and the column that is asked about. */
struct api_merged {
    struct merged merged;
    struct profile *profile;
    uint32_t type;
    struct frame_options frames;
};

/* -ENODATA when nothing is stored. api_merged_done() is due either way. */
int api_merge(struct api_query *q, struct api_merged *ret, struct error *err);
void api_merged_done(struct api_merged *m);

/* Members about it: type, unit, types, total, warnings, and api_head()'s. */
void api_merged_head(struct api_query *q, struct api_merged *m, struct json_writer *w);

/* Members that name a sample type of a profile. */
void api_type_members(const struct profile *p, uint32_t type, struct json_writer *w);

/* How much stands behind a total: samples (an estimate) and profiles, where they are known. */
void api_size_members(const struct profile *p, uint32_t type, uint64_t n_profiles,
                      struct json_writer *w);

/* max_nodes, invert and under, whose values `under` holds. */
int api_cut(struct api_query *q, const char *under[API_PARAMS_MAX], struct flame_cut_options *ret,
            struct error *err);
/* The tree as compact bytes; the members of its header are those of the sheet. */
int api_reply_tree(struct api_query *q, struct sheet *s, struct flame_cut *f,
                   const struct flame_wire_options *o, struct error *err);
#define API_P_TREE_FORMAT "format: json, columns or tree; "

#define API_P_CUT                                                                                  \
    "max_nodes: how many nodes to keep, the heaviest, default 8192; "                              \
    "under: frames from the outermost inwards, repeated: the tree below that node; "               \
    "invert: 1 puts the frames that spend first and their callers below; "

/* Where a frame's code is, as far as it is known: of functions that are in several files, one. */
static inline struct bytes api_frame_file(const struct frames *f, uint32_t frame)
{
    const struct frame *one = &f->all.data[frame];
    return dict_text(f->dict, one->file ? one->file : one->source);
}

/* The frames that an answer mentions, each once: a table of what is known of each. */
struct api_frame_table {
    struct frames *frames;
    struct sheet_column *name, *file, *line, *type, *binary, *build;
    VEC(uint32_t) place; /* per frame: its row + 1 */
    struct budget *budget;
    uint32_t n;
};
void api_frame_table_init(struct api_frame_table *t, struct frames *frames, struct sheet *s);
/* The row of a frame; `frame` 0 is the root. UINT32_MAX when the budget is spent. */
uint32_t api_frame_row(struct api_frame_table *t, uint32_t frame);
void api_frame_table_done(struct api_frame_table *t);
