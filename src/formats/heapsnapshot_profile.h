#pragma once

#include "formats/heapsnapshot.h"

/* Appends a snapshot to a set as one profile; see heapsnapshot_profile.c. False when the budget is
 * spent. */
bool heap_to_profile(const struct heap *h, struct profile_set *out);
