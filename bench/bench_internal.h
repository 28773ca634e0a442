#pragma once

#include <stddef.h>

/* What the parts of bench_formats share. */
double bench_now(void);                        /* seconds of CPU this thread has used */
double bench_median(double *values, size_t n); /* sorts them */
void bench_die(const char *what, const char *why) __attribute__((noreturn));
