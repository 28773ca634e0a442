#pragma once

#include <stddef.h>

/*
 * Every fallible function returns 0 (or a count) on success and a negative errno on failure. Where
 * the caller has a person to tell, it also takes a `struct error *` as its last argument and fills
 * it in exactly when it returns a negative value. Callers that only branch pass NULL.
 *
 * Texts follow one grammar: lower case, no full stop, what was attempted, then the reason:
 * could not open "x.pb.gz": No such file or directory
 */
struct error {
    char text[512];
};

/* Sets the text and returns r, so that a failing path is one statement. */
int error_set(struct error *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "where: " in front of a text set further down and returns r. */
int error_prefix(struct error *err, int r, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
