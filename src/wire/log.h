#pragma once

#include <stdarg.h>

/*
 * Lines of a log, on standard error: time, level and text, or the same as JSON. A line is one
 * write, so those of threads and processes do not mix. What came from outside may hold anything; a
 * line stays a line.
 */
enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* As configuration says: the lowest level that is written ("debug", "info", "warn", "error"), and
 * "text" or "json". */
struct log_style {
    const char *level, *format;
};

void log_write(struct log_style style, int level, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
