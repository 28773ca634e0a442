#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config_node.h"

/*
 * Values of a YAML map by key. A key that is not there leaves *io as it is; one of another kind is
 * -EINVAL, naming line, key and what is expected.
 */
int node_string(const struct config_node *map, const char *key, const char **io, struct error *err);
int node_bool(const struct config_node *map, const char *key, bool *io, struct error *err);
int node_number(const struct config_node *map, const char *key, uint64_t max, uint64_t *io,
                struct error *err);
int node_duration(const struct config_node *map, const char *key, int64_t min_ns, int64_t *io,
                  struct error *err);
int node_size(const struct config_node *map, const char *key, uint64_t *io, struct error *err);
/* A list, or a map; one value alone is no list of it. */
int node_list(const struct config_node *map, const char *key, const struct config_node **io,
              struct error *err);
int node_map(const struct config_node *map, const char *key, const struct config_node **io,
             struct error *err);

/* Whether a node is a map of keys that are all known ("a b c"). `what` names the map. */
int node_check(const struct config_node *node, const char *what, const char *known,
               struct error *err);

/* Whether a list has scalars only. */
int node_check_texts(const struct config_node *list, struct error *err);
