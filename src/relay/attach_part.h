#pragma once

#include "relay/relay_internal.h"

/* Windows of Node processes (scrape/node_window.h), one at a time, in a thread of their own. With
 * node.attach only. */
extern const struct relay_part attach_part;
