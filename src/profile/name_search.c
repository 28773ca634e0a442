#include "profile/name_search.h"

#include "profile/filter_internal.h"

/* Of a location: whether it was looked at, whether anything of it matches, and its innermost frame.
 */
enum { KNOWN = 1, ANY = 2, INNERMOST = 4 };

struct search {
    const struct profile *p;
    struct dict *dict;
    struct frames *frames;
    struct matcher matcher;
    VEC(uint8_t) locations;
    VEC(bool) found;     /* per frame: it is counted already */
    VEC(uint8_t) stacks; /* 0 not in use, 1 in use, 3 in use and found */
    uint64_t functions;
};

static void count_frame(struct search *s, uint32_t frame)
{
    if (frame >= s->found.len && !vec_resize(s->dict->budget, &s->found, s->frames->all.len))
        return;
    s->functions += !s->found.data[frame];
    s->found.data[frame] = true;
}

/* Frames of a location are its lines, innermost first, or only the last of them. */
static uint8_t look(struct search *s, uint32_t location)
{
    struct location l = s->dict->locations.data[location];
    uint32_t n;
    size_t first = frames_of(s->frames, location, &n);
    uint32_t skipped = l.n_lines > n ? l.n_lines - n : 0;
    bool of_binary = matcher_mapping(&s->matcher, s->dict, location);
    uint8_t flags = KNOWN | (of_binary ? ANY : 0);

    for (uint32_t i = 0; i < l.n_lines || i < n + skipped; i++) {
        bool matches = of_binary;
        if (i < l.n_lines)
            matches |= matcher_line(&s->matcher, s->dict, &s->dict->lines.data[l.first_line + i]);
        if (!matches)
            continue;
        flags |= ANY;
        if (i < skipped)
            continue;
        flags |= i == skipped ? INNERMOST : 0;
        count_frame(s, s->frames->ids.data[first + i - skipped]);
    }
    return flags;
}

static uint8_t flags_of(struct search *s, uint32_t location)
{
    if (!(s->locations.data[location] & KNOWN))
        s->locations.data[location] = look(s, location);
    return s->locations.data[location];
}

/* Marks the stacks that are in use and, callers first, those with a frame that matches. */
static void mark_stacks(struct search *s)
{
    const uint32_t *parent = s->dict->node_parent.data;
    uint8_t *stacks = s->stacks.data;

    for (size_t i = 0; i < s->p->n_samples; i++)
        for (uint32_t n = s->p->node[i]; n != 0 && !stacks[n]; n = parent[n])
            stacks[n] = 1;
    for (uint32_t n = 1; n < s->stacks.len && !budget_failed(s->dict->budget); n++) {
        if (stacks[n] &&
            (flags_of(s, s->dict->node_location.data[n]) & ANY || stacks[parent[n]] == 3))
            stacks[n] = 3;
    }
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

bool profile_search(const struct profile *p, uint32_t type, struct frames *f,
                    const struct regex *re, struct name_search *ret)
{
    struct dict *d = p->dict;
    struct search s = {.p = p, .dict = d, .frames = f};

    *ret = (struct name_search){0};
    matcher_init(&s.matcher, re, d->budget);
    bool ok = vec_resize(d->budget, &s.locations, d->locations.len) &&
              vec_resize(d->budget, &s.stacks, dict_n_nodes(d));
    if (ok)
        mark_stacks(&s);
    for (size_t i = 0; ok && i < p->n_samples; i++) {
        uint32_t node = p->node[i];
        if (s.stacks.data[node] != 3)
            continue;
        ret->cum = plus(ret->cum, p->values[type][i]);
        if (s.locations.data[d->node_location.data[node]] & INNERMOST)
            ret->flat = plus(ret->flat, p->values[type][i]);
    }
    ret->functions = s.functions;
    matcher_done(&s.matcher);
    vec_done(d->budget, &s.locations);
    vec_done(d->budget, &s.found);
    vec_done(d->budget, &s.stacks);
    return ok && !budget_failed(d->budget);
}
