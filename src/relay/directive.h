#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * What a server asks of this agent (docs/control.md), as it comes from the server and as the relay
 * hands it to the agent. Between the two only `lasts` is added: how long from now on, by the
 * server's clock, so that a host whose clock is wrong does not burst for hours, or not at all.
 */
#define DIRECTIVE_TYPES_MAX 16
#define DIRECTIVE_NAME_MAX  128

struct directive {
    uint64_t number; /* 0: nothing is asked for */
    char mode[16];
    double rate; /* 0: that of the mode */
    char types[DIRECTIVE_TYPES_MAX][DIRECTIVE_NAME_MAX];
    size_t n_types;
    int64_t until_ns; /* since 1970; 0: until told otherwise */
    int64_t lasts_ns; /* from when it was received; 0: see until_ns */
    char reason[DIRECTIVE_NAME_MAX];
};

/* Of {"directive": {...}} or of the inner object alone. Unknown keys are skipped; names that are
 * too long are cut. -EBADMSG. */
int directive_read(struct bytes json, struct directive *ret, struct error *err);
void directive_write(const struct directive *d, struct buf *out);

/* Sets lasts_ns from until_ns, given what the server's clock says ("date" of its answer); where it
 * does not say, by ours. One that has ended lasts 1 ns. */
void directive_count_from(struct directive *d, struct bytes date, int64_t wall_ns);

/* Apart from lasts_ns. */
bool directive_same(const struct directive *a, const struct directive *b);

/* "2026-11-15T18:30:00Z", with or without a fraction; UTC only. */
bool directive_time(struct bytes text, int64_t *ret_ns);
