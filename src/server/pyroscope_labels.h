#pragma once

#include "query/query.h"
#include "server/pyroscope_messages.h"
#include "server/pyroscope_types.h"

/*
 * Labels as Pyroscope's clients know them. Their names are [A-Za-z0-9_], ours have dots: every
 * other character is shown as '_' (service_name, deployment_environment_name), and a name that is
 * asked for is found again in the list of those that the tenant has. Names as they are kept are
 * understood too. Labels that begin with "__" speak of the profile type (__profile_type__,
 * __name__,
 * __type__, __unit__, __period_type__, __period_unit__).
 */
struct pyroscope_names {
    const struct query *all; /* the tenant's data, whole or of a range */
    bool is_loaded;
    struct name_list list;
};
void pyroscope_names_done(struct pyroscope_names *n);

/* The name that is kept for what a client calls `name`; itself when there is none. */
int pyroscope_names_find(struct pyroscope_names *n, struct bytes name, struct bytes *ret,
                         struct error *err);

/* Whether clients are told of a label: not of what we keep for ourselves. */
bool pyroscope_label_is_shown(struct bytes name);

/* Selectors as a client writes them: {service_name="x"}, process_cpu{...}, TYPE_ID{...}. All must
 * hold, for one profile type or for any. */
struct pyroscope_selectors {
    const struct bytes *texts;
    size_t n;
    const struct pyroscope_type *type; /* NULL: any; outlives the selection */
};

/* What they mean in our terms. Not to be moved. */
struct pyroscope_selection {
    struct selector *parsed;
    struct selector ours;          /* what the store is asked; borrows from `parsed` */
    const struct matcher *of_type; /* matchers of "__" labels */
    size_t n_of_type;
    bool is_empty; /* they do not hold for the type */
    struct buf text;
};

/* -EINVAL with what is wrong. pyroscope_selection_done() is due either way. */
int pyroscope_selection_read(const struct pyroscope_selectors *from, struct pyroscope_names *names,
                             struct pyroscope_selection *ret, struct error *err);
void pyroscope_selection_done(struct pyroscope_selection *s);

/* Whether type i of a series is selected. */
bool pyroscope_selection_takes(const struct pyroscope_selection *s,
                               const struct store_series *series, size_t i);

/* pyroscope_type_parse() that also takes an id that ends in ":delta". */
int pyroscope_id_parse(struct bytes id, struct pyroscope_type *ret, struct error *err);

/* Cuts "NAME{...}" at the brace: what stands before it, and the rest with it ("{}" when there is
 * none). */
void pyroscope_query_split(struct bytes query, struct bytes *ret_name, struct bytes *ret_rest);

/* The value of a "__" label, appended to `out`. */
void pyroscope_type_label(const struct pyroscope_type *t, struct bytes name, struct buf *out);
