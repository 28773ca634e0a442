#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "scrape/scrape_config.h"
#include "scrape/tags.h"

/*
 * Where the targets of one job come from: what the config lists, files that are watched, DNS. What
 * cannot be read keeps what was found there before. Belongs to one thread; it may wait for files
 * and DNS.
 */
struct discover;

struct discover *discover_new(const struct scrape_job *job); /* the job must live longer */
void discover_free(struct discover *d);                      /* NULL is fine */

/* Looks where it is time to; true when other targets may be there. What went wrong is added to
 * `problems`, a line each, once for as long as it lasts. */
bool discover_refresh(struct discover *d, int64_t now_ns, struct buf *problems);

/* When to look next; INT64_MAX: never. */
int64_t discover_next_ns(const struct discover *d);

/* All targets, before relabelling: __address__, labels of their group, __meta_*. */
void discover_each(const struct discover *d, void (*target)(void *arg, const struct tags *t),
                   void *arg);

/* The targets in a file (of file_sd_configs), JSON or YAML. */
int discover_parse_file(struct bytes text, const char *path, struct tags_list *ret,
                        struct error *err);

#define DISCOVER_FILE_MAX ((size_t)4 << 20)
