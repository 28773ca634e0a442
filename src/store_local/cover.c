#include "store_local/cover.h"

#include <stdbool.h>

#define SECOND_NS ((int64_t)1000000000)

const int64_t cover_width_ns[COVER_LEVELS] = {
    [COVER_RAW] = 0,
    [COVER_MINUTE] = 60 * SECOND_NS,
    [COVER_HOUR] = 3600 * SECOND_NS,
    [COVER_DAY] = 86400 * SECOND_NS,
    [COVER_FUNCTIONS_HOUR] = 3600 * SECOND_NS,
    [COVER_FUNCTIONS_DAY] = 86400 * SECOND_NS,
};

/* Widest first; of one width what is smallest to read. */
static const enum cover_level order[] = {
    COVER_FUNCTIONS_DAY, COVER_DAY, COVER_FUNCTIONS_HOUR, COVER_HOUR, COVER_MINUTE, COVER_RAW,
};

int64_t cover_floor(int64_t t, int64_t width)
{
    int64_t into = t % width;

    if (into < 0)
        into += width;
    return t < INT64_MIN + into ? INT64_MIN : t - into;
}

int64_t cover_ceil(int64_t t, int64_t width)
{
    int64_t low = cover_floor(t, width);

    if (low == t)
        return t;
    return low > INT64_MAX - width ? INT64_MAX : low + width;
}

struct cutter {
    const struct cover_ask *ask;
    struct cover_piece *pieces;
    size_t n;
};

static bool may_use(const struct cover_ask *ask, enum cover_level level)
{
    if (level == COVER_RAW)
        return true;
    return (ask->levels >> level & 1) != 0 && ask->step_ns % cover_width_ns[level] == 0;
}

static void add_piece(struct cutter *c, enum cover_level level, int64_t from, int64_t to)
{
    c->pieces[c->n++] = (struct cover_piece){level, from, to};
}

/* Covers [from, to) with levels order[at..). Each level that is used takes the aligned middle, the
 * two ends are for the narrower ones. */
static void cut(struct cutter *c, size_t at, int64_t from, int64_t to)
{
    if (from >= to)
        return;
    for (; order[at] != COVER_RAW; at++) {
        if (!may_use(c->ask, order[at]))
            continue;
        int64_t low = cover_ceil(from, cover_width_ns[order[at]]);
        int64_t high = cover_floor(to, cover_width_ns[order[at]]);
        if (low >= high)
            continue;
        cut(c, at + 1, from, low);
        add_piece(c, order[at], low, high);
        cut(c, at + 1, high, to);
        return;
    }
    add_piece(c, COVER_RAW, from, to);
}

size_t cover(const struct cover_ask *ask, struct cover_piece ret[COVER_PIECES_MAX])
{
    struct cutter c = {.ask = ask, .pieces = ret};
    int64_t from = ask->from_ns, to = ask->to_ns, widest = 0;

    if (from >= to || ask->min_ns > ask->max_ns || from > ask->max_ns || to <= ask->min_ns)
        return 0;
    for (size_t i = 0; widest == 0 && order[i] != COVER_RAW; i++) {
        if (may_use(ask, order[i]))
            widest = cover_width_ns[order[i]];
    }
    /* An end beyond all rows may lie anywhere there: put where buckets end, it needs no raw rows.
     */
    if (widest > 0 && from <= ask->min_ns)
        from = cover_floor(ask->min_ns, widest);
    if (widest > 0 && to > ask->max_ns && ask->max_ns < INT64_MAX)
        to = cover_ceil(ask->max_ns + 1, widest);
    cut(&c, 0, from, to);
    return c.n;
}

size_t cover_cut(struct cover_range *ranges, size_t n, int64_t from_ns, int64_t to_ns)
{
    size_t kept = 0;
    struct cover_range right = {0, 0};

    if (from_ns >= to_ns)
        return n;
    for (size_t i = 0; i < n; i++) {
        struct cover_range r = ranges[i];

        if (r.to_ns <= from_ns || r.from_ns >= to_ns) {
            ranges[kept++] = r;
            continue;
        }
        if (r.from_ns < from_ns && r.to_ns > to_ns) {
            /* Cut in two: no other range is touched, since they do not overlap. */
            for (size_t j = n; j > i + 1; j--)
                ranges[j] = ranges[j - 1];
            ranges[i] = (struct cover_range){r.from_ns, from_ns};
            ranges[i + 1] = (struct cover_range){to_ns, r.to_ns};
            return n + 1;
        }
        right = r;
        if (r.from_ns < from_ns)
            right.to_ns = from_ns;
        else
            right.from_ns = to_ns;
        if (right.from_ns < right.to_ns)
            ranges[kept++] = right;
    }
    return kept;
}
