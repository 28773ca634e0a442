#pragma once

#include <stddef.h>

#include "base/bytes.h"

/*
 * Memory of a small, fixed or already charged size, without which nothing can go on: having none
 * ends the process. What is sized by input is taken from a budget instead, and may be refused.
 */
void *must_calloc(size_t n, size_t size); /* zeroed */
void *must_realloc(void *p, size_t size);
char *must_copy(struct bytes text); /* with a NUL behind it */
