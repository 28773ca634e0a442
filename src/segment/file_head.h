#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"

/*
 * How every binary file of the store begins: magic of 4 bytes, u16 version, u16 kind (0 where there
 * is only one), u64 file id, u64 checksum64 of those 16 bytes.
 */
#define FILE_HEAD_BYTES 24

struct file_head {
    uint16_t version, kind;
    uint64_t id;
};

static inline void file_head_encode(const char magic[4], struct file_head head,
                                    uint8_t to[FILE_HEAD_BYTES])
{
    memcpy(to, magic, 4);
    le16_put(to + 4, head.version);
    le16_put(to + 6, head.kind);
    le64_put(to + 8, head.id);
    le64_put(to + 16, checksum64(to, 16));
}

/* NULL, or what is wrong with it. */
static inline const char *file_head_decode(const char magic[4], const uint8_t from[FILE_HEAD_BYTES],
                                           struct file_head *ret)
{
    if (memcmp(from, magic, 4) != 0)
        return "it does not begin as such a file does";
    if (le64_get(from + 16) != checksum64(from, 16))
        return "the checksum of its header does not hold";
    *ret = (struct file_head){
        .version = le16_get(from + 4), .kind = le16_get(from + 6), .id = le64_get(from + 8)};
    return NULL;
}
