#pragma once

#include "agent/agent_internal.h"

/*
 * Lines and inlined calls for the places of the closing window that are new, asked of the parser
 * before the window is published. True when there is nothing more to wait for.
 */
bool lines_are_ready(struct agent *a, int64_t now_ns);
void lines_free(struct lines *l); /* NULL is fine */
