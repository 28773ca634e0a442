#pragma once

#include "base/error.h"

/*
 * Who this agent is, the same across restarts: as configured, else as kept in the file "agent-id"
 * of the state folder, where it is written the first time; where it cannot be written, made of the
 * machine's id and the host's name.
 */
#define AGENT_ID_MAX 128

/* `configured` and `state_dir` may be "". Always fills in *ret; a negative errno says why it may be
 * another one the next time. */
int agent_id_find(const char *configured, const char *state_dir, char ret[AGENT_ID_MAX],
                  struct error *err);
