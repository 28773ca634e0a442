#include "lib/sim_fs.h"
#include "lib/test.h"
#include "relay/file_names.h"

static void put(struct sim_fs *sim, const char *name, size_t size)
{
    CLEANUP(buf_done) struct buf content = {0};

    while (content.len < size)
        buf_add_byte(&content, 'x');
    (void)fs_write_whole(sim_fs_fs(sim), name, buf_bytes(&content), NULL);
}

static bool is_there(struct sim_fs *sim, const char *name)
{
    return fs_exists(sim_fs_fs(sim), name, NULL) == 1;
}

static void the_oldest_go_and_others_files_stay(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct file_names f = {.keep = 250};

    /* By the time in the name, not by the name. */
    put(sim, "zebra-cpu-20260101T000000.000Z.pb.gz", 90);
    put(sim, "zebra-cpu-20260101T000000.000Z.pb.gz.json", 10);
    put(sim, "ant-cpu-20260102T000000.000Z.pb.gz", 90);
    put(sim, "ant-cpu-20260102T000000.000Z-2.pb.gz", 50);
    put(sim, "profiles-20260103T000000.000Z.otlp.gz", 60);
    put(sim, "notes.txt", 1000);
    put(sim, "ant-cpu-20260102T000000.000Z.pb.gz.bak", 1000);
    put(sim, "ant-cpu-20260102T00000.000Z.pb.gz", 1000);
    CHECK_INT(t, file_names_read(&f, sim_fs_fs(sim), NULL), 0);
    CHECK_INT(t, f.bytes, 300);
    file_names_cut(&f, sim_fs_fs(sim));
    CHECK_INT(t, f.bytes, 200);
    CHECK(t, !is_there(sim, "zebra-cpu-20260101T000000.000Z.pb.gz"));
    CHECK(t, !is_there(sim, "zebra-cpu-20260101T000000.000Z.pb.gz.json"));
    CHECK(t, is_there(sim, "ant-cpu-20260102T000000.000Z.pb.gz"));
    CHECK(t, is_there(sim, "notes.txt"));
    CHECK(t, is_there(sim, "ant-cpu-20260102T000000.000Z.pb.gz.bak"));
    CHECK(t, is_there(sim, "ant-cpu-20260102T00000.000Z.pb.gz"));
    file_names_done(&f);
}

static void the_folder_stays_under_its_size_as_files_come(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
    struct file_names f = {.keep = 1000};
    char name[80];

    CHECK_INT(t, file_names_read(&f, sim_fs_fs(sim), NULL), 0);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "s-cpu-20260101T%02d%02d%02d.000Z.pb.gz", i / 3600,
                 i / 60 % 60, i % 60);
        put(sim, name, 100);
        file_names_add(&f, name, 100);
        file_names_cut(&f, sim_fs_fs(sim));
        CHECK(t, f.bytes <= 1000);
    }
    CHECK_INT(t, f.removed, 490);
    CHECK(t, is_there(sim, name));
    file_names_done(&f);
}

static void a_folder_without_a_limit_keeps_all(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct file_names f = {0};

    put(sim, "s-cpu-20260101T000000.000Z.pb.gz", 100);
    put(sim, "s-cpu-20260101T000001.000Z.pb.gz", 100);
    put(sim, "s-cpu-20260101T000002.000Z.pb.gz", 100);
    CHECK_INT(t, file_names_read(&f, sim_fs_fs(sim), NULL), 0);
    file_names_cut(&f, sim_fs_fs(sim));
    CHECK_INT(t, f.removed, 0);
    file_names_done(&f);
}

static const struct test_case cases[] = {
    TEST(the_oldest_go_and_others_files_stay),
    TEST(the_folder_stays_under_its_size_as_files_come),
    TEST(a_folder_without_a_limit_keeps_all),
};
TEST_MAIN(cases)
