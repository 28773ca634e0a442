#include "scrape/node_values.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

static int not_a(const struct config_node *n, const char *expected, struct error *err)
{
    if (n->kind != CONFIG_NODE_SCALAR)
        return error_set(err, -EINVAL, "line %u: %s is a %s, where %s is expected", n->line,
                         n->key ? n->key : "an item", n->kind == CONFIG_NODE_MAP ? "map" : "list",
                         expected);
    return error_set(err, -EINVAL, "line %u: %s is \"%.60s\", where %s is expected", n->line,
                     n->key ? n->key : "an item", n->value, expected);
}

/* The scalar of a key: 1, or 0 when there is none. */
static int scalar(const struct config_node *map, const char *key, const char *expected,
                  const struct config_node **ret, struct error *err)
{
    const struct config_node *n = config_node_get(map, key);

    if (!n)
        return 0;
    if (n->kind != CONFIG_NODE_SCALAR)
        return not_a(n, expected, err);
    *ret = n;
    return 1;
}

int node_string(const struct config_node *map, const char *key, const char **io, struct error *err)
{
    const struct config_node *n = NULL;
    int r = scalar(map, key, "text", &n, err);

    if (r > 0)
        *io = n->value;
    return r < 0 ? r : 0;
}

int node_bool(const struct config_node *map, const char *key, bool *io, struct error *err)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    static const char expected[] = "true or false";
    const struct config_node *n = NULL;
    int r = scalar(map, key, expected, &n, err);

    if (r <= 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (strcmp(n->value, yes[i]) == 0 || strcmp(n->value, no[i]) == 0) {
            *io = strcmp(n->value, yes[i]) == 0;
            return 0;
        }
    }
    return not_a(n, expected, err);
}

int node_number(const struct config_node *map, const char *key, uint64_t max, uint64_t *io,
                struct error *err)
{
    const struct config_node *n = NULL;
    uint64_t v;
    int r = scalar(map, key, "a whole number", &n, err);

    if (r <= 0)
        return r;
    if (!bytes_to_u64(bytes_of(n->value), &v))
        return not_a(n, "a whole number", err);
    if (v > max)
        return error_set(err, -EINVAL, "line %u: %s is %s, more than the most, %llu", n->line, key,
                         n->value, (unsigned long long)max);
    *io = v;
    return 0;
}

int node_duration(const struct config_node *map, const char *key, int64_t min_ns, int64_t *io,
                  struct error *err)
{
    static const char expected[] = "a duration such as 500ms, 30s or 1h30m";
    const struct config_node *n = NULL;
    char least[DURATION_TEXT_MAX];
    int64_t ns;
    int r = scalar(map, key, expected, &n, err);

    if (r <= 0)
        return r;
    if (!bytes_to_duration(bytes_of(n->value), &ns))
        return not_a(n, expected, err);
    if (ns < min_ns)
        return error_set(err, -EINVAL, "line %u: %s is %s, less than the least, %s", n->line, key,
                         n->value, duration_text(min_ns, least));
    *io = ns;
    return 0;
}

int node_size(const struct config_node *map, const char *key, uint64_t *io, struct error *err)
{
    static const char expected[] = "a size such as 512KiB or 64MiB";
    const struct config_node *n = NULL;
    int r = scalar(map, key, expected, &n, err);

    if (r <= 0)
        return r;
    return bytes_to_size(bytes_of(n->value), io) ? 0 : not_a(n, expected, err);
}

static int child_of_kind(const struct config_node *map, const char *key, enum config_node_kind kind,
                         const struct config_node **io, struct error *err)
{
    const struct config_node *n = config_node_get(map, key);

    /* "key:" and nothing behind it. */
    if (!n || (n->kind == CONFIG_NODE_SCALAR && n->value[0] == '\0'))
        return 0;
    if (n->kind != kind)
        return not_a(n, kind == CONFIG_NODE_MAP ? "a map" : "a list", err);
    *io = n;
    return 0;
}

int node_list(const struct config_node *map, const char *key, const struct config_node **io,
              struct error *err)
{
    return child_of_kind(map, key, CONFIG_NODE_LIST, io, err);
}

int node_map(const struct config_node *map, const char *key, const struct config_node **io,
             struct error *err)
{
    return child_of_kind(map, key, CONFIG_NODE_MAP, io, err);
}

static bool is_word_of(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = words; *at;) {
        size_t n = strcspn(at, " ");
        if (n == len && strncmp(at, word, n) == 0)
            return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}

/* The known word that `word` was most likely meant to be; empty when none is near. */
static struct bytes closest(const char *words, const char *word)
{
    struct bytes best = {0};
    size_t best_distance = 4;

    for (const char *at = words; *at;) {
        struct bytes known = {(const uint8_t *)at, strcspn(at, " ")};
        size_t d = bytes_distance(known, bytes_of(word));
        if (d < best_distance) {
            best_distance = d;
            best = known;
        }
        at += known.len + strspn(at + known.len, " ");
    }
    return best;
}

int node_check(const struct config_node *node, const char *what, const char *known,
               struct error *err)
{
    if (node->kind != CONFIG_NODE_MAP)
        return error_set(err, -EINVAL, "line %u: %s is expected to be a map", node->line, what);
    for (const struct config_node *n = node->first; n; n = n->next) {
        if (is_word_of(known, n->key))
            continue;
        struct bytes near = closest(known, n->key);
        return error_set(err, -EINVAL, "line %u: %s has no key \"%.60s\"%s%.*s%s", n->line, what,
                         n->key, near.len ? "; did you mean \"" : "", (int)near.len,
                         near.len ? (const char *)near.data : "", near.len ? "\"?" : "");
    }
    return 0;
}

int node_check_texts(const struct config_node *list, struct error *err)
{
    for (const struct config_node *n = list ? list->first : NULL; n; n = n->next) {
        if (n->kind != CONFIG_NODE_SCALAR || n->value[0] == '\0')
            return error_set(err, -EINVAL, "line %u: an item is expected to be a text", n->line);
    }
    return 0;
}
