/*
 * A list, all varints: the first function, how many there are, then the hashes of their names,
 * ascending, each once, as the distance to the one before. A hash is the lower 24 bits of
 * checksum64: about two bytes a name, and of 4,000 dictionaries with 4,000 names one is read in
 * vain.
 */
#include "store_local/epoch_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/must.h"
#include "segment/block_cache.h"
#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "segment/varint.h"

#define HASH_MASK 0xffffffu

/* Functions have ids from here on. */
#define FIRST_FUNCTION 1

static uint32_t name_hash(struct bytes name)
{
    return (uint32_t)checksum64(name.data, name.len) & HASH_MASK;
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

void epoch_encode_names(const struct dict *d, uint32_t from, uint32_t to, struct buf *out)
{
    uint32_t *hashes = must_calloc((size_t)(to - from) + 1, sizeof(*hashes));
    size_t n = 0;
    for (uint32_t i = from; i < to; i++) {
        if (d->functions.data[i].name != 0)
            hashes[n++] = name_hash(dict_text(d, d->functions.data[i].name));
    }
    qsort(hashes, n, sizeof(*hashes), by_number);
    add_varint(out, from);
    add_varint(out, to - from);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || hashes[i] != hashes[i - 1])
            add_varint(out, hashes[i] - (i > 0 ? hashes[i - 1] : 0));
    }
    free(hashes);
}

/* Takes the numbers of a list; the hashes are left. */
static bool take_range(struct bytes *list, uint32_t *ret_from, uint32_t *ret_to)
{
    uint64_t from, n;

    if (!take_varint(list, &from) || !take_varint(list, &n) || from > UINT32_MAX ||
        n > UINT32_MAX - from)
        return false;
    *ret_from = (uint32_t)from;
    *ret_to = (uint32_t)(from + n);
    return true;
}

bool epoch_names_are_right(const struct dict *d, struct bytes list)
{
    CLEANUP(buf_done) struct buf want = {0};
    struct bytes rest = list;
    uint32_t from, to;

    if (!take_range(&rest, &from, &to) || to > d->functions.len)
        return false;
    epoch_encode_names(d, from, to, &want);
    return bytes_equal(buf_bytes(&want), list);
}

/* ---- Reading */

struct collecting {
    struct buf hashes; /* u32 each */
    uint32_t next;     /* functions before this one are in them */
};

static int collect_list(void *arg, uint64_t offset, struct bytes list, struct error *err)
{
    struct collecting *c = arg;
    uint32_t from, to;

    (void)offset;
    if (!take_range(&list, &from, &to) || from != c->next)
        return error_set(err, -EBADMSG, "names are missing in a list");
    for (uint64_t hash = 0, more; list.len > 0;) {
        if (!take_varint(&list, &more) || more > HASH_MASK - hash)
            return error_set(err, -EBADMSG, "a list of names is malformed");
        hash += more;
        buf_add(&c->hashes, &(uint32_t){(uint32_t)hash}, sizeof(uint32_t));
    }
    c->next = to;
    return 0;
}

/* All hashes of dict/ID.dict, `len` bytes of it, or NULL when they are not all there. */
static struct block *read_hashes(struct local *l, uint64_t id, uint64_t len, uint32_t n_functions)
{
    struct collecting c = {.next = FIRST_FUNCTION};
    struct file_name name = file_name("dict", id, "dict");
    struct chunk_visitor visitor = {.arg = &c, .list = collect_list};
    struct block *block = NULL;
    struct error why;

    int r = chunk_log_read_lists(&(struct chunk_log){l->fs, name.text, id}, len, visitor, &why);
    if (r == 0 && c.next == n_functions && c.hashes.len <= UINT32_MAX)
        block = block_new((uint32_t)c.hashes.len);
    if (block && c.hashes.len > 0)
        memcpy(block->data, c.hashes.data, c.hashes.len);
    buf_done(&c.hashes);
    return block;
}

static bool has_hash(const struct block *block, uint32_t want)
{
    for (uint32_t at = 0, hash; at < block->len; at += sizeof(hash)) {
        memcpy(&hash, block->data + at, sizeof(hash));
        if (hash == want)
            return true;
    }
    return false;
}

/* A file only grows, so its length says which lists it had. */
static struct block *hashes_of(struct local *l, uint64_t id, uint64_t len, uint32_t n_functions)
{
    struct block *block = block_cache_get(l->cache, id, len);

    if (block)
        return block;
    block = read_hashes(l, id, len, n_functions);
    if (block)
        block_cache_put(l->cache, id, len, block);
    return block;
}

int epoch_may_know(struct local *l, const struct epoch *e, struct bytes function)
{
    if (function.len == 0 || e->is_damaged)
        return 1; /* what has no name is not in lists */
    if (e->dict)
        return dict_find_string(e->dict, function) != 0;

    uint64_t id = e->id, len = e->file_len;
    uint32_t n_functions = e->flushed.functions;
    pthread_mutex_unlock(&l->lock);
    struct block *hashes = hashes_of(l, id, len, n_functions);
    int r = !hashes || has_hash(hashes, name_hash(function));
    block_unref(hashes);
    pthread_mutex_lock(&l->lock);
    return r;
}
