#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Names of keys that another SDK of this process gave to its threads' labels. It says them in the
 * context of the process (OTEP 4719), which is found among the mappings, as a profiler of the host
 * finds it. The memory is that SDK's and may go away at any time, so the kernel reads it for us.
 */

/* The length of the name of a key's number, written to `to`; 0: it has none. Async-signal-safe, but
 * only between sample_begin() and sample_end(). */
size_t context_find_key(unsigned number, char to[256]);
