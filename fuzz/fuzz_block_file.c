/*
 * A file of blocks. The input is the file but for its head and trailer, which are made to fit, with
 * the footer where the input says; the footer is then read as refs to other blocks, whose checksums
 * are made to hold. So everything behind a checksum is reached with hostile bytes. When the first
 * byte is even, the input is the whole file as it is.
 *
 * Links: segment, the simulated disk of the tests.
 */
#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "fuzz_fs.h"
#include "segment/block_file.h"
#include "segment/file_head.h"

#define ID      9
#define KIND    1
#define PATH    "seg/0000000009.seg"
#define TRAILER 72

/* A ref with a sum that holds if it lies inside the file. */
static struct block_ref mend(struct block_ref ref, struct bytes file)
{
    if (ref.offset <= file.len && ref.len <= file.len - ref.offset)
        ref.sum = checksum64(file.data + ref.offset, ref.len);
    return ref;
}

static void build(struct bytes in, struct buf *to)
{
    uint8_t head[FILE_HEAD_BYTES], t[TRAILER] = {0}, ref[BLOCK_REF_BYTES] = {0};

    (void)fuzz_take(&in, ref, 16);
    struct file_head fields = {.version = BLOCK_FILE_VERSION, .kind = KIND, .id = ID};
    file_head_encode("VSEG", fields, head);
    buf_add(to, head, sizeof(head));
    buf_add_bytes(to, in);
    block_ref_encode(mend(block_ref_decode(ref), buf_bytes(to)), t);
    le64_put(t + 24, checksum64(to->data, to->len)); /* inputs are shorter than a piece */
    le64_put(t + 32, to->len + TRAILER);
    le64_put(t + 40, ID);
    le16_put(t + 48, BLOCK_FILE_VERSION);
    le16_put(t + 50, KIND);
    le64_put(t + 56, 0x53444e4547455356u); /* "VSEGENDS" */
    le64_put(t + 64, checksum64(t, 64));
    buf_add(to, t, sizeof(t));
}

static struct block *read_block(struct block_file *f, struct block_ref ref)
{
    struct error err = {{0}};
    struct block *b = NULL;

    int r = block_file_read(f, ref, NULL, &b, &err);
    REQUIRE(r == 0 || ((r == -EBADMSG || r == -ENOMEM) && err.text[0] != '\0'));
    REQUIRE((r == 0) == (b != NULL));
    REQUIRE(r < 0 || b->len == block_ref_size(ref));
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(buf_done) struct buf file = {0};
    struct bytes in = {data, len};
    struct block_file *f = NULL;
    struct error err = {{0}};
    uint8_t mode = 0;

    (void)fuzz_take(&in, &mode, 1);
    if (mode % 2 && len < 200000)
        build(in, &file);
    else
        buf_add_bytes(&file, in);
    struct sim_fs *sim = fuzz_disk("seg", PATH, buf_bytes(&file));
    int r = block_file_open(sim_fs_fs(sim), "seg", ID, KIND, &f, &err);
    REQUIRE(r == 0 || ((r == -EBADMSG || r == -EPROTONOSUPPORT) && err.text[0] != '\0'));
    if (r == 0) {
        REQUIRE(block_file_check_all(f, NULL) == 0 || mode % 2 == 0);
        struct block *footer = read_block(f, block_file_footer(f));
        struct bytes refs = footer ? block_bytes(footer) : (struct bytes){0};
        uint8_t ref[BLOCK_REF_BYTES];
        for (size_t i = 0; i < 64 && fuzz_take(&refs, ref, sizeof(ref)); i++)
            block_unref(read_block(f, mend(block_ref_decode(ref), buf_bytes(&file))));
        block_unref(footer);
    }
    block_file_close(f);
    sim_fs_free(sim);
    return 0;
}
