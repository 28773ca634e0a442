#include "cli/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regex.h"
#include "profile/graph.h"
#include "profile/measure.h"

void compare_done(struct compare *c)
{
    if (!c->budget)
        return;
    vec_done(c->budget, &c->rows);
    frames_done(&c->frames);
}

static int64_t scaled(int64_t v, double scale)
{
    return scale == 1 ? v : (int64_t)llround((double)v * scale);
}

static int64_t change(const int64_t v[2])
{
    return (int64_t)((uint64_t)v[1] - (uint64_t)v[0]);
}

/* Adds one side's graph to the rows: a graph's node is a frame, and so is a row. */
static int add_side(struct compare *c, const struct profile *p, uint32_t type, int side,
                    const struct compare_options *o, struct error *err)
{
    struct graph g = {0};
    struct graph_options options = {
        .type = type, .mean = o->report->mean, .edges = GRAPH_EDGES_NONE, .unit = c->unit};
    int r = graph_build(p, &c->frames, &options, &g, err);

    if (r == 0 &&
        !vec_resize(c->budget, &c->rows, g.nodes.len > c->rows.len ? g.nodes.len : c->rows.len))
        r = budget_error(c->budget, err);
    for (size_t i = 1; r == 0 && i < g.nodes.len; i++) {
        struct compared *row = &c->rows.data[i];
        double scale = side == 0 ? c->scale : 1;
        row->frame = (uint32_t)i;
        row->flat[side] = scaled(graph_flat(&g.nodes.data[i]), scale);
        row->cum[side] = scaled(graph_cum(&g.nodes.data[i]), scale);
    }
    graph_done(&g);
    return r;
}

static bool sort_by_cum; /* qsort has no argument; set just before */

static int compare_rows(const void *a, const void *b)
{
    const struct compared *x = a, *y = b;
    int64_t cx = graph_abs(change(sort_by_cum ? x->cum : x->flat));
    int64_t cy = graph_abs(change(sort_by_cum ? y->cum : y->flat));
    if (cx != cy)
        return cx < cy ? 1 : -1;
    cx = graph_abs(change(x->cum)), cy = graph_abs(change(y->cum));
    if (cx != cy)
        return cx < cy ? 1 : -1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static void drop_empty_rows(struct compare *c)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->rows.len; i++) {
        const struct compared *row = &c->rows.data[i];
        if (row->frame && (row->flat[0] || row->flat[1] || row->cum[0] || row->cum[1]))
            c->rows.data[kept++] = *row;
    }
    c->rows.len = kept;
}

static int choose_type(struct compare *c, struct value_type before, struct value_type after,
                       struct error *err)
{
    const struct dict *d = c->frames.dict;

    c->type = dict_cstr(d, after.type);
    c->unit = dict_cstr(d, after.unit);
    if (before.type != after.type || before.unit != after.unit)
        return error_set(err, -EINVAL, "the profiles count different things: %s/%s and %s/%s",
                         dict_cstr(d, before.type), dict_cstr(d, before.unit), c->type, c->unit);
    return 0;
}

int compare_build(struct compare *c, const struct profile *before, const struct profile *after,
                  const struct compare_options *o, struct error *err)
{
    CLEANUP(profile_freep) struct profile *old = NULL;
    CLEANUP(profile_freep) struct profile *new = NULL;
    uint32_t old_type = 0, new_type = 0;

    *c = (struct compare){.budget = before->dict->budget, .scale = 1};
    frames_init(&c->frames, before->dict,
                (struct frame_options){.granularity = o->report->granularity,
                                       .no_inlines = o->report->noinlines,
                                       .trim_path = o->report->trim_path,
                                       .source_path = o->report->source_path,
                                       .name_unknown = true});
    int r = report_prepare(before, o->report, &old, &old_type, err);
    if (r == 0)
        r = report_prepare(after, o->report, &new, &new_type, err);
    if (r == 0)
        r = choose_type(c, old->types[old_type], new->types[new_type], err);
    if (r < 0)
        return r;
    c->total[0] = profile_total(old, old_type);
    c->total[1] = profile_total(new, new_type);
    if (o->normalize && c->total[0] != 0)
        c->scale = (double)c->total[1] / (double)c->total[0];
    c->total[0] = scaled(c->total[0], c->scale);
    r = add_side(c, old, old_type, 0, o, err);
    if (r == 0)
        r = add_side(c, new, new_type, 1, o, err);
    if (r < 0)
        return r;
    drop_empty_rows(c);
    sort_by_cum = o->report->cum;
    if (c->rows.len)
        qsort(c->rows.data, c->rows.len, sizeof(*c->rows.data), compare_rows);
    return 0;
}

/* A rule taken apart. */
struct rule {
    char text[256];
    enum { RULE_TOTAL, RULE_FLAT, RULE_CUM } what;
    struct regex *regex;
    bool is_less;
    bool is_percent;
    double limit; /* percent, or in the unit of the values */
};

static int bad_rule(const struct rule *rule, const char *why, struct error *err)
{
    return error_set(err, -EINVAL,
                     "--fail-if \"%s\": %s; rules look like 'total>+5%%', 'flat(parse)>+10ms'",
                     rule->text, why);
}

/* "+5%", "10ms", "-3": the change a rule compares with. */
static int parse_limit(struct rule *rule, const char *text, const char *unit, struct error *err)
{
    char *end;
    double ratio = 1;

    rule->limit = strtod(text, &end);
    if (end == text || !isfinite(rule->limit))
        return bad_rule(rule, "there is no number behind the comparison", err);
    if (strcmp(end, "%") == 0)
        rule->is_percent = true;
    else if (*end && !measure_ratio(end, unit, &ratio))
        return bad_rule(rule, "the unit does not fit the sample type", err);
    rule->limit *= ratio;
    return 0;
}

static int parse_rule(struct rule *rule, const char *unit, struct error *err)
{
    const char *t = rule->text;
    size_t name = strcspn(t, "(<>");
    struct bytes what = bytes_trim((struct bytes){(const uint8_t *)t, name});

    if (bytes_are(what, "total"))
        rule->what = RULE_TOTAL;
    else if (bytes_are(what, "flat") || bytes_are(what, "self"))
        rule->what = RULE_FLAT;
    else if (bytes_are(what, "cum"))
        rule->what = RULE_CUM;
    else
        return bad_rule(rule, "it must begin with total, flat(...) or cum(...)", err);
    t += name;
    if ((*t == '(') != (rule->what != RULE_TOTAL))
        return bad_rule(rule, "flat and cum take a regular expression in parentheses", err);
    if (*t == '(') {
        const char *close = strrchr(t, ')');
        if (!close)
            return bad_rule(rule, "a parenthesis is not closed", err);
        struct bytes pattern = {(const uint8_t *)t + 1, (size_t)(close - t) - 1};
        int r = regex_new(pattern, &rule->regex, err);
        if (r < 0)
            return error_prefix(err, r, "--fail-if");
        t = close + 1;
    }
    t += strspn(t, " ");
    if (*t != '>' && *t != '<')
        return bad_rule(rule, "it needs > or <", err);
    rule->is_less = *t == '<';
    t += 1 + strspn(t + 1, " ");
    return parse_limit(rule, t, unit, err);
}

static bool breaches(const struct rule *rule, const int64_t v[2])
{
    double by = (double)change(v);

    if (rule->is_percent) {
        if (v[0] == 0)
            return rule->is_less ? by < 0 : by > 0; /* from nothing: any growth is endless */
        by = 100 * by / fabs((double)v[0]);
    }
    return rule->is_less ? by < rule->limit : by > rule->limit;
}

static void add_breach(const struct compare *c, const struct rule *rule, const char *name,
                       const int64_t v[2], struct buf *out)
{
    char before[MEASURE_TEXT_MAX], after[MEASURE_TEXT_MAX];

    measure_label(v[0], c->unit, "auto", before);
    measure_label(v[1], c->unit, "auto", after);
    buf_addf(out, "breached: %s: %s went from %s to %s\n", rule->text, name, before, after);
}

static size_t check_rule(struct compare *c, const struct rule *rule, struct buf *out)
{
    size_t n = 0;

    if (rule->what == RULE_TOTAL) {
        if (breaches(rule, c->total)) {
            add_breach(c, rule, "the total", c->total, out);
            n++;
        }
        return n;
    }
    for (size_t i = 0; i < c->rows.len; i++) {
        const struct compared *row = &c->rows.data[i];
        const int64_t *v = rule->what == RULE_FLAT ? row->flat : row->cum;
        const char *name = frames_name(&c->frames, row->frame);
        if (breaches(rule, v) && regex_matches(rule->regex, bytes_of(name))) {
            add_breach(c, rule, name, v, out);
            n++;
        }
    }
    return n;
}

/* The next rule: commas inside parentheses belong to the regex. */
static size_t rule_length(const char *rules)
{
    int depth = 0;
    size_t n = 0;

    for (; rules[n] && (depth > 0 || rules[n] != ','); n++)
        depth += (rules[n] == '(') - (rules[n] == ')');
    return n;
}

int compare_check(struct compare *c, const char *rules, struct buf *out, size_t *ret,
                  struct error *err)
{
    *ret = 0;
    for (; *rules; rules += *rules == ',') {
        struct rule rule = {0};
        size_t n = rule_length(rules);
        struct bytes text = bytes_trim((struct bytes){(const uint8_t *)rules, n});
        rules += n;
        if (text.len == 0)
            continue;
        if (text.len >= sizeof(rule.text))
            return error_set(err, -EINVAL, "a rule of --fail-if is longer than %zu characters",
                             sizeof(rule.text) - 1);
        memcpy(rule.text, text.data, text.len);
        int r = parse_rule(&rule, c->unit, err);
        if (r == 0)
            *ret += check_rule(c, &rule, out);
        regex_free(rule.regex);
        if (r < 0)
            return r;
    }
    return 0;
}
