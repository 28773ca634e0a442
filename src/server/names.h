#pragma once

#include "query/query.h"
#include "server/call.h"

/*
 * Names for frames that arrived as addresses: looked up when a question is answered, from debug
 * files that were uploaded, fetched (debuginfod) or lie in debuginfo.dirs, always by build id. What
 * is stored stays as it came, so better debug files improve old data. A frame without a name stays
 * "binary+0xaddress".
 */
struct names;

/* `data_dir` NULL: keeps no files (tests). */
int names_open(struct server *s, const char *data_dir, struct names **ret, struct error *err);
void names_close(struct names *n); /* NULL is fine */

/* Makes a question of this call look names up. */
void names_for_query(struct call *c, struct query *q);

/* A number that is another one once names may be: debug files came or went. */
uint64_t names_changes(const struct server *s);
