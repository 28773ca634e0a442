/*
 * No checksum helps here: it is linked (see tests/meson.build) with one that is the same for all
 * bytes, and with packing that packs nothing. Every change of a byte reaches those who decode it:
 * as rot that the checksum missed, or a file that somebody made. Answers may be wrong then, but
 * nothing crashes, hangs or reads what it must not; what can be told is told.
 */
#include "base/checksum.h"
#include "store_local/ask_all.h"
#include "store_local/backup.h"
#include "store_local/disk_bytes.h"
#include "store_local/small_store.h"
#include "wire/pack.h"

uint64_t __wrap_checksum64(const void *data, size_t len);
uint64_t __wrap_checksum64_seeded(const void *data, size_t len, uint64_t seed);
int __wrap_zstd_pack(struct bytes in, int level, struct buf *out);
int __wrap_zstd_unpack(struct bytes in, size_t original_len, void *to, struct error *err);

uint64_t __wrap_checksum64(const void *data, size_t len)
{
    (void)data, (void)len;
    return 77;
}

uint64_t __wrap_checksum64_seeded(const void *data, size_t len, uint64_t seed)
{
    (void)data, (void)len, (void)seed;
    return 77;
}

int __wrap_zstd_pack(struct bytes in, int level, struct buf *out)
{
    (void)level;
    buf_add_bytes(out, in);
    return 0;
}

int __wrap_zstd_unpack(struct bytes in, size_t original_len, void *to, struct error *err)
{
    if (in.len != original_len)
        return error_set(err, -EBADMSG, "the packed bytes are not as long as they should be");
    memcpy(to, in.data, in.len);
    return 0;
}

/* What becomes of a byte, by turns: one bit or all of them, none, the continuation of a number. */
static unsigned mask_of(uint64_t k)
{
    static const unsigned masks[] = {0x01, 0x80, 0xff, 0x04, 0x7f, 0x40, 0x02, 0x10};

    return masks[k % ARRAY_SIZE(masks)];
}

static void no_byte_crashes_whoever_verifies(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct findings found;
    struct fixture f;
    struct names all;
    unsigned n = 0, n_found = 0;

    make_small(t, &f, sim);
    list_files(sim, &all);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, kept_verify(&f, &found), 0);
    CHECK_STR(t, found.text, "");
    for (size_t i = 0; i < all.n; i++) {
        for (uint64_t k = 0; k < 2 * all.files[i].size; k++, n++) {
            unsigned mask = mask_of(k + k / 2 % 4 * 2);
            uint64_t byte = k / 2;
            flip(sim, all.files[i].path, byte, mask);
            n_found += kept_verify(&f, &found) < 0;
            flip(sim, all.files[i].path, byte, mask);
        }
    }
    printf("# %u of %u changes were found without checksums\n", n_found, n);
    CHECK(t, n_found > n / 4);
    fixture_close(&f);
}

static void no_byte_crashes_whoever_asks(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
    struct fixture f;
    struct names all;
    unsigned n_opened = 0, n = 0;

    make_small(t, &f, sim);
    list_files(sim, &all);
    for (size_t i = 0; i < all.n; i++) {
        for (uint64_t byte = i % 3; byte < all.files[i].size; byte += 3, n++) {
            unsigned mask = mask_of(n);
            flip(sim, all.files[i].path, byte, mask);
            int r = kept_open(&f, sim, true);
            if (r == 0) {
                n_opened++;
                r = ask_all(&f);
            }
            CHECK(t, r >= 0 || f.err.text[0] != '\0');
            fixture_close(&f);
            flip(sim, all.files[i].path, byte, mask);
        }
    }
    printf("# %u of %u could be opened\n", n_opened, n);
    CHECK(t, n_opened > n / 4);
}

/* Opens it to write, merges all there is, or repairs it first. */
static void go_on(struct test *t, struct sim_fs *sim, bool repairs)
{
    struct findings found = {0};
    struct fixture f;
    int r = 1;

    kept_init(&f);
    if (repairs && local_repair(sim_fs_fs(sim), note_finding, &found, &f.err) < 0) {
        CHECK(t, f.err.text[0] != '\0');
        return;
    }
    if (kept_open(&f, sim, false) == 0) {
        while (r > 0)
            r = store_upkeep(f.store, UPKEEP_SETTLE, &f.err);
        (void)ask_lists(&f);
    }
    fixture_close(&f);
}

static void no_byte_crashes_whoever_goes_on(struct test *t)
{
    struct fixture f;
    struct names all;
    uint64_t n_files = 1;

    for (uint64_t k = 0, i = 0; i < n_files; i++) {
        for (uint64_t byte = i * 7, size = 1; byte < size; byte += 29, k++) {
            CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
            make_small(t, &f, sim);
            list_files(sim, &all);
            n_files = all.n;
            size = all.files[i].size;
            flip(sim, all.files[i].path, byte, mask_of(k));
            go_on(t, sim, k % 2);
        }
    }
}

static const struct test_case cases[] = {
    TEST(no_byte_crashes_whoever_verifies),
    TEST(no_byte_crashes_whoever_asks),
    TEST(no_byte_crashes_whoever_goes_on),
};
TEST_MAIN(cases)
