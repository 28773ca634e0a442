#pragma once

#include "store_local/verify.h"

/*
 * Every record of every WAL that is not in segments: read back through the same link as when a
 * store opens, into memory that is thrown away. Uses a manifest of its own, read anew while another
 * process flushes.
 */
int verify_wals(struct verify *v, struct error *err);
