/*
 * Any bytes as an image of names. Checksums of the head and of the first leaves are made right, so
 * that what they guard is reached. No crash, no leak; what is found is text.
 *
 * Links: host.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/le.h"
#include "fuzz.h"
#include "host/name_table.h"
#include "host/name_table_image.h"

#define LEAVES_FIXED 16

static void make_right(uint8_t *data, size_t len)
{
    size_t checksum_at = offsetof(struct name_image_head, checksum);
    size_t leaves_at = offsetof(struct name_image_head, leaves_at);

    if (len < sizeof(struct name_image_head))
        return;
    memcpy(data, NAME_IMAGE_MAGIC, 16);
    le64_put(data + checksum_at, checksum64(data, checksum_at));
    uint64_t at = le64_get(data + leaves_at);
    for (int i = 0; i < LEAVES_FIXED && len >= NAME_LEAF_BYTES && at <= len - NAME_LEAF_BYTES;
         i++, at += NAME_LEAF_BYTES)
        le32_put(data + at, (uint32_t)checksum64(data + at + 4, NAME_LEAF_BYTES - 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int fd = memfd_create("names", MFD_CLOEXEC);
    CLEANUP(freep) uint8_t *image = malloc(len + 1);
    struct name_table *t = NULL;
    struct name_found f = {0};
    struct error err = {{0}};

    REQUIRE(fd >= 0 && image);
    if (len > 0)
        memcpy(image, data, len);
    make_right(image, len);
    REQUIRE(write(fd, image, len) == (ssize_t)len);
    if (name_table_open(fd, &t, &err) < 0) {
        REQUIRE(err.text[0] != '\0');
        return 0;
    }
    for (uint64_t va = 0; va < 1 << 16; va += 251) {
        if (name_table_find(t, va, &f))
            REQUIRE(f.name.len > 0);
    }
    name_table_find(t, UINT64_MAX, &f);
    name_table_close(t);
    name_found_done(&f);
    return 0;
}
