#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "cli/report.h"
#include "profile/frames.h"
#include "profile/profile.h"

/*
 * Two profiles side by side: every function before and after, and the rules that make a difference
 * a failure.
 */
struct compared {
    uint32_t frame;          /* of compare.frames */
    int64_t flat[2], cum[2]; /* before, after */
};

struct compare {
    struct budget *budget;
    struct frames frames;
    const char *type, *unit; /* of what is compared */
    int64_t total[2];
    double scale;              /* what the values before were multiplied with to normalize */
    VEC(struct compared) rows; /* largest change first */
};

struct compare_options {
    const struct report_options *report; /* filters, sample type, granularity, cum */
    bool normalize;                      /* scale `before` to the total of `after` */
};

/* -EINVAL when the sides do not have the type in common. compare_done() is due either way. */
int compare_build(struct compare *c, const struct profile *before, const struct profile *after,
                  const struct compare_options *o, struct error *err);
void compare_done(struct compare *c);

/*
 * A rule: `total`, `flat(REGEX)` (also self) or `cum(REGEX)`, then > or <, then a change: +5%,
 * 10ms, -3mb, 1000. Several are separated by commas. A rule with a regex holds when it holds for
 * one function. Appends a line per breach; *ret counts them. -EINVAL when a rule makes no sense.
 */
int compare_check(struct compare *c, const char *rules, struct buf *out, size_t *ret,
                  struct error *err);
