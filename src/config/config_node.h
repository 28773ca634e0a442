#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * A part of a configuration file that is no table of single keys: lists of things, as YAML has
 * them. Strings are as written, without quotes; who reads them says what they mean. Belongs to the
 * config, or to the arena it was read into.
 */
#define CONFIG_NODE_DEPTH_MAX 16
#define CONFIG_NODES_MAX      100000
#define CONFIG_NODE_KEYS_MAX  1000 /* of one map */
#define CONFIG_NODE_KEY_MAX   256  /* bytes of one */

enum config_node_kind { CONFIG_NODE_SCALAR, CONFIG_NODE_LIST, CONFIG_NODE_MAP };

struct config_node {
    enum config_node_kind kind;
    unsigned line;                          /* of the file, from 1 */
    const char *key;                        /* in a map; else NULL */
    const char *value;                      /* of a scalar; else NULL */
    const struct config_node *first, *next; /* children; the next of its siblings */
};

/* The child of a map with this key, or NULL. */
const struct config_node *config_node_get(const struct config_node *map, const char *key);

/* The same lists, maps and texts; lines do not count. NULL is fine. */
bool config_nodes_equal(const struct config_node *a, const struct config_node *b);

/*
 * Reads a whole YAML (or JSON) text; *ret is NULL when there is nothing in it. -EINVAL naming line
 * and reason, also for what goes over the limits above; -ENOBUFS past the arena's budget.
 */
int config_node_read(struct bytes text, struct arena *arena, const struct config_node **ret,
                     struct error *err);

/* As YAML in lines that are indented by `indent`; what a password or token is shows as "***". */
void config_node_print(const struct config_node *node, unsigned indent, struct buf *out);
