#include "symbols/minidebuginfo.h"

#include <errno.h>
#include <lzma.h>

#define XZ_MEMORY_MAX ((uint64_t)128 << 20)

/* The unpacked size as the index at the end of the file says; it only sizes the buffer. */
static int unpacked_size(struct bytes in, size_t *ret, struct error *err)
{
    lzma_stream_flags flags;
    lzma_index *index = NULL;
    uint64_t limit = XZ_MEMORY_MAX;
    size_t at = 0;

    if (in.len < (size_t)2 * LZMA_STREAM_HEADER_SIZE ||
        lzma_stream_footer_decode(&flags, in.data + in.len - LZMA_STREAM_HEADER_SIZE) != LZMA_OK ||
        flags.backward_size > in.len - LZMA_STREAM_HEADER_SIZE)
        return error_set(err, -EBADMSG, "mini debug info: not a whole xz file");
    const uint8_t *from = in.data + in.len - LZMA_STREAM_HEADER_SIZE - flags.backward_size;
    if (lzma_index_buffer_decode(&index, &limit, NULL, from, &at, (size_t)flags.backward_size) !=
        LZMA_OK)
        return error_set(err, -EBADMSG, "mini debug info: damaged xz index");
    uint64_t size = lzma_index_uncompressed_size(index);
    lzma_index_end(index, NULL);
    if (size > MINIDEBUGINFO_MAX)
        return error_set(err, -ENOBUFS, "mini debug info: unpacks to %ju bytes, the limit is %zu",
                         (uintmax_t)size, MINIDEBUGINFO_MAX);
    *ret = (size_t)size;
    return 0;
}

int minidebuginfo_open(struct elf_file *f, struct elf_file **ret, struct error *err)
{
    const struct elf_section *s = elf_find_section(f, ".gnu_debugdata");
    struct bytes in;
    size_t size = 0, in_at = 0, out_at = 0;
    uint64_t limit = XZ_MEMORY_MAX;

    if (!s)
        return error_set(err, -ENOENT, "it has no mini debug info");
    int r = elf_section_bytes(f, s, &in, err);
    if (r >= 0)
        r = unpacked_size(in, &size, err);
    if (r < 0)
        return r;
    uint8_t *out = arena_new(&f->arena, uint8_t, size + 1);
    if (!out)
        return budget_error(f->budget, err);
    lzma_ret x =
        lzma_stream_buffer_decode(&limit, 0, NULL, in.data, &in_at, in.len, out, &out_at, size);
    if (x != LZMA_OK)
        return error_set(err, -EBADMSG, "mini debug info: damaged xz data (code %d)", (int)x);
    return elf_from_bytes((struct bytes){out, out_at}, "mini debug info", f->budget, ret, err);
}
