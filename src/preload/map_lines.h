#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line of /proc/self/maps. */
struct map_line {
    uint64_t start, end, offset, inode;
    bool can_read, can_run;
    const char *path; /* not ended by 0 */
    size_t path_len;
};

/* False when it is none. " (deleted)" is taken off its path. */
bool map_line_parse(const char *text, size_t n, struct map_line *ret);

/* What an ELF image in memory says about its code. */
#define IMAGE_PARTS_MAX 4
struct code_image {
    uint64_t base, end; /* in memory */
    uint64_t bias;
    struct image_part {
        uint64_t start, end, file_offset;
        bool is_mapped;
    } parts[IMAGE_PARTS_MAX]; /* executable */
    uint32_t n_parts;
    uint64_t tables, tables_start, tables_end; /* .eh_frame_hdr and its segment; 0: none */
    uint64_t build_id_at;                      /* in memory; 0: none */
    uint8_t build_id_len;
    uint8_t build_id[32];
};

/*
 * Reads memory that another thread may unmap meanwhile, all of it or nothing. `memory` is
 * /proc/self/mem, or -1 where that cannot be opened: so it is in processes that may not be traced.
 */
bool image_bytes(int memory, uint64_t at, void *to, size_t n);

/* Reads the headers of the image that starts with this mapping; false when there is none. */
bool image_read(const struct map_line *m, int memory, struct code_image *ret);
