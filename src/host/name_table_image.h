#pragma once

#include <stdint.h>

/*
 * The image of host/name_table.h, all numbers little-endian:
 *
 *     page 0     struct name_image_head
 *     text       names, as the linker knows them, and files; each ends at a NUL
 *     leaves     pages of NAME_LEAF_BYTES: struct name_leaf_head, then its entries by address
 *     index      u64 per leaf: the address that its entries count from, ascending
 *     parts      struct name_image_part: whose part an entry is that does not start a function
 *
 * Entries do not overlap: what holds others was cut into parts when the image was made.
 */
#define NAME_IMAGE_MAGIC "vesta-names-1\n\0"
#define NAME_LEAF_BYTES  4096

struct name_image_head {
    char magic[16];
    uint16_t entry_size; /* 12, or 20 with places */
    uint16_t flags;
    uint32_t n_parts;
    uint64_t n_entries, n_leaves;
    uint64_t text_at, text_len;
    uint64_t leaves_at, index_at, parts_at;
    uint64_t checksum; /* of what stands before it */
};
_Static_assert(sizeof(struct name_image_head) == 88, "no implicit padding");

#define NAME_IMAGE_IS_PLAIN 1 /* names are for people already */

struct name_leaf_head {
    uint32_t checksum; /* of the rest of the leaf */
    uint32_t n;
    uint64_t base; /* as in the index */
};

/* One range of addresses. In images with places `file` and `line` follow. */
struct name_image_entry {
    uint32_t start; /* from the leaf's address */
    uint32_t length;
    uint32_t name; /* in the text; with NAME_ENTRY_IS_PART the number of a part */
    uint32_t file; /* in the text, 0: none */
    uint32_t line;
};
#define NAME_ENTRY_IS_PART    0x80000000u /* of length */
#define NAME_ENTRY_SIZE       12
#define NAME_ENTRY_PLACE_SIZE 20

struct name_image_part {
    uint64_t start; /* of the function */
    uint32_t name;
    uint32_t pad;
};
_Static_assert(sizeof(struct name_image_part) == 16, "no implicit padding");
_Static_assert(sizeof(struct name_image_entry) == NAME_ENTRY_PLACE_SIZE, "no implicit padding");
