#pragma once

#include "config/agent_config.h"

/* Who is not root keeps state, spool and cache at home ($XDG_STATE_HOME, $XDG_CACHE_HOME, or below
 * $HOME), where the configuration does not say where. Without a home nothing changes. */
void home_folders(struct config *c);
