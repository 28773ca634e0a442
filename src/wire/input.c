#include "wire/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/vec.h"
#include "wire/inflate.h"

#define PADDING     16
#define CHUNK       ((size_t)256 << 10)
#define SMALL_BYTES (4 << 20)
#define LAYER_MAX   4 /* gzip within gzip exists in the wild; more than this is an attack */

struct input {
    struct budget *budget;
    char *name;

    /* The packed source: a descriptor read in chunks, or memory. */
    int fd;
    struct bytes memory;
    VEC(uint8_t) raw;  /* all that was read from fd and is still needed, padded */
    struct bytes rest; /* the part of raw (or memory) not yet consumed by the stream */
    uint64_t left;     /* how much of fd is ours: input_set_source() */
    bool ended;        /* fd is at its end */
    bool streaming;    /* input_read() was called: what was consumed need not be kept */

    /* The plain content. */
    bool started;
    struct unpack_stream *stream; /* NULL when the source is plain */
    struct unpacked layers;       /* content of unpacked outer layers */
    VEC(uint8_t) head;            /* what input_peek() read ahead */
    size_t head_pos;
    struct unpacked all;
    bool have_all;
    struct bytes whole;
    uint64_t limit, n_read; /* input_set_limit(); what source_read() has handed out */
};

static struct input *input_new(const char *name, struct budget *budget)
{
    struct input *in = calloc(1, sizeof(*in));
    if (!in || !(in->name = strdup(name)))
        abort();
    in->budget = budget;
    in->fd = -1;
    in->limit = UINT64_MAX;
    in->left = UINT64_MAX;
    return in;
}

int input_open(const char *path, struct budget *budget, struct input **ret, struct error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    CLEANUP(input_closep) struct input *in = input_new(is_stdin ? "standard input" : path, budget);
    struct stat st;

    in->fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0)
        return error_set(err, -errno, "could not open \"%s\": %m", in->name);
    if (fstat(in->fd, &st) < 0)
        return error_set(err, -errno, "could not stat \"%s\": %m", in->name);
    if (S_ISDIR(st.st_mode))
        return error_set(err, -EISDIR, "\"%s\" is a directory, not a profile", in->name);
    *ret = TAKE_PTR(in);
    return 0;
}

struct input *input_from_bytes(struct bytes content, const char *name, struct budget *budget)
{
    struct input *in = input_new(name, budget);
    in->memory = in->rest = content;
    in->ended = true;
    return in;
}

struct input *input_from_fd(int fd, const char *name, struct budget *budget)
{
    struct input *in = input_new(name, budget);
    in->fd = fd;
    return in;
}

void input_set_limit(struct input *in, uint64_t n)
{
    in->limit = n;
}

void input_set_source(struct input *in, uint64_t n)
{
    in->left = n;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->fd >= 0)
        close(in->fd);
    vec_done(in->budget, &in->raw);
    vec_done(in->budget, &in->head);
    unpacked_done(in->budget, &in->layers);
    unpacked_done(in->budget, &in->all);
    unpack_stream_free(in->stream);
    free(in->name);
    free(in);
}

const char *input_name(const struct input *in)
{
    return in->name;
}

/* Reads up to n more bytes behind what `raw` holds; sets `ended` at the end of the file. */
static int raw_read(struct input *in, size_t n, struct error *err)
{
    if (n > in->left)
        n = (size_t)in->left;
    if (!vec_reserve(in->budget, &in->raw, n + PADDING))
        return budget_error(in->budget, err);
    size_t target = in->raw.len + n;
    while (in->raw.len < target) {
        ssize_t got = read(in->fd, in->raw.data + in->raw.len, target - in->raw.len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, -errno, "could not read \"%s\": %m", in->name);
        if (got == 0) {
            in->ended = true;
            break;
        }
        in->raw.len += (size_t)got;
        in->left -= (uint64_t)got;
    }
    in->ended |= in->left == 0;
    memset(in->raw.data + in->raw.len, 0, PADDING);
    return 0;
}

/* Everything the descriptor still has, appended to what is unread. */
static int raw_read_all(struct input *in, struct error *err)
{
    struct stat st;
    size_t step = CHUNK;

    if (in->ended)
        return 0;
    size_t consumed = in->raw.len - in->rest.len;
    if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size > in->raw.len)
        step = (size_t)st.st_size - in->raw.len + 1;
    while (!in->ended) {
        int r = raw_read(in, step, err);
        if (r < 0)
            return r;
        step = CHUNK + in->raw.len / 2;
    }
    in->rest = (struct bytes){in->raw.data + consumed, in->raw.len - consumed};
    return 0;
}

/* The next chunk of the source in `rest`, which must be used up. */
static int raw_refill(struct input *in, struct error *err)
{
    if (in->ended || in->rest.len > 0)
        return 0;
    if (in->streaming)
        vec_clear(&in->raw);
    size_t from = in->raw.len;
    int r = raw_read(in, CHUNK, err);
    if (r < 0)
        return r;
    in->rest = (struct bytes){in->raw.data + from, in->raw.len - from};
    return 0;
}

/* Unpacks what `rest` holds, which is all of the source, and goes on with the content. */
static int unpack_layer(struct input *in, enum codec codec, struct error *err)
{
    struct unpacked inner;
    int r = unpack(codec, in->rest, in->budget, &inner, err);

    if (r < 0)
        return r;
    unpacked_done(in->budget, &in->layers);
    vec_done(in->budget, &in->raw);
    in->layers = inner;
    in->rest = (struct bytes){inner.data, inner.len};
    return 0;
}

/* Reads a gzip file that is small to its end. True when its content is small too: it is unpacked at
 * once then, which is twice as fast. */
static bool is_small(struct input *in, enum codec codec)
{
    struct stat st;

    if (codec != CODEC_GZIP)
        return false;
    if (!in->ended && fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size <= SMALL_BYTES / 4)
        (void)raw_read_all(in, NULL);
    return in->ended && gzip_size_hint(in->rest) <= SMALL_BYTES;
}

/* What the content below a layer is compressed with. Consumes nothing. */
static int detect_inner(const struct input *in, enum codec codec, enum codec *ret,
                        struct error *err)
{
    CLEANUP(unpack_stream_freep) struct unpack_stream *s = unpack_stream_new(codec);
    struct bytes probe = in->rest;
    uint8_t head[4];
    size_t n = 0;

    while (n < sizeof(head)) {
        ssize_t got = unpack_stream_read(s, &probe, in->ended, head + n, sizeof(head) - n, err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret = codec_detect((struct bytes){head, n});
    return 0;
}

/* Looks for compression. A second layer below the first is rare: the outer one is then unpacked
 * whole, and the innermost is the one that streams. */
static int start(struct input *in, struct error *err)
{
    if (in->started)
        return 0;
    int r = raw_refill(in, err);
    if (r < 0)
        return r;
    for (int layer = 0;; layer++) {
        enum codec codec = codec_detect(in->rest);
        if (codec == CODEC_NONE)
            break;
        if (layer == LAYER_MAX)
            return error_set(err, -EBADMSG, "compressed more than %d times over", LAYER_MAX);
        if (is_small(in, codec)) {
            if ((r = unpack_layer(in, codec, err)) < 0)
                return r;
            continue;
        }
        enum codec inner = CODEC_NONE;
        if ((r = detect_inner(in, codec, &inner, err)) < 0)
            return r;
        if (inner == CODEC_NONE) {
            in->stream = unpack_stream_new(codec);
            break;
        }
        if ((r = raw_read_all(in, err)) < 0 || (r = unpack_layer(in, codec, err)) < 0)
            return r;
    }
    in->started = true;
    return 0;
}

/* The next plain bytes from the source, past what input_peek() holds. */
static ssize_t source_next(struct input *in, uint8_t *to, size_t size, struct error *err)
{
    for (;;) {
        int r = raw_refill(in, err);
        if (r < 0)
            return r;
        if (!in->stream) {
            size_t n = in->rest.len < size ? in->rest.len : size;
            if (n > 0)
                memcpy(to, in->rest.data, n);
            in->rest = bytes_from(in->rest, n);
            return (ssize_t)n;
        }
        ssize_t n = unpack_stream_read(in->stream, &in->rest, in->ended, to, size, err);
        if (n != 0 || (in->rest.len == 0 && in->ended))
            return n;
    }
}

static ssize_t source_read(struct input *in, uint8_t *to, size_t size, struct error *err)
{
    ssize_t n = source_next(in, to, size, err);

    if (n > 0 && (uint64_t)n > in->limit - in->n_read)
        return error_set(err, -EFBIG, "the content is larger than %llu bytes",
                         (unsigned long long)in->limit);
    in->n_read += n > 0 ? (uint64_t)n : 0;
    return n;
}

int input_peek(struct input *in, struct bytes *ret, struct error *err)
{
    int r = start(in, err);
    if (r < 0)
        return r;
    if (in->have_all) {
        *ret = bytes_head(in->whole, INPUT_PEEK_BYTES);
        return 0;
    }
    if (!in->stream && in->ended) {
        *ret = bytes_head(in->rest, INPUT_PEEK_BYTES);
        return 0;
    }
    if (!vec_reserve(in->budget, &in->head, INPUT_PEEK_BYTES - in->head.len))
        return budget_error(in->budget, err);
    while (in->head.len < INPUT_PEEK_BYTES) {
        ssize_t n =
            source_read(in, in->head.data + in->head.len, INPUT_PEEK_BYTES - in->head.len, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        in->head.len += (size_t)n;
    }
    *ret = (struct bytes){in->head.data, in->head.len};
    return 0;
}

/* What was read ahead is unpacked again from the start: the raw bytes are all still there. */
static int read_everything(struct input *in, struct error *err)
{
    struct bytes source = in->memory;
    int r;

    if (in->layers.data) {
        source = (struct bytes){in->layers.data, in->layers.len};
    } else if (in->fd >= 0) {
        in->rest = (struct bytes){in->raw.data, in->raw.len};
        if ((r = raw_read_all(in, err)) < 0)
            return r;
        source = in->rest;
    } else if (!in->stream) {
        /* Borrowed memory has no padding behind it. */
        if (!vec_reserve(in->budget, &in->raw, source.len + PADDING))
            return budget_error(in->budget, err);
        vec_append(in->budget, &in->raw, source.data, source.len);
        memset(in->raw.data + in->raw.len, 0, PADDING);
        source = (struct bytes){in->raw.data, in->raw.len};
    }
    if (!in->stream) {
        in->whole = source;
        return 0;
    }
    if ((r = unpack(codec_detect(source), source, in->budget, &in->all, err)) < 0)
        return r;
    vec_done(in->budget, &in->raw);
    unpacked_done(in->budget, &in->layers);
    in->whole = (struct bytes){in->all.data, in->all.len};
    return 0;
}

int input_all(struct input *in, struct bytes *ret, struct error *err)
{
    int r = start(in, err);
    if (r == 0 && !in->have_all)
        r = read_everything(in, err);
    if (r < 0)
        return r;
    in->have_all = true;
    *ret = in->whole;
    return 0;
}

ssize_t input_read(struct input *in, void *to, size_t size, struct error *err)
{
    int r = start(in, err);
    if (r < 0)
        return r;
    in->streaming = true;
    size_t ahead = in->head.len - in->head_pos;
    if (ahead > 0) {
        size_t n = ahead < size ? ahead : size;
        memcpy(to, in->head.data + in->head_pos, n);
        in->head_pos += n;
        return (ssize_t)n;
    }
    return source_read(in, to, size, err);
}
