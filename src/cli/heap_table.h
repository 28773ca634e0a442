#pragma once

#include "base/buf.h"
#include "profile/profile.h"
#include "wire/json.h"

/*
 * The table of constructors that `info` adds for a heap snapshot: count, shallow and retained size,
 * detached. Nothing for profiles that are not of one. Text shows the largest; JSON all, as the key
 * "constructors".
 */
void heap_table_text(const struct profile *p, struct buf *out);
void heap_table_json(const struct profile *p, struct json_writer *w);
