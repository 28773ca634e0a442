#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What this process publishes about itself (OTEP 4719): its resource, and the names of the keys
 * that its threads use in their records. It lies in memory that a child does not inherit, so a
 * child publishes again.
 */

#define CONTEXT_KEYS_MAX     255
#define CONTEXT_KEY_SIZE_MAX 127

/* The number of a key, published if it is new; a negative errno if it cannot be. Finding one that
 * is known takes no lock. */
int context_key(const char *key, size_t n);
/* The same, but only if it is known: -1 otherwise. */
int context_key_known(const char *key, size_t n);

/* The name of a number that context_key() gave out; it stays where it is. */
bool context_key_name(unsigned number, const char **ret_name, size_t *ret_n);
