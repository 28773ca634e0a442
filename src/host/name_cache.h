#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "host/parse.h"

/*
 * Images that parsing made (names, unwind tables), kept in a folder of our own from one start to
 * the next: by what tells a file from others, bounded in size, what was not used for longest
 * dropped first. A file appears whole or not at all; what is not a plain file of ours that nobody
 * else can write is not read. Without a folder nothing is kept, and images live in memory.
 *
 * Nothing is synced: an image is made again from its file at little cost, and what reads images
 * checks them. When it finds damage: name_cache_drop(), and make another.
 */
struct name_cache;

enum name_cache_kind { NAME_CACHE_NAMES, NAME_CACHE_UNWIND, NAME_CACHE_KIND_COUNT };

/* `folder` is made (0700) where it is not there; NULL: none. -EPERM when it is not ours alone. */
int name_cache_open(const char *folder, uint64_t max_bytes, struct name_cache **ret,
                    struct error *err);
void name_cache_close(struct name_cache *c); /* NULL is fine */
DEFINE_CLEANUP(struct name_cache *, name_cache_close)

/*
 * What an image is kept under. Ids are the file's own claims, so the owner counts too: what a user
 * makes of a file cannot stand in for what is root's. `has_debug`: its debug file was there.
 */
struct name_cache_key {
    char text[192];
};
struct name_cache_key name_cache_key(const struct parse_facts *f, uint32_t owner, bool has_debug);

/* The image, to read, or -ENOENT. */
int name_cache_get(struct name_cache *c, const struct name_cache_key *key,
                   enum name_cache_kind kind);

/* A nameless file for an image to be made in: in the folder while its disk has room, else in
 * memory. Negative errno. */
int name_cache_scratch(struct name_cache *c);

/* Keeps what is in a descriptor (from above, or any), which stays the caller's and must not change
 * any more. Without a folder it does nothing. -ENOSPC, -EFBIG when it is more than the whole cache
 * may be; what was kept before is then as it was. */
int name_cache_put(struct name_cache *c, const struct name_cache_key *key,
                   enum name_cache_kind kind, int fd, struct error *err);

void name_cache_drop(struct name_cache *c, const struct name_cache_key *key,
                     enum name_cache_kind kind);

struct name_cache_stats {
    uint64_t files, bytes; /* kept */
    uint64_t hits, misses, puts, failed, evicted, refused;
};
void name_cache_stats(const struct name_cache *c, struct name_cache_stats *ret);
