#pragma once

#include "profile/profile.h"

/*
 * Gives every sample of p the stack it has when each location l is replaced by to[l] (0 drops the
 * frame): how better names, other addresses or hidden frames reach the stacks. `to` has an entry
 * for every location that existed when it was made. Rows are not merged. False when the budget is
 * spent; p is then as it was.
 */
bool profile_remap_locations(struct profile *p, const uint32_t *to);
