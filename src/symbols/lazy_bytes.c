#include "symbols/lazy_bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define THERE_MAX (((size_t)4 << 20) / LAZY_PIECE)

static size_t pieces_of(size_t size)
{
    return size / LAZY_PIECE + 1;
}

int lazy_bytes_open(struct lazy_bytes *l, const struct elf_file *f, uint64_t offset, uint64_t size,
                    struct error *err)
{
    if (offset > f->size || size > f->size - offset)
        return error_set(err, -EBADMSG, "ELF at byte %ju: a section runs past the end of the file",
                         (uintmax_t)offset);
    uint8_t *is_there = calloc(pieces_of((size_t)size), 1);
    void *data = mmap(NULL, (size_t)size + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED || !is_there) {
        if (data != MAP_FAILED)
            munmap(data, (size_t)size + 1);
        free(is_there);
        return error_set(err, -ENOMEM, "out of memory for a section of %ju bytes", (uintmax_t)size);
    }
    *l = (struct lazy_bytes){
        .file = f, .offset = offset, .data = data, .size = (size_t)size, .is_there = is_there};
    return 0;
}

void lazy_bytes_close(struct lazy_bytes *l)
{
    if (l->data)
        munmap(l->data, l->size + 1);
    free(l->is_there);
    *l = (struct lazy_bytes){0};
}

static void read_piece(struct lazy_bytes *l, size_t piece)
{
    size_t at = piece * LAZY_PIECE;
    size_t n = l->size - at < LAZY_PIECE ? l->size - at : LAZY_PIECE;

    if (elf_read_into(l->file, l->offset + at, l->data + at, n, NULL) < 0)
        l->failed = true;
    l->is_there[piece] = 1;
    l->n_there++;
}

void lazy_bytes_need(struct lazy_bytes *l, const uint8_t *p, size_t n)
{
    if (n == 0 || p < l->data || p >= l->data + l->size)
        return;
    size_t at = (size_t)(p - l->data), left = l->size - at;
    size_t last = (at + (n < left ? n : left) - 1) / LAZY_PIECE;

    for (size_t piece = at / LAZY_PIECE; piece <= last; piece++) {
        if (!l->is_there[piece])
            read_piece(l, piece);
    }
}

void lazy_bytes_trim(struct lazy_bytes *l)
{
    if (l->n_there <= THERE_MAX || madvise(l->data, l->size + 1, MADV_DONTNEED) < 0)
        return;
    memset(l->is_there, 0, pieces_of(l->size));
    l->n_there = 0;
}
