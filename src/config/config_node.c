#include "config/config_node.h"

#include <errno.h>
#include <string.h>

#include "config/config_internal.h"
#include "config/yaml_events.h"

const struct config_node *config_node_get(const struct config_node *map, const char *key)
{
    const struct config_node *child = map && map->kind == CONFIG_NODE_MAP ? map->first : NULL;

    while (child && strcmp(child->key, key) != 0)
        child = child->next;
    return child;
}

static bool texts_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool config_nodes_equal(const struct config_node *a,
                        const struct config_node *b) // NOLINT(misc-no-recursion)
{
    if (!a || !b)
        return a == b;
    if (a->kind != b->kind || !texts_equal(a->key, b->key) || !texts_equal(a->value, b->value))
        return false;
    const struct config_node *x = a->first, *y = b->first;
    while (x && y && config_nodes_equal(x, y)) {
        x = x->next;
        y = y->next;
    }
    return !x && !y;
}

/* ---- Reading */

struct node_reader {
    struct yaml_events *y;
    struct arena *arena;
    size_t n_nodes;
};

static int no_room(const struct node_reader *r)
{
    return budget_error(r->arena->budget, r->y->err);
}

/* The text of the current scalar. Control characters are in no name, address or expression. */
static int read_text(struct node_reader *r, const char **ret)
{
    struct bytes s = yaml_events_scalar(r->y);

    if (s.len > CONFIG_STRING_MAX)
        return error_set(r->y->err, -EINVAL,
                         "line %u: a text of %zu bytes is more than the limit of %d", r->y->line,
                         s.len, CONFIG_STRING_MAX);
    for (size_t i = 0; i < s.len; i++) {
        if ((s.data[i] < ' ' && s.data[i] != '\n' && s.data[i] != '\t') || s.data[i] == 0x7f)
            return error_set(r->y->err, -EINVAL, "line %u: a text has a control character in it",
                             r->y->line);
    }
    *ret = arena_strdup(r->arena, s);
    return *ret ? 0 : no_room(r);
}

/* The key of a map, which no other of its children has, and on to its value. */
static int read_key(struct node_reader *r, const struct config_node *map, size_t n,
                    const char **ret)
{
    if (r->y->event.type != YAML_SCALAR_EVENT)
        return error_set(r->y->err, -EINVAL, "line %u: a key is expected here", r->y->line);
    if (n == CONFIG_NODE_KEYS_MAX)
        return error_set(r->y->err, -EINVAL, "line %u: a map has more than %d keys", r->y->line,
                         CONFIG_NODE_KEYS_MAX);
    if (yaml_events_scalar(r->y).len > CONFIG_NODE_KEY_MAX)
        return error_set(r->y->err, -EINVAL, "line %u: a key is longer than %d bytes", r->y->line,
                         CONFIG_NODE_KEY_MAX);
    int e = read_text(r, ret);
    if (e < 0)
        return e;
    const struct config_node *twin = config_node_get(map, *ret);
    if (twin)
        return error_set(r->y->err, -EINVAL, "line %u: %.60s was already set in line %u",
                         r->y->line, *ret, twin->line);
    return yaml_events_next(r->y);
}

static int read_node(struct node_reader *r, unsigned depth, struct config_node **ret);

/* Up to and with the end of the list or map whose start is the current event. */
static int read_children(struct node_reader *r, struct config_node *of,
                         unsigned depth) // NOLINT(misc-no-recursion)
{
    yaml_event_type_t end =
        of->kind == CONFIG_NODE_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    const struct config_node **link = &of->first;
    int e;

    if (depth > CONFIG_NODE_DEPTH_MAX)
        return error_set(r->y->err, -EINVAL, "line %u: more than %d levels", r->y->line,
                         CONFIG_NODE_DEPTH_MAX);
    e = yaml_events_next(r->y);
    for (size_t n = 0; e == 0 && r->y->event.type != end; n++) {
        struct config_node *child = NULL;
        const char *key = NULL;
        if (of->kind == CONFIG_NODE_MAP)
            e = read_key(r, of, n, &key);
        if (e == 0)
            e = read_node(r, depth, &child);
        if (e < 0)
            return e;
        child->key = key;
        *link = child;
        link = &child->next;
        e = yaml_events_next(r->y);
    }
    return e;
}

/* What begins with the current event. */
static int read_node(struct node_reader *r, unsigned depth,
                     struct config_node **ret) // NOLINT(misc-no-recursion)
{
    if (r->n_nodes++ == CONFIG_NODES_MAX)
        return error_set(r->y->err, -EINVAL, "line %u: more than %d values", r->y->line,
                         CONFIG_NODES_MAX);
    struct config_node *node = arena_new(r->arena, struct config_node, 1);
    if (!node)
        return no_room(r);
    node->line = r->y->line;
    *ret = node;
    if (r->y->event.type == YAML_SCALAR_EVENT) {
        if (!yaml_events_is_nothing(r->y))
            return read_text(r, &node->value);
        node->value = "";
        return 0;
    }
    node->kind = r->y->event.type == YAML_MAPPING_START_EVENT ? CONFIG_NODE_MAP : CONFIG_NODE_LIST;
    return read_children(r, node, depth + 1);
}

/* Nothing, and a list or map of nothing, are the same. */
static bool is_empty(const struct config_node *node)
{
    return node->kind == CONFIG_NODE_SCALAR ? node->value[0] == '\0' : !node->first;
}

int config_node_take(struct yaml_events *y, struct arena *arena, const struct config_node **ret)
{
    struct node_reader r = {.y = y, .arena = arena};
    struct config_node *node = NULL;
    int e = read_node(&r, 0, &node);

    if (e == 0)
        *ret = is_empty(node) ? NULL : node;
    return e;
}

int config_node_read(struct bytes text, struct arena *arena, const struct config_node **ret,
                     struct error *err)
{
    CLEANUP(yaml_events_done) struct yaml_events y = {0};
    const struct config_node *node = NULL;
    bool has_nothing = false;
    int r = yaml_events_init(&y, text, err);

    if (r == 0)
        r = yaml_events_enter(&y, &has_nothing);
    if (r == 0 && !has_nothing) {
        r = config_node_take(&y, arena, &node);
        if (r == 0)
            r = yaml_events_leave(&y);
    }
    if (r == 0)
        *ret = node;
    return r;
}

/* ---- Printing */

static bool is_secret(const char *key)
{
    static const char *const secrets[] = {"password", "bearer_token", "credentials",
                                          "token",    "secret",       "client_secret"};

    for (size_t i = 0; key && i < ARRAY_SIZE(secrets); i++) {
        if (strcmp(key, secrets[i]) == 0)
            return true;
    }
    return false;
}

struct printer {
    struct buf *out;
    bool hides; /* below a key that is secret */
};

static void print_children(struct printer *p, const struct config_node *of, unsigned indent,
                           bool is_begun);

/* Behind "key:" or "-". A map in a list begins in the same line. */
static void print_value(struct printer *p, const struct config_node *node, unsigned indent,
                        bool in_list) // NOLINT(misc-no-recursion)
{
    bool hid = p->hides;

    p->hides |= is_secret(node->key);
    if (node->kind == CONFIG_NODE_SCALAR) {
        buf_add_byte(p->out, ' ');
        config_add_quoted(p->out, p->hides && node->value[0] ? "***" : node->value);
        buf_add_byte(p->out, '\n');
    } else if (!node->first) {
        buf_add_str(p->out, node->kind == CONFIG_NODE_MAP ? " {}\n" : " []\n");
    } else {
        buf_add_byte(p->out, in_list ? ' ' : '\n');
        print_children(p, node, indent + 2, in_list);
    }
    p->hides = hid;
}

static void print_children(struct printer *p, const struct config_node *of, unsigned indent,
                           bool is_begun) // NOLINT(misc-no-recursion)
{
    bool in_list = of->kind == CONFIG_NODE_LIST;

    for (const struct config_node *child = of->first; child; child = child->next) {
        buf_addf(p->out, "%*s", is_begun ? 0 : (int)indent, "");
        is_begun = false;
        if (in_list) {
            buf_add_byte(p->out, '-');
        } else {
            config_add_quoted(p->out, child->key);
            buf_add_byte(p->out, ':');
        }
        print_value(p, child, indent, in_list);
    }
}

void config_node_print(const struct config_node *node, unsigned indent, struct buf *out)
{
    print_children(&(struct printer){.out = out}, node, indent, false);
}
