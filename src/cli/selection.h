#pragma once

#include "base/fs.h"
#include "cli/options.h"
#include "query/query.h"

/*
 * What the command line asks of a data directory (--data). Where other commands take files, `query`
 * takes selections:
 *
 *     cpu{service.name="checkout"}                     in --from .. --to
 *     cpu{service.name="checkout"}@now-2h..now-1h      in a range of its own
 */
struct selection {
    struct selector *selector;
    bool has_range; /* said, not the default */
    struct query query;
    struct error trouble; /* why the answer is incomplete; empty: it is not */
};

/* -EINVAL with what is wrong. selection_done() is due either way. */
int selection_parse(const struct options *o, struct store *store, const char *text,
                    struct selection *ret, struct error *err);
/* Says on stderr when the answer is incomplete, and why. */
void selection_tell(const struct selection *s);
void selection_done(struct selection *s);

enum data_access {
    DATA_READ,   /* also while a server writes there */
    DATA_WRITE,  /* the only one; must be there */
    DATA_CREATE, /* made when it is not there */
};

/* Opens --data. What the store has to say goes to standard error unless --quiet. */
int data_open(const struct options *o, enum data_access access, struct store **ret,
              struct error *err);

/* What selections are asked of: the server of --url, else --data. */
int selection_open(const struct options *o, struct store **ret, struct error *err);

/* Whether a source is a selection, with a server to ask: it has braces, or is no file and looks
 * like the name of a sample type. */
bool selection_is_source(const struct options *o, const char *source);

/* local_repair() or local_upgrade() of --data; each finding goes to `report`. */
typedef int (*data_mend_fn)(struct fs *fs, store_report_fn report, void *ctx, struct error *err);
int data_mend(const struct options *o, data_mend_fn mend, store_report_fn report, void *ctx,
              struct error *err);
