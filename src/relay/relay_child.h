#pragma once

#include "config/agent_config.h"

/*
 * The relay's process, right behind fork(): gives up its rights, starts its parts, and runs until
 * the socket to the agent ends. `parent` is the agent's pid. Returns when it is over, for the
 * caller to _exit().
 */
void relay_child_run(const struct agent_config *config, int socket, int parent);
