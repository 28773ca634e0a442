#include "scrape/relabel.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/must.h"
#include "base/regex.h"
#include "base/sha256.h"
#include "scrape/node_values.h"

#define GROUPS_MAX 32

enum action {
    ACTION_REPLACE,
    ACTION_KEEP,
    ACTION_DROP,
    ACTION_KEEPEQUAL,
    ACTION_DROPEQUAL,
    ACTION_HASHMOD,
    ACTION_LABELMAP,
    ACTION_LABELDROP,
    ACTION_LABELKEEP,
    ACTION_LOWERCASE,
    ACTION_UPPERCASE,
    ACTION_COUNT,
};

static const char *const action_names[ACTION_COUNT] = {
    [ACTION_REPLACE] = "replace",     [ACTION_KEEP] = "keep",
    [ACTION_DROP] = "drop",           [ACTION_KEEPEQUAL] = "keepequal",
    [ACTION_DROPEQUAL] = "dropequal", [ACTION_HASHMOD] = "hashmod",
    [ACTION_LABELMAP] = "labelmap",   [ACTION_LABELDROP] = "labeldrop",
    [ACTION_LABELKEEP] = "labelkeep", [ACTION_LOWERCASE] = "lowercase",
    [ACTION_UPPERCASE] = "uppercase",
};

struct relabel_rule {
    enum action action;
    char **sources;
    size_t n_sources;
    char *separator, *target, *replacement;
    struct regex *regex;
    uint64_t modulus;
};

/* ---- Parsing */

static int parse_action(const struct config_node *map, enum action *ret, struct error *err)
{
    const char *name = "replace";
    int r = node_string(map, "action", &name, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcasecmp(name, action_names[i]) == 0) {
            *ret = (enum action)i;
            return 0;
        }
    }
    return error_set(err, -EINVAL,
                     "line %u: action is \"%.60s\", not one of replace, keep, drop, keepequal, "
                     "dropequal, hashmod, labelmap, labeldrop, labelkeep, lowercase, uppercase",
                     config_node_get(map, "action")->line, name);
}

/* The whole text must match. */
static int parse_regex(const struct config_node *map, struct relabel_rule *rule, struct error *err)
{
    CLEANUP(buf_done) struct buf whole = {0};
    const char *text = "(.*)";
    int r = node_string(map, "regex", &text, err);

    if (r < 0)
        return r;
    buf_addf(&whole, "\\A(?s:%s)\\z", text);
    /* First alone, so that what is wrong is told of what was written. */
    struct regex *alone = NULL;
    r = regex_new(bytes_of(text), &alone, err);
    regex_free(alone);
    if (r == 0)
        r = regex_new(buf_bytes(&whole), &rule->regex, err);
    return r < 0 ? error_prefix(err, r, "line %u: regex", config_node_get(map, "regex")->line) : 0;
}

static int parse_sources(const struct config_node *map, struct relabel_rule *rule,
                         struct error *err)
{
    const struct config_node *list = NULL;
    int r = node_list(map, "source_labels", &list, err);

    if (r == 0)
        r = node_check_texts(list, err);
    if (r < 0 || !list)
        return r;
    for (const struct config_node *n = list->first; n; n = n->next) {
        rule->sources = must_realloc(rule->sources, (rule->n_sources + 1) * sizeof(char *));
        rule->sources[rule->n_sources++] = must_copy(bytes_of(n->value));
    }
    return 0;
}

/* "$1", "${1}" and "$$" are what a replacement may refer to. */
static bool next_reference(const char **at, size_t *ret_group, bool *ret_is_group)
{
    const char *p = *at + 1;
    bool has_brace = *p == '{';
    char *end;

    if (*p == '$') {
        *ret_is_group = false;
        *at = p + 1;
        return true;
    }
    p += has_brace;
    if (*p < '0' || *p > '9')
        return false;
    *ret_group = strtoul(p, &end, 10);
    *ret_is_group = true;
    if (has_brace && *end != '}')
        return false;
    *at = end + has_brace;
    return *ret_group < GROUPS_MAX;
}

static bool references_are_sound(const char *text)
{
    size_t group;
    bool is_group;

    for (const char *at = text; *at;) {
        if (*at != '$')
            at++;
        else if (!next_reference(&at, &group, &is_group))
            return false;
    }
    return true;
}

static bool needs_target(enum action a)
{
    return a == ACTION_REPLACE || a == ACTION_HASHMOD || a == ACTION_LOWERCASE ||
           a == ACTION_UPPERCASE || a == ACTION_KEEPEQUAL || a == ACTION_DROPEQUAL;
}

static int check_rule(const struct config_node *map, const struct relabel_rule *rule,
                      struct error *err)
{
    const char *action = action_names[rule->action];

    if (needs_target(rule->action) && !rule->target[0])
        return error_set(err, -EINVAL, "line %u: the action %s needs target_label", map->line,
                         action);
    if (rule->action == ACTION_HASHMOD && rule->modulus == 0)
        return error_set(err, -EINVAL, "line %u: the action hashmod needs modulus", map->line);
    if (!references_are_sound(rule->target) || !references_are_sound(rule->replacement))
        return error_set(err, -EINVAL,
                         "line %u: in replacement and target_label, \"$\" is followed by the "
                         "number of a group below %d (\"$1\", \"${1}\"), or by \"$\"",
                         map->line, GROUPS_MAX);
    if (!strchr(rule->target, '$') && rule->target[0] && !tag_name_is_sound(bytes_of(rule->target)))
        return error_set(err, -EINVAL, "line %u: target_label \"%.60s\" is no name of a label",
                         map->line, rule->target);
    return 0;
}

static int parse_rule(const struct config_node *map, struct relabel_rule *rule, struct error *err)
{
    const char *separator = ";", *target = "", *replacement = "$1";
    int r =
        node_check(map, "a relabel rule",
                   "source_labels separator regex modulus target_label replacement action", err);

    if (r == 0)
        r = parse_action(map, &rule->action, err);
    if (r == 0)
        r = node_string(map, "separator", &separator, err);
    if (r == 0)
        r = node_string(map, "target_label", &target, err);
    if (r == 0)
        r = node_string(map, "replacement", &replacement, err);
    if (r == 0)
        r = node_number(map, "modulus", UINT64_MAX, &rule->modulus, err);
    if (r == 0)
        r = parse_sources(map, rule, err);
    if (r == 0)
        r = parse_regex(map, rule, err);
    rule->separator = must_copy(bytes_of(separator));
    rule->target = must_copy(bytes_of(target));
    rule->replacement = must_copy(bytes_of(replacement));
    return r == 0 ? check_rule(map, rule, err) : r;
}

int relabel_parse(const struct config_node *list, struct relabel *ret, struct error *err)
{
    struct relabel parsed = {0};
    int r = 0;

    for (const struct config_node *n = list ? list->first : NULL; n && r == 0; n = n->next) {
        parsed.rules = must_realloc(parsed.rules, (parsed.n + 1) * sizeof(*parsed.rules));
        parsed.rules[parsed.n] = (struct relabel_rule){0};
        r = parse_rule(n, &parsed.rules[parsed.n++], err);
    }
    if (r < 0)
        relabel_done(&parsed);
    else
        *ret = parsed;
    return r;
}

void relabel_done(struct relabel *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct relabel_rule *rule = &r->rules[i];
        for (size_t k = 0; k < rule->n_sources; k++)
            free(rule->sources[k]);
        free(rule->sources);
        free(rule->separator);
        free(rule->target);
        free(rule->replacement);
        regex_free(rule->regex);
    }
    free(r->rules);
    *r = (struct relabel){0};
}

/* ---- Applying */

static void join_sources(const struct relabel_rule *rule, const struct tags *t, struct buf *out)
{
    for (size_t i = 0; i < rule->n_sources; i++) {
        buf_add_str(out, i ? rule->separator : "");
        buf_add_str(out, tags_get(t, rule->sources[i]));
    }
}

static bool matches(const struct relabel_rule *rule, struct bytes text, struct bytes *groups)
{
    return regex_search(rule->regex, text, 0, groups, GROUPS_MAX) > 0;
}

static void expand(const char *text, const struct bytes *groups, struct buf *out)
{
    size_t group;
    bool is_group;

    for (const char *at = text; *at;) {
        if (*at != '$')
            buf_add_byte(out, (uint8_t)*at++);
        else if (!next_reference(&at, &group, &is_group))
            return; /* was checked */
        else if (is_group)
            buf_add_bytes(out, groups[group]);
        else
            buf_add_byte(out, '$');
    }
}

static void replace(const struct relabel_rule *rule, struct bytes text, struct tags *t)
{
    CLEANUP(buf_done) struct buf name = {0}, value = {0};
    struct bytes groups[GROUPS_MAX];

    if (!matches(rule, text, groups))
        return;
    expand(rule->target, groups, &name);
    expand(rule->replacement, groups, &value);
    if (tag_name_is_sound(buf_bytes(&name)))
        tags_set(t, buf_bytes(&name), buf_bytes(&value));
}

/* The same on every agent, so that several share targets; not what Prometheus makes of it. */
static void hash_mod(const struct relabel_rule *rule, struct bytes text, struct tags *t)
{
    CLEANUP(buf_done) struct buf value = {0};
    uint8_t sum[SHA256_BYTES];

    sha256(text, sum);
    buf_add_u64(&value, le64_get(sum) % rule->modulus);
    tags_set(t, bytes_of(rule->target), buf_bytes(&value));
}

static void change_case(const struct relabel_rule *rule, struct buf *text, struct tags *t)
{
    for (size_t i = 0; i < text->len; i++) {
        int c = text->data[i];
        if (c < 0x80)
            text->data[i] = (uint8_t)(rule->action == ACTION_LOWERCASE ? tolower(c) : toupper(c));
    }
    tags_set(t, bytes_of(rule->target), buf_bytes(text));
}

static void map_names(const struct relabel_rule *rule, struct tags *t)
{
    struct tags before = tags_copy(t);
    struct bytes groups[GROUPS_MAX];

    for (size_t i = 0; i < before.n; i++) {
        CLEANUP(buf_done) struct buf name = {0};
        if (!matches(rule, bytes_of(before.items[i].name), groups))
            continue;
        expand(rule->replacement, groups, &name);
        if (tag_name_is_sound(buf_bytes(&name)))
            tags_set(t, buf_bytes(&name), bytes_of(before.items[i].value));
    }
    tags_done(&before);
}

static void filter_names(const struct relabel_rule *rule, struct tags *t)
{
    struct bytes groups[GROUPS_MAX];

    for (size_t i = t->n; i-- > 0;) {
        bool is_match = matches(rule, bytes_of(t->items[i].name), groups);
        if (is_match == (rule->action == ACTION_LABELDROP))
            tags_set(t, bytes_of(t->items[i].name), (struct bytes){0});
    }
}

static bool apply(const struct relabel_rule *rule, struct tags *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct bytes groups[GROUPS_MAX], joined;

    join_sources(rule, t, &text);
    joined = buf_bytes(&text);
    switch (rule->action) {
    case ACTION_KEEP:
        return matches(rule, joined, groups);
    case ACTION_DROP:
        return regex_misses(rule->regex, joined);
    case ACTION_KEEPEQUAL:
        return bytes_are(joined, tags_get(t, rule->target));
    case ACTION_DROPEQUAL:
        return !bytes_are(joined, tags_get(t, rule->target));
    case ACTION_REPLACE:
        replace(rule, joined, t);
        return true;
    case ACTION_HASHMOD:
        hash_mod(rule, joined, t);
        return true;
    case ACTION_LABELMAP:
        map_names(rule, t);
        return true;
    case ACTION_LABELDROP:
    case ACTION_LABELKEEP:
        filter_names(rule, t);
        return true;
    default:
        change_case(rule, &text, t);
        return true;
    }
}

bool relabel_apply(const struct relabel *r, struct tags *t)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!apply(&r->rules[i], t))
            return false;
    }
    return true;
}
