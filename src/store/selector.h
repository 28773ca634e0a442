#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/regex.h"

/*
 * Labels, and the language that selects by them:
 *
 *     cpu{service.name="checkout", env=~"prod|stage", pod!="x"}
 *
 * The part before the brace is a sample type, "cpu" or "cpu:nanoseconds" (what has colons itself
 * stays whole: "cycles:u", "cycles:u:count"); without it every type is meant. Label names are
 * OpenTelemetry's, dots and all; a name with other characters stands in quotes. Operators are = !=
 * =~ !~; a regular expression must match the whole value; a label that is not there has the value
 * "". An empty text, or "{}", selects everything.
 */
struct label {
    struct bytes name, value;
};

#define LABEL_SERVICE     "service.name"
#define LABEL_VERSION     "service.version"
#define LABEL_ENVIRONMENT "deployment.environment.name"

enum match_op { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };

struct matcher {
    struct bytes name;
    enum match_op op;
    struct bytes value;
    struct regex *regex; /* for the last two */
};

struct selector {
    struct bytes type, unit; /* empty: any */

    /* Only series of this period. Not part of the language, and so not of what store_erase()
     * remembers. */
    bool has_period;
    struct bytes period_type, period_unit;

    struct matcher *matchers;
    size_t n_matchers;
    struct bytes text; /* what was parsed, trimmed */
    struct arena arena;
    struct budget budget;
};

#define SELECTOR_TEXT_MAX     4096
#define SELECTOR_MATCHERS_MAX 64

/* Returns 0, or -EINVAL with what was wrong and at which character. *ret belongs to the caller and
 * to one thread (regular expressions are not shared). */
int selector_parse(struct bytes text, struct selector **ret, struct error *err);
void selector_free(struct selector *s); /* NULL is fine */
DEFINE_CLEANUP(struct selector *, selector_free)

/* Whether the matchers hold for a label set, sorted by name. The type is not looked at. */
bool selector_matches(const struct selector *s, const struct label *labels, size_t n);

/* Whether a sample type is the selected one. */
bool selector_takes(const struct selector *s, struct bytes type, struct bytes unit);

/* Whether a series of this period is selected. */
bool selector_takes_period(const struct selector *s, struct bytes type, struct bytes unit);

bool matcher_holds(const struct matcher *m, struct bytes value);

/* The value of a label in a set, or an empty one. */
struct bytes label_value(const struct label *labels, size_t n, struct bytes name);

/* Sorts by name (few: quadratic); of labels with one name the last stays, those with an empty value
 * go. Returns how many are left. */
size_t labels_normalize(struct label *labels, size_t n);
