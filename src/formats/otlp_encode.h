#pragma once

#include "formats/format.h"

/*
 * Writing OTLP: otlp_encode.c writes resources, scopes, profiles and samples and, in doing so, asks
 * otlp_encode_tables.c for the index of everything they refer to. What was asked for is then the
 * dictionary: nothing that nobody refers to, and nothing twice.
 */
enum otlp_loss {
    OTLP_LOSS_UTF8,
    OTLP_LOSS_NEGATIVE_LINE,
    OTLP_LOSS_RANGE,
    OTLP_LOSS_UNUSED_MAPPING,
    OTLP_LOSS_UNIT,
    OTLP_LOSS_SAME_KEY,
    OTLP_LOSS_CUMULATIVE,
    OTLP_LOSS_WINDOW,
    OTLP_LOSSES,
};

struct otlp_writer {
    const struct profile_set *set;
    const struct dict *from;
    struct buf *out;
    bool losses[OTLP_LOSSES];

    /* What is written, under a budget without a limit: it is no larger than what the set holds. The
     * ids of `to` are the indices of the message's tables; `values` has the texts of attribute
     * values, which are written in place and so must not be in the table of strings. */
    struct budget budget;
    struct dict *to, *values;
    VEC(uint32_t) stacks; /* the node at each index; 0 is the empty stack */

    /* Ids of `from` to those of `to`; 0 is not asked for yet. */
    uint32_t *strings, *attr_sets, *mappings, *locations, *nodes;

    VEC(struct attribute) pending; /* attributes of one owner, on their way into a set of `to` */
    VEC(uint32_t) ids;             /* scratch */
    VEC(struct line) lines;
    struct buf text;
};

void otlp_writer_init(struct otlp_writer *w, const struct profile_set *set, struct buf *out);
void otlp_writer_done(struct otlp_writer *w);

uint32_t otlp_put_string(struct otlp_writer *w, uint32_t string);
uint32_t otlp_put_stack(struct otlp_writer *w, uint32_t node);

/* A set of attributes, each key once: an attribute set of w->to. */
uint32_t otlp_put_attrs(struct otlp_writer *w, uint32_t set);
/* The attributes of an owner one by one: those of a set, and what is an attribute only in OTLP...
 */
void otlp_push_attrs(struct otlp_writer *w, uint32_t set);
void otlp_push_text(struct otlp_writer *w, const char *key, uint32_t text);
void otlp_push_message(struct otlp_writer *w, const char *key, struct bytes any_value);
/* ...and the set of them. */
uint32_t otlp_put_ids(struct otlp_writer *w);

/* The text of a string of `from` in UTF-8, valid until the next call. */
struct bytes otlp_text(struct otlp_writer *w, uint32_t string);
/* A packed list of the attributes in a set of `to`; nothing when it is empty. */
void otlp_write_indices(struct otlp_writer *w, uint32_t field, uint32_t set);
/* Field 2 of a KeyValue: the value of an attribute of `from`. */
void otlp_write_value(struct otlp_writer *w, const struct dict *texts, const struct attribute *a);

/* Field 2 of the message: all that was asked for. */
void otlp_write_dictionary(struct otlp_writer *w);
