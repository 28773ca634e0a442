#pragma once

#include "relay/relay_internal.h"

/*
 * Debug files on their way to the server: each build id is asked about at most once in a run, and
 * sent only where the server lacks it. With upload_debug_files only.
 */
extern const struct relay_part upload_part;
