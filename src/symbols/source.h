#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * Source files for `list`, found as pprof finds them: the part of the name that only the build
 * machine knew is taken off (trim_path, or by guessing from search_path); what is then still
 * absolute must exist as it is; anything else is looked for below each folder of search_path and
 * below all folders above it.
 */
struct source_file;

/* Files larger than this are no source. */
#define SOURCE_FILE_MAX ((size_t)64 << 20)

/*
 * `trim_path` and `search_path` are colon-separated and may be NULL; the default of search_path is
 * the current folder. -ENOENT when it is nowhere, -EFBIG, or an errno of the file system.
 */
int source_open(const char *file, const char *trim_path, const char *search_path,
                struct source_file **ret, struct error *err);
void source_close(struct source_file *s); /* NULL is fine */
DEFINE_CLEANUP(struct source_file *, source_close)

/* Where it was found. */
const char *source_path(const struct source_file *s);
size_t source_line_count(const struct source_file *s);

/* Line n, from 1, without its end and with tabs as they are; empty past the end. Borrowed until
 * source_close(). */
struct bytes source_line(const struct source_file *s, size_t n);
