/*
 * What lies in a spool may be anything: whatever is read is what a checksum vouches for, everything
 * else is passed over and removed, and what is put in afterwards comes out again.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "lib/sim_fs.h"
#include "relay/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    CLEANUP(spool_closep) struct spool *s = NULL;
    struct fs *fs = sim_fs_fs(sim);
    struct bytes in = {data, len};
    struct spool_item item = {.codec = CODEC_ZSTD, .raw_len = len, .packed = in};
    struct spool_counts c;

    REQUIRE(fs_mkdir(fs, "x", NULL) == 0);
    REQUIRE(fs_write_whole(fs, "x/0000000000000001.otlp", bytes_head(in, len / 2), NULL) == 0);
    REQUIRE(fs_write_whole(fs, "x/ffffffffffffffff.otlp", bytes_from(in, len / 2), NULL) == 0);
    REQUIRE(fs_write_whole(fs, "x/0000000000000002.otlp", in, NULL) == 0);
    REQUIRE(spool_open(fs, "x", 1 << 20, &s, NULL) == 0);
    int r = spool_put(s, &item, NULL);
    REQUIRE(r == 0 || r == -EFBIG);
    for (int left = 10; spool_peek(s, &item); spool_remove(s, item.number)) {
        REQUIRE(left-- > 0);
        REQUIRE(item.codec == CODEC_GZIP || item.codec == CODEC_ZSTD);
    }
    spool_counts(s, &c);
    REQUIRE(c.files == 0 && c.bytes == 0);
    return 0;
}
