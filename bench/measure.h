#pragma once

#include <stddef.h>

#include "profile/profile.h"

/* What the parts of measure_formats share. */
double measure_now(void);                        /* seconds of CPU this thread has used */
double measure_median(double *values, size_t n); /* sorts them */
void measure_die(const char *what, const char *why) __attribute__((noreturn));

/* Measures merging with stacks of the first profile of a set; prints merge_vs_floor. */
int measure_merge(struct profile_set *set);
