#pragma once

#include "store_local/local_internal.h"

/*
 * What a store does without being asked: flush, merge, throw away. One step is one flush, one pass
 * of retention or one merge. local_upkeep() and the thread are in local_ops.h; the thread steps
 * until is_closing, and waits on `wake` in between.
 */

/* The head is flushed when it has this share of the memory, or has waited this long. */
#define UPKEEP_HEAD_SHARE  4
#define UPKEEP_HEAD_AGE_NS (10 * MINUTE_NS)
