#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config_internal.h"
#include "config/yaml_events.h"

/* A file of settings: keys of the table, and what stands below them. */
#define DEPTH_MAX 4

struct reader {
    struct config *c;
    struct yaml_events y;
    struct error *err;
};

static int at_line(struct reader *r, int code)
{
    return error_prefix(r->err, code, "line %u", r->y.line);
}

static bool is_section(const struct config_table *t, struct bytes name)
{
    for (size_t i = 0; i < t->n_keys; i++) {
        struct bytes key = bytes_of(t->keys[i].name);
        if (key.len > name.len && key.data[name.len] == '.' && bytes_start_with(key, name))
            return true;
    }
    return false;
}

/* The known key or section that `name` was most likely meant to be. */
static const char *closest(const struct config_table *t, struct bytes name)
{
    const char *best = NULL;
    size_t best_distance = name.len / 2 < 4 ? name.len / 2 + 1 : 4;

    for (size_t i = 0; i < t->n_keys; i++) {
        const char *key = t->keys[i].name, *dot = strchr(key, '.');
        if (dot && bytes_are(name, dot + 1))
            return key;
        size_t d = bytes_distance(name, bytes_of(key));
        if (d < best_distance) {
            best_distance = d;
            best = key;
        }
    }
    return best;
}

static const char *closest_section(const struct config_table *t, struct bytes name,
                                   char text[CONFIG_NAME_MAX])
{
    size_t best_distance = 3;

    text[0] = '\0';
    for (size_t i = 0; i < t->n_keys; i++) {
        struct bytes section = bytes_of(t->keys[i].name);
        const uint8_t *dot = bytes_find_byte(section, '.');
        if (!dot)
            continue;
        section.len = (size_t)(dot - section.data);
        size_t d = bytes_distance(name, section);
        if (d < best_distance) {
            best_distance = d;
            snprintf(text, CONFIG_NAME_MAX, "%.*s", (int)section.len, (const char *)section.data);
        }
    }
    return text[0] ? text : NULL;
}

static int unknown(struct reader *r, struct bytes name, unsigned line)
{
    char section[CONFIG_NAME_MAX];
    const char *near = closest(r->c->table, name);

    if (!near)
        near = closest_section(r->c->table, name, section);
    return error_set(r->err, -EINVAL, "line %u: there is no key \"%.*s\"%s%s%s", line,
                     (int)(name.len < 60 ? name.len : 60), (const char *)name.data,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static int read_list(struct reader *r, const struct config_key *key)
{
    int n;

    for (n = yaml_events_next(&r->y); n == 0 && r->y.event.type != YAML_SEQUENCE_END_EVENT;
         n = yaml_events_next(&r->y)) {
        if (r->y.event.type != YAML_SCALAR_EVENT || yaml_events_is_nothing(&r->y))
            return error_set(r->err, -EINVAL, "line %u: %s is a list of texts, nothing else",
                             r->y.line, key->name);
        int set = config_set(r->c, key, yaml_events_scalar(&r->y), r->err);
        if (set < 0)
            return at_line(r, set);
    }
    return n;
}

/* The value of a known key, whose event is the current one. */
static int read_value(struct reader *r, const struct config_key *key)
{
    struct config_origin *origin = &r->c->origins[key - r->c->table->keys];
    int n = 0;

    if (origin->source == CONFIG_BY_FILE)
        return error_set(r->err, -EINVAL, "line %u: %s was already set in line %u", r->y.line,
                         key->name, origin->line);
    *origin = (struct config_origin){.source = CONFIG_BY_FILE, .line = r->y.line};
    config_clear_list(r->c, key);
    if (key->type == CONFIG_NODE)
        return config_node_take(&r->y, &r->c->arena,
                                (const struct config_node **)config_field(r->c, key));
    if (r->y.event.type == YAML_SEQUENCE_START_EVENT && key->type == CONFIG_LIST)
        n = read_list(r, key);
    else if (r->y.event.type != YAML_SCALAR_EVENT)
        return error_set(r->err, -EINVAL, "line %u: %s takes one value%s", r->y.line, key->name,
                         key->type == CONFIG_LIST ? " or a list" : "");
    else if (yaml_events_is_nothing(&r->y))
        return error_set(r->err, -EINVAL, "line %u: %s has no value; leave it out for its default",
                         r->y.line, key->name);
    else {
        n = config_set(r->c, key, yaml_events_scalar(&r->y), r->err);
        if (n < 0)
            return at_line(r, n);
    }
    config_end_list(r->c, key);
    return n;
}

static int read_mapping(struct reader *r, struct bytes section, int depth);

/* One key and what is behind it, in the section; the key's event is the current one. */
static int read_entry(struct reader *r, struct bytes section, int depth)
{
    char name[2 * CONFIG_NAME_MAX];
    struct bytes word = yaml_events_scalar(&r->y);
    unsigned line = r->y.line;
    int len = snprintf(name, sizeof(name), "%.*s%s%.*s", (int)section.len,
                       (const char *)section.data, section.len ? "." : "",
                       (int)(word.len < CONFIG_NAME_MAX ? word.len : CONFIG_NAME_MAX),
                       (const char *)word.data);
    struct bytes whole = {(const uint8_t *)name, (size_t)len};
    if (whole.len >= sizeof(name) || word.len > CONFIG_NAME_MAX)
        return unknown(r, bytes_head(word, CONFIG_NAME_MAX), line);

    const struct config_key *key = config_find(r->c->table, whole);
    bool has_below = is_section(r->c->table, whole);
    if (!key && !has_below)
        return unknown(r, whole, line);
    int n = yaml_events_next(&r->y);
    if (n < 0)
        return n;
    if (key)
        return read_value(r, key);
    if (r->y.event.type == YAML_MAPPING_START_EVENT)
        return read_mapping(r, whole, depth + 1);
    if (r->y.event.type == YAML_SCALAR_EVENT && yaml_events_is_nothing(&r->y))
        return 0;
    return error_set(r->err, -EINVAL, "line %u: %s is a section: its keys go below it, indented",
                     r->y.line, name);
}

/* Up to and with the end of the mapping whose start is the current event. */
static int read_mapping(struct reader *r, struct bytes section,
                        int depth) // NOLINT(misc-no-recursion)
{
    int n;

    if (depth > DEPTH_MAX)
        return error_set(r->err, -EINVAL, "line %u: more than %d levels", r->y.line, DEPTH_MAX);
    for (n = yaml_events_next(&r->y); n == 0 && r->y.event.type != YAML_MAPPING_END_EVENT;
         n = yaml_events_next(&r->y)) {
        if (r->y.event.type != YAML_SCALAR_EVENT)
            return error_set(r->err, -EINVAL, "line %u: a key is expected here", r->y.line);
        int entry = read_entry(r, section, depth);
        if (entry < 0)
            return entry;
    }
    return n;
}

int config_read_yaml(struct config *c, struct bytes text, struct error *err)
{
    struct reader r = {.c = c, .err = err};
    bool is_empty = false;
    int n = yaml_events_init(&r.y, text, err);

    if (n == 0)
        n = yaml_events_enter(&r.y, &is_empty);
    if (n == 0 && !is_empty) {
        if (r.y.event.type == YAML_MAPPING_START_EVENT)
            n = read_mapping(&r, (struct bytes){0}, 1);
        else if (r.y.event.type != YAML_SCALAR_EVENT || !yaml_events_is_nothing(&r.y))
            n = error_set(err, -EINVAL, "line %u: \"key: value\" is expected here", r.y.line);
        if (n == 0)
            n = yaml_events_leave(&r.y);
    }
    yaml_events_done(&r.y);
    return n;
}
