#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "host/identity_internal.h"
#include "host/inspect_text.h"

#define GROUPS 10

/* A pattern, or an attribute to set. */
struct part {
    struct part *next;
    const char *key; /* "exe", "env.NAME"; or the attribute's */
    const char *value;
    struct regex *regex; /* of patterns */
};

struct rule {
    struct rule *next;
    struct part *matches, *sets;
};

bool glob_matches(const char *glob, struct bytes text)
{
    size_t at = 0, star_at = 0;
    const char *star = NULL;

    /* After a mismatch only the last star is tried again: no worse than length times length. */
    while (at < text.len) {
        if (*glob == '*') {
            star = ++glob;
            star_at = at;
        } else if (*glob != '\0' && (*glob == '?' || (uint8_t)*glob == text.data[at])) {
            glob++;
            at++;
        } else if (star) {
            glob = star;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool identity_matches(const char *pattern, const struct inspect_process *p, struct bytes service)
{
    uint64_t n;

    if (starts(pattern, "service:"))
        return glob_matches(pattern + 8, service);
    if (starts(pattern, "cgroup:")) {
        struct bytes rest = p->cgroup, line;
        while (bytes_next_line(&rest, &line)) {
            const uint8_t *path = bytes_find_byte(line, '/');
            if (path && glob_matches(pattern + 7, bytes_from(line, (size_t)(path - line.data))))
                return true;
        }
        return false;
    }
    if (starts(pattern, "uid:"))
        return bytes_to_u64(bytes_of(pattern + 4), &n) && n == p->uid;
    if (starts(pattern, "pid:"))
        return bytes_to_u64(bytes_of(pattern + 4), &n) && n == p->pid;
    struct bytes exe = p->exe.len > 0 ? p->exe : p->comm;
    return glob_matches(pattern, strchr(pattern, '/') ? exe : identity_base_name(exe));
}

int identity_check_pattern(const char *pattern, struct error *err)
{
    static const char *const known[] = {"service", "cgroup", "uid", "pid"};
    const char *colon = strchr(pattern, ':');
    uint64_t n;

    if (pattern[0] == '\0')
        return error_set(err, -EINVAL, "an empty pattern means no process");
    if (starts(pattern, "uid:") || starts(pattern, "pid:")) {
        if (!bytes_to_u64(bytes_of(pattern + 4), &n) || n > UINT32_MAX)
            return error_set(err, -EINVAL, "\"%s\" has no number behind its colon", pattern);
        return 0;
    }
    if (!colon || memchr(pattern, '/', (size_t)(colon - pattern)))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (starts(pattern, known[i]) && pattern + strlen(known[i]) == colon)
            return 0;
    }
    return error_set(err, -EINVAL,
                     "\"%s\" is no pattern: there are service:, cgroup:, uid:, pid:, and globs "
                     "on programs",
                     pattern);
}

/* In the order of enum agent_type. */
static const char *const kinds[] = {"cpu", "wall", "offcpu", "lock", "faults", "threads"};

int identity_type_rule(const char *rule, uint32_t *ret_kinds, const char **ret_pattern,
                       struct error *err)
{
    const char *colon = strchr(rule, ':');
    uint32_t found = 0;

    if (!colon)
        return error_set(err, -EINVAL, "\"%s\" has no colon: it needs TYPES: PATTERN", rule);
    struct bytes rest = {(const uint8_t *)rule, (size_t)(colon - rule)};
    while (rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        size_t n = comma ? (size_t)(comma - rest.data) : rest.len;
        struct bytes name = bytes_trim(bytes_head(rest, n));
        size_t i = 0;
        rest = bytes_from(rest, n + 1);
        while (i < ARRAY_SIZE(kinds) && !bytes_are(name, kinds[i]))
            i++;
        if (i == ARRAY_SIZE(kinds))
            return error_set(err, -EINVAL, "\"%.*s\" in \"%s\" is no type of profile",
                             (int)name.len, (const char *)name.data, rule);
        found |= 1u << i;
    }
    const char *pattern = colon + 1 + strspn(colon + 1, " ");
    int r = identity_check_pattern(pattern, err);
    if (r < 0)
        return r;
    *ret_kinds = found;
    *ret_pattern = pattern;
    return 0;
}

static void parts_free(struct part *p)
{
    while (p) {
        struct part *next = p->next;
        regex_free(p->regex);
        free(p);
        p = next;
    }
}

static void rule_free(struct rule *r)
{
    if (!r)
        return;
    parts_free(r->matches);
    parts_free(r->sets);
    free(r);
}
DEFINE_CLEANUP(struct rule *, rule_free)

void rule_list_done(struct rule_list *l)
{
    while (l->first) {
        struct rule *next = l->first->next;
        rule_free(l->first);
        l->first = next;
    }
}

static bool is_match_key(const char *key)
{
    return strcmp(key, "exe") == 0 || strcmp(key, "cmdline") == 0 || strcmp(key, "cgroup") == 0 ||
           strcmp(key, "comm") == 0 || (starts(key, "env.") && key[4] != '\0');
}

/* Where the next of a list of parts goes. */
static struct part **parts_end(struct part **first)
{
    while (*first)
        first = &(*first)->next;
    return first;
}

static int read_part(const struct config_node *n, bool is_match, struct part **first,
                     struct error *err)
{
    struct regex *regex = NULL;

    if (n->kind != CONFIG_NODE_SCALAR)
        return error_set(err, -EINVAL, "line %u: \"%s\" is not one text", n->line, n->key);
    if (is_match && !is_match_key(n->key))
        return error_set(err, -EINVAL,
                         "line %u: a rule cannot match \"%s\": there are exe, comm, cmdline, "
                         "cgroup and env.NAME",
                         n->line, n->key);
    if (is_match) {
        int r = regex_new(bytes_of(n->value), &regex, err);
        if (r < 0)
            return error_prefix(err, r, "line %u", n->line);
    }
    struct part *p = must_calloc(1, sizeof(*p));
    *p = (struct part){.key = n->key, .value = n->value, .regex = regex};
    *parts_end(first) = p;
    return 0;
}

static int read_parts(const struct config_node *rule, const char *name, struct part **ret,
                      struct error *err)
{
    const struct config_node *map = config_node_get(rule, name);

    if (!map || map->kind != CONFIG_NODE_MAP || !map->first)
        return error_set(err, -EINVAL, "line %u: a rule needs \"%s\" with something in it",
                         rule->line, name);
    for (const struct config_node *n = map->first; n; n = n->next) {
        int r = read_part(n, strcmp(name, "match") == 0, ret, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_rule(const struct config_node *node, struct rule **ret, struct error *err)
{
    CLEANUP(rule_freep) struct rule *rule = must_calloc(1, sizeof(*rule));

    if (node->kind != CONFIG_NODE_MAP)
        return error_set(err, -EINVAL, "line %u: a rule has \"match\" and \"set\"", node->line);
    for (const struct config_node *n = node->first; n; n = n->next) {
        if (strcmp(n->key, "match") != 0 && strcmp(n->key, "set") != 0)
            return error_set(err, -EINVAL,
                             "line %u: a rule has \"match\" and \"set\", but no \"%s\"", n->line,
                             n->key);
    }
    int r = read_parts(node, "match", &rule->matches, err);
    if (r == 0)
        r = read_parts(node, "set", &rule->sets, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(rule);
    return 0;
}

int rule_list_read(const struct config_node *node, struct rule_list *ret, struct error *err)
{
    struct rule_list list = {0};
    struct rule **end = &list.first;

    if (node && node->kind != CONFIG_NODE_LIST)
        return error_set(err, -EINVAL, "line %u: rules are a list", node->line);
    for (const struct config_node *n = node ? node->first : NULL; n; n = n->next) {
        int r = read_rule(n, end, err);
        if (r < 0) {
            rule_list_done(&list);
            return r;
        }
        end = &(*end)->next;
    }
    *ret = list;
    return 0;
}

void rule_list_variables(const struct rule_list *l, rule_variable *each, void *arg)
{
    for (const struct rule *r = l->first; r; r = r->next) {
        for (const struct part *p = r->matches; p; p = p->next) {
            if (starts(p->key, "env."))
                each(arg, p->key + 4);
        }
    }
}

/* A command line as people write it: blanks between arguments. In `room`. */
static struct bytes spaced(struct bytes cmdline, char room[4096])
{
    size_t n = cmdline.len < 4096 ? cmdline.len : 4096;

    for (size_t i = 0; i < n; i++)
        room[i] = (char)(cmdline.data[i] == '\0' ? ' ' : cmdline.data[i]);
    return bytes_trim((struct bytes){(const uint8_t *)room, n});
}

struct matched {
    const struct part *part;
    struct bytes groups[GROUPS];
};

#define MATCHES_MAX 8

/* All its patterns; what they found is in `ret`. */
static size_t match_rule(const struct rule *rule, const struct inspect_process *p,
                         struct bytes cmdline, struct matched ret[MATCHES_MAX])
{
    size_t n = 0;

    for (const struct part *m = rule->matches; m; m = m->next) {
        struct matched found = {.part = m};
        struct bytes text = p->exe;
        if (strcmp(m->key, "cmdline") == 0)
            text = cmdline;
        else if (strcmp(m->key, "cgroup") == 0)
            text = p->cgroup;
        else if (strcmp(m->key, "comm") == 0)
            text = p->comm;
        else if (starts(m->key, "env."))
            text = environ_get(p->environ, m->key + 4);
        /* A variable that is not there matches nothing, not even ".*". */
        if (!text.data || regex_search(m->regex, text, 0, found.groups, GROUPS) != 1)
            return 0;
        if (n < MATCHES_MAX)
            ret[n++] = found;
    }
    return n;
}

/* "$1" is a group of the first pattern, "${cmdline.2}" of another, "$$" a dollar. */
static size_t add_reference(const char *at, const struct matched *matched, size_t n,
                            struct buf *out)
{
    if (at[1] == '$') {
        buf_add_byte(out, '$');
        return 2;
    }
    if (at[1] >= '0' && at[1] <= '9') {
        buf_add_bytes(out, matched[0].groups[at[1] - '0']);
        return 2;
    }
    const char *close = at[1] == '{' ? strchr(at, '}') : NULL;
    if (!close || close - at < 4 || close[-2] != '.' || close[-1] < '0' || close[-1] > '9') {
        buf_add_byte(out, '$');
        return 1;
    }
    struct bytes key = {(const uint8_t *)at + 2, (size_t)(close - at) - 4};
    for (size_t i = 0; i < n; i++) {
        if (bytes_are(key, matched[i].part->key))
            buf_add_bytes(out, matched[i].groups[close[-1] - '0']);
    }
    return (size_t)(close - at) + 1;
}

static void expand(const char *value, const struct matched *matched, size_t n, struct buf *out)
{
    buf_clear(out);
    while (*value) {
        size_t plain = strcspn(value, "$");
        buf_add(out, value, plain);
        value += plain;
        if (*value)
            value += add_reference(value, matched, n, out);
    }
}

void rule_list_apply(const struct rule_list *l, const struct inspect_process *p, rule_set *set,
                     void *arg)
{
    struct matched matched[MATCHES_MAX];
    struct buf value = {0};
    char room[4096];
    struct bytes cmdline = l->first ? spaced(p->cmdline, room) : (struct bytes){0};

    for (const struct rule *r = l->first; r; r = r->next) {
        size_t n = match_rule(r, p, cmdline, matched);
        for (const struct part *s = n > 0 ? r->sets : NULL; s; s = s->next) {
            expand(s->value, matched, n, &value);
            set(arg, s->key, buf_bytes(&value));
        }
    }
    buf_done(&value);
}
