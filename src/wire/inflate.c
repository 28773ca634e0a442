#include "wire/inflate.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define PADDING         16
#define HTTP_WINDOW_LOG 23

enum codec codec_detect(struct bytes head)
{
    if (head.len >= 3 && head.data[0] == 0x1f && head.data[1] == 0x8b && head.data[2] == 8)
        return CODEC_GZIP;
    if (head.len >= 4 && memcmp(head.data, "\x28\xb5\x2f\xfd", 4) == 0)
        return CODEC_ZSTD;
    return CODEC_NONE;
}

void unpacked_done(struct budget *b, struct unpacked *u)
{
    budget_free(b, u->data, u->cap);
    *u = (struct unpacked){0};
}

/* Makes room for `more` bytes beyond what is there, or twice as much if the budget has it. */
static bool unpacked_grow(struct budget *b, struct unpacked *u, size_t more)
{
    size_t need = u->len + more + PADDING, want = u->cap + u->cap / 2;
    size_t left = b->limit - b->used;

    if (need <= u->cap)
        return true;
    if (want < need)
        want = need;
    if (want - u->cap > left && need - u->cap <= left)
        want = u->cap + left;
    void *p = u->data;
    if (!budget_resize(b, &p, u->cap, want))
        return false;
    u->data = p;
    u->cap = want;
    return true;
}

/*
 * libdeflate wants room for a whole member. Its last four bytes say how long the (last) member is;
 * when that proves wrong or hostile, the room grows until the budget ends.
 */
size_t gzip_size_hint(struct bytes in)
{
    uint32_t size = 0;

    if (in.len >= 18)
        memcpy(&size, in.data + in.len - 4, 4);
    /* Deflate packs at most 1032:1. */
    return size > in.len * 1032 ? in.len * 4 : size;
}

static int unpack_gzip(struct bytes in, struct budget *b, struct unpacked *u, struct error *err)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    size_t offset = 0;
    int r = 0;

    if (!d)
        return error_set(err, -ENOMEM, "could not start gzip decompression: out of memory");
    size_t room = gzip_size_hint(in);
    while (offset < in.len) {
        if (offset > 0 && codec_detect(bytes_from(in, offset)) != CODEC_GZIP)
            break; /* padding or rubbish behind the last member is ignored, as gzip(1) does */
        if (!unpacked_grow(b, u, room)) {
            r = budget_error(b, err);
            break;
        }
        size_t used, got;
        enum libdeflate_result result =
            libdeflate_gzip_decompress_ex(d, in.data + offset, in.len - offset, u->data + u->len,
                                          u->cap - u->len - PADDING, &used, &got);
        if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
            room = (u->cap - u->len) * 2;
            size_t left = b->limit - b->used;
            if (room > left && left > 0)
                room = u->cap - u->len + left - PADDING;
            if (room <= u->cap - u->len)
                room = u->cap - u->len + 1;
            continue;
        }
        if (result != LIBDEFLATE_SUCCESS) {
            r = error_set(err, -EBADMSG, "gzip member at byte %zu is damaged or cut short", offset);
            break;
        }
        u->len += got;
        offset += used;
        room = 1;
    }
    libdeflate_free_decompressor(d);
    return r;
}

static int unpack_zstd(enum codec codec, struct bytes in, struct budget *b, struct unpacked *u,
                       struct error *err)
{
    CLEANUP(unpack_stream_freep) struct unpack_stream *s = unpack_stream_new(codec);
    unsigned long long size = ZSTD_getFrameContentSize(in.data, in.len);
    size_t room = size > in.len * 1000 ? in.len * 4 : (size_t)size;

    for (;;) {
        if (!unpacked_grow(b, u, room ? room : 1))
            return budget_error(b, err);
        ssize_t n =
            unpack_stream_read(s, &in, true, u->data + u->len, u->cap - u->len - PADDING, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return 0;
        u->len += (size_t)n;
        room = (size_t)64 << 10;
    }
}

int unpack(enum codec codec, struct bytes in, struct budget *b, struct unpacked *ret,
           struct error *err)
{
    struct unpacked u = {0};
    int r = codec == CODEC_GZIP ? unpack_gzip(in, b, &u, err) : unpack_zstd(codec, in, b, &u, err);

    if (r == 0 && !unpacked_grow(b, &u, 0))
        r = budget_error(b, err);
    if (r < 0) {
        unpacked_done(b, &u);
        return r;
    }
    memset(u.data + u.len, 0, PADDING);
    *ret = u;
    return 0;
}

struct unpack_stream {
    enum codec codec;
    z_stream zlib;
    ZSTD_DStream *zstd;
    bool in_frame; /* some of a member was read and its end was not */
    bool done;     /* what follows is padding */
};

struct unpack_stream *unpack_stream_new(enum codec codec)
{
    struct unpack_stream *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->codec = codec;
    if (codec == CODEC_GZIP && inflateInit2(&s->zlib, 15 + 16) != Z_OK)
        abort();
    if (codec >= CODEC_ZSTD && !(s->zstd = ZSTD_createDStream()))
        abort();
    if (codec == CODEC_ZSTD_HTTP)
        ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, HTTP_WINDOW_LOG);
    return s;
}

void unpack_stream_free(struct unpack_stream *s)
{
    if (!s)
        return;
    if (s->codec == CODEC_GZIP)
        inflateEnd(&s->zlib);
    ZSTD_freeDStream(s->zstd);
    free(s);
}

static ssize_t stream_gzip(struct unpack_stream *s, struct bytes *in, uint8_t *to, size_t size,
                           struct error *err)
{
    size_t chunk = in->len > UINT32_MAX ? UINT32_MAX : in->len;

    s->zlib.next_in = (uint8_t *)(uintptr_t)in->data;
    s->zlib.avail_in = (uInt)chunk;
    s->zlib.next_out = to;
    s->zlib.avail_out = (uInt)(size > UINT32_MAX ? UINT32_MAX : size);
    size_t room = s->zlib.avail_out;
    int z = inflate(&s->zlib, Z_NO_FLUSH);
    *in = bytes_from(*in, chunk - s->zlib.avail_in);
    s->in_frame = z != Z_STREAM_END;
    if (z == Z_STREAM_END) {
        inflateReset(&s->zlib);
        if (in->len > 0 && in->data[0] != 0x1f)
            s->done = true;
    } else if (z != Z_OK && z != Z_BUF_ERROR) {
        return error_set(err, -EBADMSG, "gzip content is damaged: %s",
                         s->zlib.msg ? s->zlib.msg : "unknown reason");
    }
    return (ssize_t)(room - s->zlib.avail_out);
}

static ssize_t stream_zstd(struct unpack_stream *s, struct bytes *in, uint8_t *to, size_t size,
                           struct error *err)
{
    ZSTD_inBuffer zin = {in->data, in->len, 0};
    ZSTD_outBuffer zout = {to, size, 0};
    size_t z = ZSTD_decompressStream(s->zstd, &zout, &zin);

    if (ZSTD_isError(z) && ZSTD_getErrorCode(z) == ZSTD_error_frameParameter_windowTooLarge)
        return error_set(err, -EBADMSG, "zstd content needs a window of more than %d MiB",
                         s->codec == CODEC_ZSTD_HTTP ? 1 << (HTTP_WINDOW_LOG - 20) : 128);
    if (ZSTD_isError(z))
        return error_set(err, -EBADMSG, "zstd content is damaged: %s", ZSTD_getErrorName(z));
    *in = bytes_from(*in, zin.pos);
    s->in_frame = z != 0;
    return (ssize_t)zout.pos;
}

ssize_t unpack_stream_read(struct unpack_stream *s, struct bytes *in, bool last, void *to,
                           size_t size, struct error *err)
{
    while (!s->done) {
        size_t before = in->len;
        if (before == 0 && !s->in_frame)
            return 0;
        ssize_t n = s->codec == CODEC_GZIP ? stream_gzip(s, in, to, size, err)
                                           : stream_zstd(s, in, to, size, err);
        if (n != 0)
            return n;
        if (in->len == before) {
            if (last && s->in_frame)
                return error_set(err, -EBADMSG, "compressed content is cut short");
            return 0;
        }
    }
    *in = bytes_from(*in, in->len);
    return 0;
}

void gzip_pack(struct bytes in, int level, struct buf *out)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
    if (!c)
        abort();
    size_t room = libdeflate_gzip_compress_bound(c, in.len);
    uint8_t *to = buf_reserve(out, room);
    if (to)
        out->len +=
            libdeflate_gzip_compress(c, in.data ? in.data : (const uint8_t *)"", in.len, to, room);
    libdeflate_free_compressor(c);
}
