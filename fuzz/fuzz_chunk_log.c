/*
 * A chunk log whose checksums are made to hold: the input is cut into chunks, with lengths and
 * unpacked lengths of its own choice. When the first byte is even, the input is the whole file as
 * it is. To what was built, one more chunk can be appended and is read back.
 *
 * Links: segment, the simulated disk of the tests.
 */
#include <errno.h>

#include "fuzz_fs.h"
#include "segment/chunk_log.h"
#include "segment/file_head.h"
#include "segment/frame.h"

#define ID   4
#define PATH "dict/0000000004.dict"

static const struct frame_kind kind = {{0xf9, 'V', 'C', 0x1d}, CHUNK_BYTES_MAX};

static void build(struct bytes in, struct buf *to)
{
    uint8_t head[FILE_HEAD_BYTES], f[7];

    file_head_encode("VCHK", (struct file_head){.version = CHUNK_LOG_VERSION, .id = ID}, head);
    buf_add(to, head, sizeof(head));
    while (fuzz_take(&in, f, sizeof(f))) {
        struct bytes payload = bytes_head(in, le16_get(f));
        in = bytes_from(in, payload.len);
        /* Large lengths cost time, so they are rare. */
        uint32_t tag = f[6] == 254 ? le32_get(f + 2) : le32_get(f + 2) & 0xffff;
        struct frame frame = {.number = to->len + (f[6] == 255), .tag = tag, .payload = payload};
        frame_add(&kind, ID, &frame, to);
    }
}

struct seen {
    uint64_t n;
    struct bytes last;
    bool is_last_right;
};

static int look(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct seen *seen = arg;

    (void)err;
    REQUIRE(offset >= FILE_HEAD_BYTES && payload.len <= CHUNK_BYTES_MAX);
    seen->n++;
    seen->is_last_right = bytes_equal(payload, seen->last);
    return 0;
}

static int look_at_list(void *arg, uint64_t offset, struct bytes list, struct error *err)
{
    struct seen *seen = arg;

    (void)err;
    REQUIRE(offset >= FILE_HEAD_BYTES && list.len <= CHUNK_BYTES_MAX);
    seen->n++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(buf_done) struct buf file = {0};
    struct bytes in = {data, len};
    struct chunk_report report, after;
    struct error err = {{0}};
    uint8_t mode = 0;

    (void)fuzz_take(&in, &mode, 1);
    if (mode % 2)
        build(in, &file);
    else
        buf_add_bytes(&file, in);
    struct sim_fs *sim = fuzz_disk("dict", PATH, buf_bytes(&file));
    struct chunk_log log = {sim_fs_fs(sim), PATH, ID};
    struct seen seen = {.last = bytes_head(in, 100)};
    struct chunk_visitor visitor = {look, &seen, look_at_list};
    uint64_t end = file.len;

    int r = chunk_log_read(&log, end, visitor, &report, &err);
    REQUIRE(r == 0 || (r == -EPROTONOSUPPORT && err.text[0] != '\0'));
    REQUIRE(report.n_chunks == seen.n && report.bad_bytes <= file.len);
    if (r == 0 && mode % 2) {
        seen.n = 0;
        REQUIRE(chunk_log_append(&log, end, seen.last, &end, NULL) == 0);
        REQUIRE(chunk_log_read(&log, end, visitor, &after, NULL) == 0);
        REQUIRE(after.n_chunks == report.n_chunks + 1 && seen.is_last_right);
    }
    sim_fs_free(sim);
    return 0;
}
