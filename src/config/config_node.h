#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A part of a configuration file that is no table of single keys: lists of things, as YAML has
 * them. Strings are as written, without quotes; who reads them says what they mean. Belongs to the
 * config.
 */
enum config_node_kind { CONFIG_NODE_SCALAR, CONFIG_NODE_LIST, CONFIG_NODE_MAP };

struct config_node {
    enum config_node_kind kind;
    unsigned line;                          /* of the file, from 1 */
    const char *key;                        /* in a map; else NULL */
    const char *value;                      /* of a scalar */
    const struct config_node *first, *next; /* children; the next of its siblings */
};

/* The child of a map with this key, or NULL. */
const struct config_node *config_node_get(const struct config_node *map, const char *key);
