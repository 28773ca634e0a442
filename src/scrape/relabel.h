#pragma once

#include <stddef.h>

#include "base/error.h"
#include "config/config_node.h"
#include "scrape/tags.h"

/*
 * Relabelling as Prometheus has it: rules that are applied in order to the tags of a target, before
 * anything is read from it. Expressions match all of a text. Belongs to one thread.
 */
struct relabel_rule;

struct relabel {
    struct relabel_rule *rules;
    size_t n;
};

/* `list` is a list of maps, or NULL, and is not needed afterwards. -EINVAL naming line and key. */
int relabel_parse(const struct config_node *list, struct relabel *ret, struct error *err);
void relabel_done(struct relabel *r);

/* False when the target is dropped. */
bool relabel_apply(const struct relabel *r, struct tags *t);
