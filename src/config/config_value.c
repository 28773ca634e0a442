#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "config/config_internal.h"

/* Texts of one value: reading, writing, comparing. */

void *config_field(const struct config *c, const struct config_key *key)
{
    return (char *)c->values + key->offset;
}

static const char *expected(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_BOOL:
        return "true or false";
    case CONFIG_U32:
    case CONFIG_U64:
        return "a whole number";
    case CONFIG_BYTES:
        return "a size such as 512KiB, 64MiB or 2GiB";
    case CONFIG_DURATION:
        return "a duration such as 500ms, 30s, 1h30m or 30d";
    default:
        return "text";
    }
}

static int bad_value(const struct config_key *key, struct bytes text, struct error *err)
{
    if (key->flags & CONFIG_SECRET)
        return error_set(err, -EINVAL, "%s has a value that it cannot have", key->name);
    return error_set(err, -EINVAL, "%s is \"%.*s\", where %s is expected", key->name,
                     (int)(text.len < 60 ? text.len : 60), (const char *)text.data, expected(key));
}

static bool parse_bool(struct bytes text, bool *ret)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (bytes_are(text, yes[i]) || bytes_are(text, no[i])) {
            *ret = bytes_are(text, yes[i]);
            return true;
        }
    }
    return false;
}

bool config_is_choice(const char *choices, struct bytes text)
{
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        struct bytes choice = {(const uint8_t *)at, strcspn(at, "|")};
        if (bytes_equal(choice, text))
            return true;
    }
    return false;
}

/* A number as people write it, for what a limit is. */
static const char *number_text(const struct config_key *key, uint64_t v, char text[64])
{
    char size[BUDGET_TEXT_MAX];

    if (key->type == CONFIG_DURATION)
        return duration_text((int64_t)v, text);
    if (key->type == CONFIG_BYTES)
        snprintf(text, 64, "%s", budget_text((size_t)v, size));
    else
        snprintf(text, 64, "%llu", (unsigned long long)v);
    return text;
}

static int set_number(const struct config_key *key, struct bytes text, void *field,
                      struct error *err)
{
    uint64_t v = 0;
    int64_t ns = 0;
    char limit[64];
    bool is_one = key->type == CONFIG_DURATION ? bytes_to_duration(text, &ns)
                  : key->type == CONFIG_BYTES  ? bytes_to_size(text, &v)
                                               : bytes_to_u64(text, &v);

    if (!is_one)
        return bad_value(key, text, err);
    if (key->type == CONFIG_DURATION)
        v = (uint64_t)ns;
    uint64_t max = key->max ? key->max : key->type == CONFIG_U32 ? UINT32_MAX : INT64_MAX;
    if (v < key->min || v > max)
        return error_set(err, -EINVAL, "%s is %.*s, %s than the %s, %s", key->name,
                         (int)(text.len < 60 ? text.len : 60), (const char *)text.data,
                         v < key->min ? "less" : "more", v < key->min ? "least" : "most",
                         number_text(key, v < key->min ? key->min : max, limit));
    if (key->type == CONFIG_U32)
        *(uint32_t *)field = (uint32_t)v;
    else if (key->type == CONFIG_DURATION)
        *(int64_t *)field = ns;
    else
        *(uint64_t *)field = v;
    return 0;
}

static int copy_string(struct config *c, const struct config_key *key, struct bytes text,
                       const char **ret, struct error *err)
{
    if (text.len > CONFIG_STRING_MAX)
        return error_set(err, -EINVAL, "%s is %zu bytes long, more than the limit of %d", key->name,
                         text.len, CONFIG_STRING_MAX);
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] == 0x7f)
            return error_set(err, -EINVAL, "%s has a control character in it, at byte %zu",
                             key->name, i + 1);
    }
    if (key->choices && text.len > 0 && !config_is_choice(key->choices, text))
        return error_set(err, -EINVAL, "%s is \"%.*s\", not one of %s", key->name,
                         (int)(text.len < 60 ? text.len : 60), (const char *)text.data,
                         key->choices);
    const char *copy = arena_strdup(&c->arena, text);
    if (!copy)
        return budget_error(&c->budget, err);
    *ret = copy;
    return 0;
}

static int add_item(struct config *c, const struct config_key *key, struct bytes text,
                    struct error *err)
{
    struct config_list *list = config_field(c, key);

    if (text.len == 0)
        return error_set(err, -EINVAL, "%s has an empty item", key->name);
    if (list->n == CONFIG_LIST_MAX)
        return error_set(err, -EINVAL, "%s has more than %d items", key->name, CONFIG_LIST_MAX);
    bool is_off = bytes_are(text, "off");
    struct config_key any = *key;
    any.choices = is_off ? NULL : key->choices;
    int r = copy_string(c, &any, text, &list->items[list->n], err);
    list->n += r == 0;
    return r;
}

int config_set(struct config *c, const struct config_key *key, struct bytes text, struct error *err)
{
    void *field = config_field(c, key);

    switch (key->type) {
    case CONFIG_STRING:
        return copy_string(c, key, text, (const char **)field, err);
    case CONFIG_LIST:
        return add_item(c, key, text, err);
    case CONFIG_BOOL:
        return parse_bool(text, field) ? 0 : bad_value(key, text, err);
    case CONFIG_NODE: /* of files, by config_node_take(); none by default */
        assert(text.len == 0);
        return 0;
    default:
        return set_number(key, text, field, err);
    }
}

int config_set_text(struct config *c, const struct config_key *key, struct bytes text,
                    struct error *err)
{
    uint8_t separator = key->flags & CONFIG_WHOLE ? '\n' : ',';
    int r = 0;

    if (key->type != CONFIG_LIST)
        return config_set(c, key, text, err);
    while (text.len > 0 && r == 0) {
        const uint8_t *end = bytes_find_byte(text, separator);
        size_t n = end ? (size_t)(end - text.data) : text.len;
        struct bytes item = bytes_trim(bytes_head(text, n));
        if (item.len > 0)
            r = config_set(c, key, item, err);
        text = bytes_from(text, end ? n + 1 : n);
    }
    return r;
}

void config_clear_list(struct config *c, const struct config_key *key)
{
    if (key->type == CONFIG_LIST)
        *(struct config_list *)config_field(c, key) = (struct config_list){0};
}

void config_end_list(struct config *c, const struct config_key *key)
{
    struct config_list *list = key->type == CONFIG_LIST ? config_field(c, key) : NULL;

    if (list && list->n == 1 && strcmp(list->items[0], "off") == 0)
        *list = (struct config_list){0};
}

static bool lists_equal(const struct config_list *a, const struct config_list *b)
{
    bool equal = a->n == b->n;

    for (size_t i = 0; equal && i < a->n; i++)
        equal = strcmp(a->items[i], b->items[i]) == 0;
    return equal;
}

bool config_values_equal(const struct config_key *key, const void *a, const void *b)
{
    const void *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

    switch (key->type) {
    case CONFIG_STRING:
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    case CONFIG_LIST:
        return lists_equal(x, y);
    case CONFIG_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case CONFIG_U32:
        return *(const uint32_t *)x == *(const uint32_t *)y;
    case CONFIG_NODE:
        return config_nodes_equal(*(const struct config_node *const *)x,
                                  *(const struct config_node *const *)y);
    default:
        return *(const uint64_t *)x == *(const uint64_t *)y;
    }
}

void config_add_quoted(struct buf *out, const char *text)
{
    const char *scheme = strstr(text, "://");
    const char *host = scheme ? scheme + 3 : NULL;
    const char *at = host ? memrchr(host, '@', strcspn(host, "/?#")) : NULL;

    buf_add_byte(out, '"');
    for (const char *p = text; *p; p++) {
        if (at && p == host) {
            buf_add_str(out, "***");
            p = at;
        }
        if (*p == '"' || *p == '\\' || *p == '\n' || *p == '\t')
            buf_add_byte(out, '\\');
        buf_add_byte(out, *p == '\n' ? 'n' : *p == '\t' ? 't' : (uint8_t)*p);
    }
    buf_add_byte(out, '"');
}

/* The largest unit that leaves nothing over. */
static void add_in_units(struct buf *out, uint64_t v, const struct config_key *key)
{
    static const struct {
        const char *name;
        uint64_t n;
    } sizes[] = {{"TiB", (uint64_t)1 << 40},
                 {"GiB", 1u << 30},
                 {"MiB", 1u << 20},
                 {"KiB", 1u << 10}},
      times[] = {{"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000},
                 {"s", 1000000000},     {"ms", 1000000},      {"us", 1000}};
    bool is_time = key->type == CONFIG_DURATION;
    size_t n = is_time ? ARRAY_SIZE(times) : ARRAY_SIZE(sizes);

    for (size_t i = 0; v > 0 && i < n; i++) {
        uint64_t unit = is_time ? times[i].n : sizes[i].n;
        if (v % unit == 0) {
            buf_add_u64(out, v / unit);
            buf_add_str(out, is_time ? times[i].name : sizes[i].name);
            return;
        }
    }
    buf_add_u64(out, v);
    if (is_time)
        buf_add_str(out, v == 0 ? "s" : "ns");
}

void config_add_value(struct buf *out, const struct config_key *key, const void *values)
{
    const void *field = (const char *)values + key->offset;
    const struct config_list *list = field;

    switch (key->type) {
    case CONFIG_STRING:
        config_add_quoted(out, *(const char *const *)field);
        break;
    case CONFIG_LIST:
        buf_add_byte(out, '[');
        for (size_t i = 0; i < list->n; i++) {
            buf_add_str(out, i ? ", " : "");
            config_add_quoted(out, list->items[i]);
        }
        buf_add_byte(out, ']');
        break;
    case CONFIG_BOOL:
        buf_add_str(out, *(const bool *)field ? "true" : "false");
        break;
    case CONFIG_U32:
        buf_add_u64(out, *(const uint32_t *)field);
        break;
    case CONFIG_U64:
        buf_add_u64(out, *(const uint64_t *)field);
        break;
    default:
        add_in_units(out, *(const uint64_t *)field, key);
        break;
    }
}
