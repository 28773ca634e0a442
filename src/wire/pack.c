#include "wire/pack.h"

#include <errno.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdlib.h>
#include <zstd.h>

/* Contexts are large and slow to make, so every thread keeps one of each that it used. */
struct contexts {
    ZSTD_CCtx *pack;
    ZSTD_DCtx *unpack;
};

static pthread_key_t contexts_key;
static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;

static void contexts_free(void *p)
{
    struct contexts *c = p;

    ZSTD_freeCCtx(c->pack);
    ZSTD_freeDCtx(c->unpack);
    free(c);
}

static void make_key(void)
{
    if (pthread_key_create(&contexts_key, contexts_free) != 0)
        abort(); /* a program has at least 128 of them */
}

static struct contexts *contexts(void)
{
    pthread_once(&contexts_once, make_key);
    struct contexts *c = pthread_getspecific(contexts_key);

    if (c)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c || pthread_setspecific(contexts_key, c) != 0) {
        free(c);
        return NULL;
    }
    return c;
}

int zstd_pack(struct bytes in, int level, struct buf *out)
{
    struct contexts *c = contexts();

    if (!c || (!c->pack && !(c->pack = ZSTD_createCCtx())))
        return -ENOMEM;
    size_t room = ZSTD_compressBound(in.len);
    uint8_t *to = buf_reserve(out, room);
    if (!to)
        return -ENOBUFS;
    size_t n = ZSTD_compressCCtx(c->pack, to, room, in.data, in.len, level);
    if (ZSTD_isError(n))
        return -ENOMEM;
    out->len += n;
    return 0;
}

int zstd_unpack(struct bytes in, size_t original_len, void *to, struct error *err)
{
    struct contexts *c = contexts();

    if (!c || (!c->unpack && !(c->unpack = ZSTD_createDCtx())))
        return error_set(err, -ENOMEM, "could not unpack zstd: out of memory");
    size_t n = ZSTD_decompressDCtx(c->unpack, to, original_len, in.data, in.len);
    if (ZSTD_isError(n))
        return error_set(err, -EBADMSG, "zstd content is damaged: %s", ZSTD_getErrorName(n));
    if (n != original_len)
        return error_set(err, -EBADMSG, "zstd content is damaged: %zu bytes instead of %zu", n,
                         original_len);
    return 0;
}

int zlib_unpack(struct bytes in, size_t original_len, void *to, struct error *err)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();

    if (!d)
        return error_set(err, -ENOMEM, "could not unpack zlib: out of memory");
    enum libdeflate_result r =
        libdeflate_zlib_decompress(d, in.data, in.len, to, original_len, NULL);
    libdeflate_free_decompressor(d);
    if (r != LIBDEFLATE_SUCCESS)
        return error_set(err, -EBADMSG, "zlib content is damaged, or not of %zu bytes",
                         original_len);
    return 0;
}
