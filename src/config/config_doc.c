#include <stdio.h>
#include <string.h>

#include "config/config_internal.h"

/* A config and its table as people read them. */

#define SOURCE_COLUMN 48

/* "tls" of "tls.cert_file"; empty for keys of no section. */
static struct bytes section_of(const struct config_key *key)
{
    const char *dot = strchr(key->name, '.');

    return (struct bytes){(const uint8_t *)key->name, dot ? (size_t)(dot - key->name) : 0};
}

static void add_source(struct buf *out, const struct config_origin *o)
{
    switch (o->source) {
    case CONFIG_BY_DEFAULT:
        buf_add_str(out, "default");
        if (o->name)
            buf_addf(out, ", %s", o->name);
        break;
    case CONFIG_BY_FILE:
        buf_addf(out, "file, line %u", o->line);
        break;
    case CONFIG_BY_VARIABLE:
        buf_addf(out, "variable %s", o->name);
        break;
    case CONFIG_BY_FLAG:
        buf_add_str(out, "flag");
        break;
    }
}

static bool is_set(const struct config_key *key, const void *values)
{
    const void *field = (const char *)values + key->offset;

    if (key->type == CONFIG_LIST)
        return ((const struct config_list *)field)->n > 0;
    return key->type != CONFIG_STRING || **(const char *const *)field != '\0';
}

/* What is below a key, in lines of its own. */
static const struct config_node *node_of(struct config *c, const struct config_key *key)
{
    return key->type == CONFIG_NODE ? *(const struct config_node **)config_field(c, key) : NULL;
}

static void print_key(struct config *c, const struct config_key *key, struct buf *out)
{
    bool is_secret = key->flags & CONFIG_SECRET;
    size_t from = out->len, section = section_of(key).len;
    const struct config_node *node = node_of(c, key);

    buf_addf(out, "%s%s%s: ", section ? "  " : "", is_secret ? "# " : "",
             key->name + (section ? section + 1 : 0));
    if (key->type == CONFIG_NODE)
        buf_add_str(out, node ? "" : "[]");
    else if (!is_secret)
        config_add_value(out, key, c->values);
    else
        buf_add_str(out, is_set(key, c->values) ? "(set, not shown)" : "(not set)");
    while (out->len - from < SOURCE_COLUMN)
        buf_add_byte(out, ' ');
    buf_add_str(out, " # ");
    add_source(out, &c->origins[key - c->table->keys]);
    buf_add_byte(out, '\n');
    if (node)
        config_node_print(node, section ? 4 : 2, out);
}

void config_print(struct config *c, struct buf *out)
{
    struct bytes section = {0};

    buf_addf(out, "# %s%s\n", c->file ? "file: " : "no file was read", c->file ? c->file : "");
    for (size_t i = 0; i < c->table->n_keys; i++) {
        const struct config_key *key = &c->table->keys[i];
        struct bytes in = section_of(key);
        if (!bytes_equal(in, section) && in.len > 0)
            buf_addf(out, "%.*s:\n", (int)in.len, (const char *)in.data);
        section = in;
        print_key(c, key, out);
    }
}

static const char *type_text(const struct config_key *key)
{
    static const char *const texts[] = {
        [CONFIG_STRING] = "text",       [CONFIG_LIST] = "list",  [CONFIG_BOOL] = "true or false",
        [CONFIG_U32] = "number",        [CONFIG_U64] = "number", [CONFIG_BYTES] = "size",
        [CONFIG_DURATION] = "duration", [CONFIG_NODE] = "YAML",
    };
    return texts[key->type];
}

/* The default, as YAML. */
static void add_standard(struct buf *out, const struct config_key *key)
{
    if (key->standard[0] == '\0')
        buf_add_str(out, key->type == CONFIG_LIST || key->type == CONFIG_NODE ? "none" : "not set");
    else
        buf_addf(out, "`%s`", key->standard);
}

static void add_choices(struct buf *out, const char *choices)
{
    buf_add_str(out, "; one of ");
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        buf_addf(out, "%s`%.*s`", at == choices ? "" : ", ", (int)n, at);
        at += n + (at[n] == '|');
    }
}

static bool is_reloading(const struct config_table *t)
{
    for (size_t i = 0; i < t->n_keys; i++) {
        if (t->keys[i].flags & CONFIG_RELOADS)
            return true;
    }
    return false;
}

static void add_names(struct buf *out, const struct config_table *t, const struct config_key *key)
{
    char flag[CONFIG_NAME_MAX], name[CONFIG_NAME_MAX];

    if (key->type == CONFIG_NODE) {
        buf_add_str(out, "\n- in the file only");
        return;
    }
    buf_addf(out, "\n- `--%s`", config_flag_name(key, flag));
    if (key->type == CONFIG_BOOL)
        buf_addf(out, ", `--no-%s`", flag);
    buf_addf(out, "; `%s`", config_variable_name(t, key, name));
    if (key->also)
        buf_addf(out, ", or else `%s`", key->also);
}

static void doc_key(struct buf *out, const struct config_table *t, const struct config_key *key)
{
    buf_addf(out, "### `%s`\n\n%s\n\n", key->name, key->help);
    buf_addf(out, "- %s", type_text(key));
    if (key->choices)
        add_choices(out, key->choices);
    buf_add_str(out, "; default: ");
    add_standard(out, key);
    add_names(out, t, key);
    if (is_reloading(t))
        buf_addf(out, "\n- %s%s\n\n",
                 key->flags & CONFIG_RELOADS ? "changes without a restart" : "needs a restart",
                 key->flags & CONFIG_SECRET ? "; a secret: never shown" : "");
    else
        buf_add_str(out, key->flags & CONFIG_SECRET ? "\n- a secret: never shown\n\n" : "\n\n");
}

void config_doc(const struct config_table *table, const char *head, struct buf *out)
{
    struct bytes section = {0};

    buf_add_str(out, head);
    for (size_t i = 0; i < table->n_keys; i++) {
        struct bytes in = section_of(&table->keys[i]);
        if (i == 0)
            buf_add_str(out, "\n## General\n\n");
        else if (!bytes_equal(in, section) && in.len > 0)
            buf_addf(out, "## %.*s\n\n", (int)in.len, (const char *)in.data);
        section = in;
        doc_key(out, table, &table->keys[i]);
    }
    out->len--; /* one newline at the end is enough */
}

#define HELP_INDENT  37
#define HELP_COLUMNS 100
#define DEFAULT_MAX  40 /* longer ones are for the reference */

/* Words of `text` in lines that begin at HELP_INDENT, where the first one stands already. */
static void add_wrapped(struct buf *out, struct bytes text)
{
    size_t column = HELP_INDENT;

    while (text.len > 0) {
        const uint8_t *space = bytes_find_byte(text, ' ');
        struct bytes word = bytes_head(text, space ? (size_t)(space - text.data) : text.len);
        if (column > HELP_INDENT && column + 1 + word.len > HELP_COLUMNS) {
            buf_addf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            buf_add_byte(out, ' ');
            column++;
        }
        buf_add_bytes(out, word);
        column += word.len;
        text = bytes_from(text, word.len + (space ? 1 : 0));
    }
    buf_add_byte(out, '\n');
}

static const char *value_text(const struct config_key *key)
{
    static const char *const texts[] = {
        [CONFIG_STRING] = "TEXT",
        [CONFIG_LIST] = "LIST",
        [CONFIG_BOOL] = "",
        [CONFIG_U32] = "N",
        [CONFIG_U64] = "N",
        [CONFIG_BYTES] = "SIZE",
        [CONFIG_DURATION] = "DURATION",
        [CONFIG_NODE] = "",
    };
    return key->choices ? key->choices : texts[key->type];
}

static void add_help_line(struct buf *out, const char *flag, const char *value, const char *text)
{
    CLEANUP(buf_done) struct buf left = {0};

    buf_addf(&left, "  --%s%s%s", flag, value[0] ? " " : "", value);
    buf_addf(out, "%-*s", HELP_INDENT - 1, buf_cstr(&left));
    if (left.len < HELP_INDENT)
        buf_add_byte(out, ' ');
    else
        buf_addf(out, "\n%*s", HELP_INDENT, "");
    add_wrapped(out, bytes_of(text));
}

void config_help(const struct config_table *table, struct buf *out)
{
    char flag[CONFIG_NAME_MAX];
    CLEANUP(buf_done) struct buf file = {0};

    buf_addf(&file, "The file (%sCONFIG; %s; %s)", table->prefix, table->files[0], table->files[1]);
    add_help_line(out, "config", "FILE", buf_cstr(&file));
    /* The first sentence of each. */
    for (size_t i = 0; i < table->n_keys; i++) {
        const struct config_key *key = &table->keys[i];
        CLEANUP(buf_done) struct buf text = {0};
        if (key->type == CONFIG_NODE)
            continue;
        const char *end = strstr(key->help, ". ");
        size_t n = end ? (size_t)(end - key->help) : strlen(key->help) - 1;
        buf_addf(&text, "%.*s", (int)n, key->help);
        if (key->standard[0] && strlen(key->standard) <= DEFAULT_MAX)
            buf_addf(&text, " (%s)", key->standard);
        add_help_line(out, config_flag_name(key, flag), value_text(key), buf_cstr(&text));
    }
}
