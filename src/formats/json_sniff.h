#pragma once

#include <stdbool.h>

#include "base/bytes.h"

/*
 * Telling JSON formats apart by the first bytes of a document, which may be cut anywhere. A value
 * is the bytes from its first character on, to the end of what is there.
 */

/* The value of a key of the object at `at` itself, not of one within. False when `at` is no object
 * or the key is not among what is there. */
bool json_head_find(struct bytes at, const char *key, struct bytes *ret_value);

/* The first element of the array at `at`; false when it is no array, or empty. */
bool json_head_first(struct bytes at, struct bytes *ret_value);
