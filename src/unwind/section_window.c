#include "unwind/section_window.h"

#include <errno.h>
#include <unistd.h>

int section_window_open(struct section_window *w, struct elf_file *f, uint64_t offset,
                        uint64_t size, struct error *err)
{
    struct bytes all = {0};

    *w = (struct section_window){0};
    if (offset > f->size || size > f->size - offset)
        return error_set(err, -EBADMSG, "ELF at byte %ju: a section runs past the end of the file",
                         (uintmax_t)offset);
    if (f->fd < 0) {
        all = (struct bytes){f->memory.data + offset, (size_t)size};
        section_window_of(w, f, all);
        return 0;
    }
    void *piece = NULL;
    if (!budget_resize(f->budget, &piece, 0, SECTION_WINDOW_BYTES))
        return budget_error(f->budget, err);
    *w = (struct section_window){.file = f, .offset = offset, .size = size, .piece = piece};
    return 0;
}

void section_window_of(struct section_window *w, struct elf_file *f, struct bytes all)
{
    *w = (struct section_window){.file = f, .size = all.len, .all = all};
}

void section_window_close(struct section_window *w)
{
    if (w->piece)
        budget_free(w->file->budget, w->piece, SECTION_WINDOW_BYTES);
    *w = (struct section_window){0};
}

static int read_exactly(const struct section_window *w, uint64_t at, uint8_t *to, size_t n,
                        struct error *err)
{
    uint64_t offset = w->offset + at;

    while (n > 0) {
        ssize_t got = pread(w->file->fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, -errno, "could not read at byte %ju: %m", (uintmax_t)offset);
        if (got == 0)
            return error_set(err, -EBADMSG, "could not read at byte %ju: the file was cut short",
                             (uintmax_t)offset);
        to += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static size_t within(const struct section_window *w, uint64_t at, size_t n)
{
    uint64_t left = at < w->size ? w->size - at : 0;
    return n < left ? n : (size_t)left;
}

int section_window_get(struct section_window *w, uint64_t at, size_t n, struct bytes *ret,
                       struct error *err)
{
    n = within(w, at, n);
    if (!w->piece) {
        *ret = (struct bytes){w->all.data + (n > 0 ? at : 0), n};
        return 0;
    }
    if (at < w->piece_at || at + n > w->piece_at + w->piece_len) {
        size_t take = within(w, at, SECTION_WINDOW_BYTES);
        w->piece_len = 0;
        int r = read_exactly(w, at, w->piece, take, err);
        if (r < 0)
            return r;
        w->piece_at = at;
        w->piece_len = take;
    }
    *ret = (struct bytes){w->piece + (at - w->piece_at), n};
    return 0;
}

int section_window_copy(struct section_window *w, uint64_t at, size_t n, uint8_t *to,
                        struct bytes *ret, struct error *err)
{
    n = within(w, at, n);
    if (w->piece) {
        int r = read_exactly(w, at, to, n, err);
        if (r < 0)
            return r;
    } else if (n > 0) {
        memcpy(to, w->all.data + at, n);
    }
    *ret = (struct bytes){to, n};
    return 0;
}
