#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "config/config_internal.h"

/*
 * A file of settings, read event by event: nothing is built that its author could make large.
 * Anchors, aliases, tags and further documents are refused: settings need none of them.
 */
#define DEPTH_MAX 4

struct reader {
    struct config *c;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    unsigned line;      /* that it starts in */
    struct error *err;
};

static void reader_done(struct reader *r)
{
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
}

static int syntax_error(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    size_t line = p->problem_mark.line + 1;

    if (p->error == YAML_MEMORY_ERROR)
        return error_set(r->err, -ENOMEM, "out of memory");
    if (p->error == YAML_READER_ERROR)
        return error_set(r->err, -EINVAL, "byte %zu: %s", p->problem_offset + 1,
                         p->problem ? p->problem : "not YAML");
    /* The library's words for the commonest mistake do not name it. */
    if (p->problem && strstr(p->problem, "cannot start any token"))
        return error_set(r->err, -EINVAL,
                         "line %zu, column %zu: %s (tabs do not indent in YAML; texts that begin "
                         "with %% @ or ` stand in quotes)",
                         line, p->problem_mark.column + 1, p->problem);
    return error_set(r->err, -EINVAL, "line %zu: %s", line, p->problem ? p->problem : "not YAML");
}

static int at_line(struct reader *r, int code)
{
    return error_prefix(r->err, code, "line %u", r->line);
}

static int next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return syntax_error(r);
    const yaml_event_t *e = &r->event;
    r->line = (unsigned)e->start_mark.line + 1;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor || tag || e->type == YAML_ALIAS_EVENT)
        return error_set(r->err, -EINVAL, "line %u: %s are not allowed here", r->line,
                         tag ? "tags" : "anchors and aliases");
    return 0;
}

static struct bytes scalar(const struct reader *r)
{
    return (struct bytes){r->event.data.scalar.value, r->event.data.scalar.length};
}

/* What has no value at all: "key:" and nothing behind it. */
static bool is_nothing(const struct reader *r)
{
    struct bytes s = scalar(r);

    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (s.len == 0 || bytes_are(s, "~") || bytes_are(s, "null"));
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

    for (n = next(r); n == 0 && r->event.type != YAML_SEQUENCE_END_EVENT; n = next(r)) {
        if (r->event.type != YAML_SCALAR_EVENT || is_nothing(r))
            return error_set(r->err, -EINVAL, "line %u: %s is a list of texts, nothing else",
                             r->line, key->name);
        int set = config_set(r->c, key, scalar(r), r->err);
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
        return error_set(r->err, -EINVAL, "line %u: %s was already set in line %u", r->line,
                         key->name, origin->line);
    *origin = (struct config_origin){.source = CONFIG_BY_FILE, .line = r->line};
    config_clear_list(r->c, key);
    if (r->event.type == YAML_SEQUENCE_START_EVENT && key->type == CONFIG_LIST)
        n = read_list(r, key);
    else if (r->event.type != YAML_SCALAR_EVENT)
        return error_set(r->err, -EINVAL, "line %u: %s takes one value%s", r->line, key->name,
                         key->type == CONFIG_LIST ? " or a list" : "");
    else if (is_nothing(r))
        return error_set(r->err, -EINVAL, "line %u: %s has no value; leave it out for its default",
                         r->line, key->name);
    else {
        n = config_set(r->c, key, scalar(r), r->err);
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
    struct bytes word = scalar(r);
    unsigned line = r->line;
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
    int n = next(r);
    if (n < 0)
        return n;
    if (key)
        return read_value(r, key);
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return read_mapping(r, whole, depth + 1);
    if (r->event.type == YAML_SCALAR_EVENT && is_nothing(r))
        return 0;
    return error_set(r->err, -EINVAL, "line %u: %s is a section: its keys go below it, indented",
                     r->line, name);
}

/* Up to and with the end of the mapping whose start is the current event. */
static int read_mapping(struct reader *r, struct bytes section,
                        int depth) // NOLINT(misc-no-recursion)
{
    int n;

    if (depth > DEPTH_MAX)
        return error_set(r->err, -EINVAL, "line %u: more than %d levels", r->line, DEPTH_MAX);
    for (n = next(r); n == 0 && r->event.type != YAML_MAPPING_END_EVENT; n = next(r)) {
        if (r->event.type != YAML_SCALAR_EVENT)
            return error_set(r->err, -EINVAL, "line %u: a key is expected here", r->line);
        int entry = read_entry(r, section, depth);
        if (entry < 0)
            return entry;
    }
    return n;
}

/* The document's one value: a mapping, or nothing. */
static int read_document(struct reader *r)
{
    int n = next(r);

    if (n < 0)
        return n;
    if (r->event.type == YAML_MAPPING_START_EVENT)
        n = read_mapping(r, (struct bytes){0}, 1);
    else if (r->event.type != YAML_SCALAR_EVENT || !is_nothing(r))
        return error_set(r->err, -EINVAL, "line %u: \"key: value\" is expected here", r->line);
    return n == 0 ? next(r) : n; /* the document's end */
}

int config_read_yaml(struct config *c, struct bytes text, struct error *err)
{
    CLEANUP(reader_done) struct reader r = {.c = c, .err = err};

    if (!yaml_parser_initialize(&r.parser))
        return error_set(err, -ENOMEM, "out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, text.len ? text.data : (const uint8_t *)"", text.len);
    int n = next(&r); /* the stream's start */
    if (n == 0)
        n = next(&r);
    if (n < 0 || r.event.type == YAML_STREAM_END_EVENT)
        return n;
    n = read_document(&r);
    if (n == 0)
        n = next(&r);
    if (n == 0 && r.event.type != YAML_STREAM_END_EVENT)
        n = error_set(err, -EINVAL, "line %u: a second document is not read", r.line);
    return n;
}
