#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "config/config.h"
#include "config/config_node.h"

#define CONFIG_NAME_MAX 64

/* Where one value came from. */
struct config_origin {
    enum config_source source;
    unsigned line;    /* of the file */
    const char *name; /* of the variable; why a default is what it is */
};

struct config {
    const struct config_table *table;
    void *values;
    struct config_origin origins[CONFIG_KEYS_MAX];
    char *file;
    struct budget budget;
    struct arena arena; /* strings */
};

/* config_value.c: text to value and back. */

/* Where the value of a key is kept. */
void *config_field(const struct config *c, const struct config_key *key);

/* Reads a scalar, or one item of a list (which is added). -EINVAL with the key and what it takes.
 */
int config_set(struct config *c, const struct config_key *key, struct bytes text,
               struct error *err);
/* Reads a flag's or a variable's text: lists are cut up. */
int config_set_text(struct config *c, const struct config_key *key, struct bytes text,
                    struct error *err);
/* Whether `text` is one of "a|b|c". */
bool config_is_choice(const char *choices, struct bytes text);
void config_clear_list(struct config *c, const struct config_key *key);
/* After the last item: "off" alone is nothing. */
void config_end_list(struct config *c, const struct config_key *key);
bool config_values_equal(const struct config_key *key, const void *a, const void *b);
/* Double quotes, as YAML and JSON both have them; the password of a URL is not shown. */
void config_add_quoted(struct buf *out, const char *text);
/* As YAML that reads as the same; not for nodes, which take lines of their own. */
void config_add_value(struct buf *out, const struct config_key *key, const void *values);

/* config.c: names. */
const struct config_key *config_find(const struct config_table *t, struct bytes name);
/* "--tls-cert-file" without the dashes, "VESTA_TLS_CERT_FILE". */
const char *config_flag_name(const struct config_key *key, char text[CONFIG_NAME_MAX]);
const char *config_variable_name(const struct config_table *t, const struct config_key *key,
                                 char text[CONFIG_NAME_MAX]);

/* config_yaml.c: all of a file. Marks what it sets as CONFIG_BY_FILE. */
int config_read_yaml(struct config *c, struct bytes text, struct error *err);

/* config_node.c: what begins with the current event, up to its last; NULL where it is empty. */
struct yaml_events;
int config_node_take(struct yaml_events *y, struct arena *arena, const struct config_node **ret);
