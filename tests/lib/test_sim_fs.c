#include <errno.h>

#include "base/checksum.h"
#include "base/random.h"
#include "lib/scratch.h"
#include "lib/sim_fs.h"
#include "lib/test.h"

#define SIM(sim, its_fs, seed)                                                                     \
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(seed);                                   \
    struct fs *its_fs = sim_fs_fs(sim)

static struct fs_file *open_it(struct fs *fs, const char *path)
{
    struct fs_file *file = NULL;

    (void)fs_open(fs, path, FS_WRITE | FS_CREATE, &file, NULL);
    return file;
}

/* Makes a file, synced or not; its name is not. */
static void make(struct fs *fs, const char *path, const char *text, bool is_synced)
{
    CLEANUP(fs_closep) struct fs_file *file = open_it(fs, path);

    (void)fs_pwrite(file, text, strlen(text), 0, NULL);
    if (is_synced)
        (void)fs_sync(file, NULL);
}

static void make_durable(struct fs *fs, const char *path, const char *text)
{
    make(fs, path, text, true);
    (void)fs_sync_dir(fs, ".", NULL);
}

/* The content in a buffer until the next call, or NULL when it cannot be read. */
static const char *content(struct fs *fs, const char *path)
{
    static char text[100000];
    CLEANUP(buf_done) struct buf b = {0};

    if (fs_read_all(fs, path, sizeof(text) - 1, &b, NULL) < 0)
        return NULL;
    snprintf(text, sizeof(text), "%s", buf_cstr(&b));
    return text;
}

static int add_name(void *arg, const char *name, bool is_dir)
{
    buf_addf(arg, "%s%s ", name, is_dir ? "/" : "");
    return 0;
}

/* What may come of something over many seeds: how often each outcome was seen. */
struct outcomes {
    char seen[40][64];
    int times[40];
    int n;
};

static void outcome_add(struct outcomes *o, const char *what)
{
    int i = 0;

    while (i < o->n && strcmp(o->seen[i], what) != 0)
        i++;
    if (i == 40)
        return;
    if (i == o->n)
        snprintf(o->seen[o->n++], sizeof(o->seen[0]), "%s", what);
    o->times[i]++;
}

static int outcome_times(const struct outcomes *o, const char *what)
{
    for (int i = 0; i < o->n; i++) {
        if (strcmp(o->seen[i], what) == 0)
            return o->times[i];
    }
    return 0;
}

/* All that was seen is among the n expected, and each of them was. */
static void check_outcomes(struct test *t, const struct outcomes *o, const char *const *want, int n)
{
    for (int i = 0; i < n; i++) {
        CHECK(t, outcome_times(o, want[i]) > 0);
        if (outcome_times(o, want[i]) == 0)
            printf("# never seen: \"%s\"\n", want[i]);
    }
    CHECK_INT(t, o->n, n);
    for (int i = 0; o->n != n && i < o->n; i++)
        printf("# seen: \"%s\"\n", o->seen[i]);
}

#define CHECK_OUTCOMES(t, o, ...)                                                                  \
    check_outcomes((t), (o), (const char *const[]){__VA_ARGS__},                                   \
                   (int)ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

static void what_was_synced_survives_every_crash(struct test *t)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "synced");
        sim_fs_crash(sim);
        CHECK(t, sim_fs_is_down(sim));
        sim_fs_restart(sim);
        CHECK(t, !sim_fs_is_down(sim));
        CHECK_STR(t, content(fs, "a"), "synced");
    }
}

static void a_name_needs_a_sync_of_its_directory(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        make(fs, "a", "synced", true);
        sim_fs_restart(sim);
        const char *got = content(fs, "a");
        outcome_add(&o, got ? got : "(none)");
    }
    CHECK_OUTCOMES(t, &o, "synced", "(none)");
}

static void a_name_may_survive_without_the_bytes(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 400; seed++) {
        SIM(sim, fs, seed);
        make(fs, "a", "xy", false);
        fs_sync_dir(fs, ".", NULL);
        sim_fs_restart(sim);
        char shown[64] = "";
        CLEANUP(buf_done) struct buf b = {0};
        CHECK_INT(t, fs_read_all(fs, "a", 10, &b, NULL), 0);
        for (size_t i = 0; i < b.len; i++)
            shown[i] = b.data[i] ? (char)b.data[i] : '0';
        outcome_add(&o, shown);
    }
    CHECK_OUTCOMES(t, &o, "xy", "", "x", "0y", "00", "x0");
}

static void writes_survive_in_any_combination(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 400; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "---");
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_pwrite(file, "1", 1, 0, NULL);
        fs_pwrite(file, "2", 1, 1, NULL);
        fs_pwrite(file, "3", 1, 2, NULL);
        sim_fs_restart(sim);
        CLEANUP(buf_done) struct buf b = {0};
        CHECK_INT(t, fs_read_all(fs, "a", 10, &b, NULL), 0);
        CHECK_INT(t, b.len, 3);
        for (size_t i = 0; i < b.len; i++)
            CHECK(t, b.data[i] == '-' || b.data[i] == '1' + i || b.data[i] == 0);
        outcome_add(&o, buf_cstr(&b));
    }
    CHECK(t, outcome_times(&o, "---") > 50);
    CHECK(t, outcome_times(&o, "123") > 50);
    CHECK(t, outcome_times(&o, "1--") > 0 && outcome_times(&o, "12-") > 0);
    CHECK(t, outcome_times(&o, "--3") > 0 && outcome_times(&o, "1-3") > 0);
}

static void large_writes_are_torn_at_sectors(struct test *t)
{
    static char page[16384];
    int n_torn = 0;

    memset(page, 'n', sizeof(page));
    for (uint64_t seed = 0; seed < 300; seed++) {
        SIM(sim, fs, seed);
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_sync_dir(fs, ".", NULL);
        fs_pwrite(file, page, sizeof(page), 0, NULL);
        sim_fs_restart(sim);
        CLEANUP(buf_done) struct buf b = {0};
        CHECK_INT(t, fs_read_all(fs, "a", sizeof(page), &b, NULL), 0);
        for (size_t i = 1; i < b.len; i++) {
            CHECK(t, b.data[i] == 0 || b.data[i] == 'n');
            n_torn += b.data[i] != b.data[i - 1];
        }
    }
    CHECK(t, n_torn > 20);
}

static void a_truncate_survives_or_not(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "long text");
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_truncate(file, 4, NULL);
        CHECK_STR(t, content(fs, "a"), "long");
        sim_fs_restart(sim);
        outcome_add(&o, content(fs, "a"));
    }
    CHECK_OUTCOMES(t, &o, "long", "long text");
}

/* What is durable of a and b, in one line. */
static void add_pair(struct outcomes *o, struct fs *fs, const char *a, const char *b)
{
    char text[64];
    const char *got = content(fs, a);

    int n = snprintf(text, sizeof(text), "%s ", got ? got : "-");
    got = content(fs, b);
    snprintf(text + n, sizeof(text) - (size_t)n, "%s", got ? got : "-");
    outcome_add(o, text);
}

static void a_rename_replaces_at_once_or_not_at_all(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "to", "old");
        make(fs, "tmp", "new", true);
        CHECK_INT(t, fs_rename(fs, "tmp", "to", NULL), 0);
        CHECK_STR(t, content(fs, "to"), "new");
        sim_fs_restart(sim);
        add_pair(&o, fs, "tmp", "to");
    }
    CHECK_OUTCOMES(t, &o, "- old", "new old", "- new");
}

static void changes_of_different_names_survive_out_of_order(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        make(fs, "a", "A", true);
        make(fs, "b", "B", true);
        sim_fs_restart(sim);
        add_pair(&o, fs, "a", "b");
    }
    CHECK_OUTCOMES(t, &o, "- -", "A -", "- B", "A B");
}

static void changes_of_one_name_survive_in_order(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 300; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "1");
        fs_rename(fs, "a", "b", NULL);
        make(fs, "a", "2", true);
        sim_fs_restart(sim);
        add_pair(&o, fs, "a", "b");
    }
    CHECK_OUTCOMES(t, &o, "1 -", "- 1", "2 1");
}

static void a_removed_file_may_come_back(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "A");
        CHECK_INT(t, fs_unlink(fs, "a", NULL), 0);
        CHECK_INT(t, fs_exists(fs, "a", NULL), 0);
        if (seed % 2)
            fs_sync_dir(fs, ".", NULL);
        sim_fs_restart(sim);
        const char *got = content(fs, "a");
        CHECK(t, seed % 2 == 0 || !got);
        outcome_add(&o, got ? got : "-");
    }
    CHECK_OUTCOMES(t, &o, "A", "-");
}

static void a_link_outlives_the_first_name(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "A");
        CHECK_INT(t, fs_mkdir(fs, "d", NULL), 0);
        fs_sync_dir(fs, ".", NULL);
        CHECK_INT(t, fs_link(fs, "a", "d/b", NULL), 0);
        fs_sync_dir(fs, "d", NULL);
        CHECK_INT(t, fs_unlink(fs, "a", NULL), 0);
        sim_fs_restart(sim);
        add_pair(&o, fs, "a", "d/b");
    }
    CHECK_OUTCOMES(t, &o, "A A", "- A");
}

static void a_file_moved_between_directories_is_never_lost(struct test *t)
{
    struct outcomes o[3] = {0};

    for (uint64_t seed = 0; seed < 600; seed++) {
        SIM(sim, fs, seed);
        fs_mkdir(fs, "d", NULL);
        make_durable(fs, "a", "A");
        CHECK_INT(t, fs_rename(fs, "a", "d/a", NULL), 0);
        if (seed % 3 == 1)
            fs_sync_dir(fs, "d", NULL);
        if (seed % 3 == 2)
            fs_sync_dir(fs, ".", NULL);
        sim_fs_restart(sim);
        add_pair(&o[seed % 3], fs, "a", "d/a");
    }
    CHECK_OUTCOMES(t, &o[0], "A -", "A A");
    CHECK_OUTCOMES(t, &o[1], "A A", "- A");
    CHECK_OUTCOMES(t, &o[2], "- A");
}

static void a_lost_directory_takes_its_files_along(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        CHECK_INT(t, fs_mkdir(fs, "d", NULL), 0);
        make(fs, "d/a", "A", true);
        fs_sync_dir(fs, "d", NULL);
        sim_fs_restart(sim);
        const char *got = content(fs, "d/a");
        CHECK_INT(t, fs_exists(fs, "d", NULL), got != NULL);
        outcome_add(&o, got ? got : "-");
    }
    CHECK_OUTCOMES(t, &o, "A", "-");
}

static void a_killed_process_loses_nothing_it_wrote(struct test *t)
{
    SIM(sim, fs, 1);
    struct outcomes o = {0};

    make(fs, "a", "never synced", false);
    sim_fs_kill(sim);
    CHECK_INT(t, fs_exists(fs, "a", NULL), -EIO);
    sim_fs_restart(sim);
    CHECK_STR(t, content(fs, "a"), "never synced");

    /* Nor has it made anything durable. */
    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(other, fs2, seed);
        make(fs2, "a", "A", true);
        sim_fs_kill(other);
        sim_fs_restart(other);
        sim_fs_crash(other);
        sim_fs_kill(other);
        sim_fs_restart(other);
        const char *got = content(fs2, "a");
        outcome_add(&o, got ? got : "-");
    }
    CHECK_OUTCOMES(t, &o, "A", "-");
}

static void nothing_works_while_the_machine_is_down(struct test *t)
{
    SIM(sim, fs, 1);
    struct fs_file *file = open_it(fs, "a"), *other = NULL;
    struct error err;
    uint64_t n, before = sim_fs_count(sim, SIM_ANY);
    char c;

    sim_fs_crash(sim);
    CHECK_INT(t, fs_pwrite(file, "x", 1, 0, &err), -EIO);
    CHECK_STR(t, err.text, "could not write \"a\": Input/output error (the machine is down)");
    CHECK_INT(t, fs_pread(file, &c, 1, 0, NULL), -EIO);
    CHECK_INT(t, fs_sync(file, NULL), -EIO);
    CHECK_INT(t, fs_truncate(file, 0, NULL), -EIO);
    CHECK_INT(t, fs_size(file, &n, NULL), -EIO);
    CHECK_INT(t, fs_lock(file, NULL), -EIO);
    CHECK_INT(t, fs_open(fs, "b", FS_WRITE | FS_CREATE, &other, NULL), -EIO);
    CHECK_INT(t, fs_rename(fs, "a", "b", NULL), -EIO);
    CHECK_INT(t, fs_unlink(fs, "a", NULL), -EIO);
    CHECK_INT(t, fs_mkdir(fs, "d", NULL), -EIO);
    CHECK_INT(t, fs_link(fs, "a", "b", NULL), -EIO);
    CHECK_INT(t, fs_sync_dir(fs, ".", NULL), -EIO);
    CHECK_INT(t, fs_list(fs, ".", add_name, NULL, NULL), -EIO);
    CHECK_INT(t, fs_path_size(fs, "a", &n, NULL), -EIO);
    CHECK_INT(t, fs_space(fs, &n, &n, NULL), -EIO);
    CHECK_INT(t, sim_fs_count(sim, SIM_ANY), before);
    CHECK(t, !other);

    /* A file that was open then stays dead. */
    sim_fs_restart(sim);
    CHECK_INT(t, fs_pread(file, &c, 1, 0, &err), -EIO);
    CHECK_INT(t, fs_sync(file, &err), -EIO);
    fs_close(file);
}

static void the_nth_operation_fails(struct test *t)
{
    SIM(sim, fs, 1);
    CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
    struct error err;

    sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE, .nth = 2, .error = ENOSPC});
    CHECK_INT(t, fs_pwrite(file, "1", 1, 0, &err), 0);
    CHECK_INT(t, fs_pwrite(file, "2", 1, 1, &err), -ENOSPC);
    CHECK_STR(t, err.text, "could not write \"a\": No space left on device");
    CHECK_INT(t, fs_pwrite(file, "3", 1, 1, &err), 0);
    CHECK_STR(t, content(fs, "a"), "13");
    CHECK_INT(t, sim_fs_struck(sim), 1);
    CHECK_INT(t, sim_fs_count(sim, SIM_WRITE), 3);

    sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE, .nth = 1});
    CHECK_STR(t, content(fs, "a"), "13");
    CHECK_INT(t, fs_unlink(fs, "a", &err), -EIO);
    sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY, .nth = 1, .error = EDQUOT});
    CHECK_INT(t, fs_exists(fs, "a", &err), -EDQUOT);
    CHECK_STR(t, err.text, "could not get the size of \"a\": Disk quota exceeded");

    sim_fs_fault(sim, (struct sim_fault){.op = SIM_RENAME, .nth = 1, .is_lasting = true});
    CHECK_INT(t, fs_rename(fs, "a", "b", &err), -EIO);
    CHECK_INT(t, fs_rename(fs, "a", "b", &err), -EIO);
    sim_fs_clear_faults(sim);
    CHECK_INT(t, fs_rename(fs, "a", "b", &err), 0);
    CHECK_STR(t, sim_op_name(SIM_RENAME), "rename");
}

static void every_kind_of_operation_can_fail(struct test *t)
{
    SIM(sim, fs, 1);
    CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
    struct fs_file *other = NULL;
    uint64_t n = 7;
    char c = 'c';

    sim_fs_fault(sim,
                 (struct sim_fault){.op = SIM_ANY, .nth = 1, .error = EIO, .is_lasting = true});
    CHECK_INT(t, fs_open(fs, "b", FS_WRITE | FS_CREATE, &other, NULL), -EIO);
    CHECK_INT(t, fs_open(fs, "a", FS_READ, &other, NULL), -EIO);
    CHECK_INT(t, fs_pread(file, &c, 1, 0, NULL), -EIO);
    CHECK_INT(t, fs_truncate(file, 10, NULL), -EIO);
    CHECK_INT(t, fs_size(file, &n, NULL), -EIO);
    CHECK_INT(t, fs_lock(file, NULL), -EIO);
    CHECK_INT(t, fs_unlink(fs, "a", NULL), -EIO);
    CHECK_INT(t, fs_mkdir(fs, "d", NULL), -EIO);
    CHECK_INT(t, fs_link(fs, "a", "b", NULL), -EIO);
    CHECK_INT(t, fs_sync_dir(fs, ".", NULL), -EIO);
    CHECK_INT(t, fs_list(fs, ".", add_name, NULL, NULL), -EIO);
    CHECK_INT(t, fs_path_size(fs, "a", &n, NULL), -EIO);
    CHECK_INT(t, fs_space(fs, &n, &n, NULL), -EIO);
    CHECK(t, !other && n == 7 && c == 'c');
    sim_fs_clear_faults(sim);
    CLEANUP(buf_done) struct buf b = {0};
    CHECK_INT(t, fs_list(fs, ".", add_name, &b, NULL), 0);
    CHECK_STR(t, buf_cstr(&b), "a ");
    CHECK_STR(t, content(fs, "a"), "");
}

static void a_short_write_leaves_its_beginning(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 100; seed++) {
        SIM(sim, fs, seed);
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        sim_fs_fault(
            sim, (struct sim_fault){.op = SIM_WRITE, .nth = 1, .what = SIM_SHORT, .error = ENOSPC});
        CHECK_INT(t, fs_pwrite(file, "abc", 3, 0, NULL), -ENOSPC);
        outcome_add(&o, content(fs, "a"));
    }
    CHECK_OUTCOMES(t, &o, "", "a", "ab");
}

static void a_torn_write_leaves_some_sectors(struct test *t)
{
    static char page[2048];
    struct outcomes o = {0};

    memset(page, 'n', sizeof(page));
    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_truncate(file, sizeof(page), NULL);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE, .nth = 1, .what = SIM_TORN});
        CHECK_INT(t, fs_pwrite(file, page, sizeof(page) - 100, 100, NULL), -EIO);
        CLEANUP(buf_done) struct buf b = {0};
        CHECK_INT(t, fs_read_all(fs, "a", sizeof(page), &b, NULL), 0);
        char sectors[5] = "----";
        for (size_t i = 100; i < b.len; i++)
            sectors[i / 512] = b.data[i] ? 'n' : '-';
        for (size_t i = 100; i < b.len; i++)
            CHECK(t, (b.data[i] != 0) == (sectors[i / 512] == 'n'));
        outcome_add(&o, sectors);
    }
    CHECK_INT(t, o.n, 16);
}

static void a_failed_sync_loses_writes_for_good(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "--");
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_pwrite(file, "1", 1, 0, NULL);
        fs_pwrite(file, "2", 1, 1, NULL);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC, .nth = 1});
        CHECK_INT(t, fs_sync(file, NULL), -EIO);
        CHECK_STR(t, content(fs, "a"), "12");
        CHECK_INT(t, fs_sync(file, NULL), 0); /* the trap */
        CHECK_STR(t, content(fs, "a"), "12");
        sim_fs_restart(sim);
        outcome_add(&o, content(fs, "a"));
    }
    CHECK_OUTCOMES(t, &o, "--", "1-", "-2", "12");
}

static void a_lying_sync_persists_nothing(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        fs_pwrite(file, "1", 1, 0, NULL);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC, .nth = 1, .what = SIM_LIE});
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC_DIR, .nth = 1, .what = SIM_LIE});
        CHECK_INT(t, fs_sync(file, NULL), 0);
        CHECK_INT(t, fs_sync_dir(fs, ".", NULL), 0);
        if (seed % 2) {
            CHECK_INT(t, fs_sync(file, NULL), 0);
            CHECK_INT(t, fs_sync_dir(fs, ".", NULL), 0);
        }
        sim_fs_restart(sim);
        const char *got = content(fs, "a");
        CHECK(t, seed % 2 == 0 || (got && strcmp(got, "1") == 0));
        outcome_add(&o, got ? got : "-");
    }
    CHECK_OUTCOMES(t, &o, "1", "", "-");
}

static void a_fault_without_meaning_is_a_failure(struct test *t)
{
    SIM(sim, fs, 1);

    sim_fs_fault(sim, (struct sim_fault){.op = SIM_MKDIR, .nth = 1, .what = SIM_LIE});
    CHECK_INT(t, fs_mkdir(fs, "d", NULL), -EIO);
    sim_fs_fault(sim, (struct sim_fault){.op = SIM_MKDIR, .nth = 1, .what = SIM_TORN});
    CHECK_INT(t, fs_mkdir(fs, "d", NULL), -EIO);
    CHECK_INT(t, fs_exists(fs, "d", NULL), 0);
}

static void a_crash_comes_before_or_after_the_nth_change(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 200; seed++) {
        SIM(sim, fs, seed);
        make_durable(fs, "a", "1");
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE, .nth = 3, .what = SIM_CRASH});
        CLEANUP(fs_closep) struct fs_file *file = open_it(fs, "a");
        CHECK_INT(t, fs_pwrite(file, "2", 1, 0, NULL), 0);
        CHECK_INT(t, fs_sync(file, NULL), -EIO);
        CHECK(t, sim_fs_is_down(sim));
        sim_fs_restart(sim);
        CLEANUP(buf_done) struct buf b = {0};
        CHECK_INT(t, fs_read_all(fs, "a", 1, &b, NULL), 0);
        outcome_add(&o, b.data[0] ? buf_cstr(&b) : "zero");
    }
    CHECK_OUTCOMES(t, &o, "1", "2", "zero");
    CHECK(t, outcome_times(&o, "2") > outcome_times(&o, "1"));
}

static void an_open_that_crashes_leaks_nothing(struct test *t)
{
    struct outcomes o = {0};

    for (uint64_t seed = 0; seed < 50; seed++) {
        SIM(sim, fs, seed);
        struct fs_file *file = NULL;
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CREATE, .nth = 1, .what = SIM_KILL});
        CHECK_INT(t, fs_open(fs, "a", FS_WRITE | FS_CREATE, &file, NULL), -EIO);
        CHECK(t, !file);
        sim_fs_restart(sim);
        outcome_add(&o, fs_exists(fs, "a", NULL) ? "there" : "not there");
    }
    CHECK_OUTCOMES(t, &o, "there", "not there");
}

static void space_ends_where_it_is_said_to(struct test *t)
{
    SIM(sim, fs, 1);
    CLEANUP(fs_closep) struct fs_file *a = open_it(fs, "a"), *b = open_it(fs, "b");
    struct error err;
    uint64_t left, total;

    sim_fs_set_space(sim, 10);
    CHECK_INT(t, fs_pwrite(a, "123456", 6, 0, &err), 0);
    CHECK_INT(t, fs_pwrite(b, "123456", 6, 0, &err), -ENOSPC);
    CHECK_STR(t, content(fs, "b"), "1234");
    CHECK_INT(t, fs_pwrite(b, "x", 1, 50, &err), -ENOSPC);
    CHECK_INT(t, fs_truncate(b, 5, &err), -ENOSPC);
    CHECK_INT(t, fs_pwrite(a, "abcdef", 6, 0, &err), 0); /* in place */
    CHECK_INT(t, fs_space(fs, &left, &total, &err), 0);
    CHECK_INT(t, left, 0);
    CHECK_INT(t, total, 10);

    /* A file gives back its space when it has no name and nobody has it open. */
    CHECK_INT(t, fs_unlink(fs, "b", &err), 0);
    CHECK_INT(t, fs_pwrite(a, "g", 1, 6, &err), -ENOSPC);
    fs_close(b);
    b = NULL;
    CHECK_INT(t, fs_pwrite(a, "g", 1, 6, &err), 0);
    CHECK_INT(t, fs_truncate(a, 2, &err), 0);
    CHECK_INT(t, fs_space(fs, &left, &total, &err), 0);
    CHECK_INT(t, left, 8);
    sim_fs_set_space(sim, 1);
    CHECK_INT(t, fs_space(fs, &left, &total, &err), 0);
    CHECK_INT(t, left, 0);
}

static void space_is_counted_right_after_a_crash(struct test *t)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        SIM(sim, fs, seed);
        uint64_t left, total, size[3] = {0};
        make_durable(fs, "a", "123");
        make_durable(fs, "b", "12345");
        make(fs, "c", "1234567", false);
        make(fs, "a", "123456789", false);
        fs_unlink(fs, "b", NULL);
        sim_fs_set_space(sim, 100);
        sim_fs_restart(sim);
        (void)fs_path_size(fs, "a", &size[0], NULL);
        (void)fs_path_size(fs, "b", &size[1], NULL);
        (void)fs_path_size(fs, "c", &size[2], NULL);
        CHECK_INT(t, fs_space(fs, &left, &total, NULL), 0);
        CHECK_INT(t, 100 - left, size[0] + size[1] + size[2]);
    }
}

static void rot_flips_one_bit_for_good(struct test *t)
{
    SIM(sim, fs, 3);
    char path[64];
    uint64_t bit;

    CHECK(t, !sim_fs_rot(sim, path, sizeof(path), &bit));
    fs_mkdir(fs, "d", NULL);
    make(fs, "d/a", "aaaa", true);
    fs_sync_dir(fs, "d", NULL);
    make(fs, "empty", "", true);
    fs_sync_dir(fs, ".", NULL);
    make(fs, "unsynced", "aaaa", true);
    CHECK(t, sim_fs_rot(sim, path, sizeof(path), &bit));
    CHECK_STR(t, path, "d/a");
    CHECK(t, bit < 32);
    char want[5] = "aaaa";
    want[bit / 8] ^= (char)(1 << bit % 8);
    CHECK_STR(t, content(fs, "d/a"), want);
    sim_fs_restart(sim);
    CHECK_STR(t, content(fs, "d/a"), want);
    CHECK(t, sim_fs_flip(sim, "d/a", bit));
    CHECK_STR(t, content(fs, "d/a"), "aaaa");
    CHECK(t, !sim_fs_flip(sim, "d/a", 32));
    CHECK(t, !sim_fs_flip(sim, "none", 0));
}

static void a_broken_file_leaves_the_others_readable(struct test *t)
{
    SIM(sim, fs, 3);

    make_durable(fs, "a", "A");
    make_durable(fs, "b", "B");
    CHECK(t, sim_fs_break(sim, "a", EIO));
    CHECK(t, !content(fs, "a"));
    CHECK_STR(t, content(fs, "b"), "B");
    sim_fs_restart(sim);
    CHECK(t, !content(fs, "a"));
    CHECK(t, sim_fs_break(sim, "a", 0));
    CHECK_STR(t, content(fs, "a"), "A");
    CHECK(t, !sim_fs_break(sim, "none", EIO));
}

static void locks_exclude_and_end_with_the_machine(struct test *t)
{
    SIM(sim, fs, 1);
    struct fs_file *first = open_it(fs, "lock"), *second = open_it(fs, "lock");
    struct error err;

    CHECK_INT(t, fs_lock(first, &err), 0);
    CHECK_INT(t, fs_lock(first, &err), 0);
    CHECK_INT(t, fs_lock(second, &err), -EBUSY);
    CHECK_STR(t, err.text, "could not lock \"lock\": Device or resource busy");
    fs_pwrite(first, "4711\n", 5, 0, NULL);
    CHECK_INT(t, fs_lock(second, &err), -EBUSY);
    CHECK_STR(t, err.text, "could not lock \"lock\": process 4711 holds it");
    fs_close(first);
    CHECK_INT(t, fs_lock(second, &err), 0);
    sim_fs_kill(sim);
    sim_fs_restart(sim);
    first = open_it(fs, "lock");
    CHECK_INT(t, fs_lock(first, &err), 0);
    fs_close(second);
    second = open_it(fs, "lock");
    CHECK_INT(t, fs_lock(second, &err), -EBUSY);
    fs_close(second);
    fs_close(first);
}

static void a_trace_tells_what_happened(struct test *t)
{
    SIM(sim, fs, 1);
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    sim_fs_trace(sim, to);
    make(fs, "a", "xyz", true);
    fs_unlink(fs, "b", NULL);
    sim_fs_kill(sim);
    fs_unlink(fs, "a", NULL);
    sim_fs_restart(sim);
    sim_fs_trace(sim, NULL);
    fs_unlink(fs, "a", NULL);
    fclose(to);
    CHECK_STR(t, text,
              "     1 create a\n     2 write a 0+3\n     3 sync a\n"
              "     4 remove b: No such file or directory\n"
              "     4 remove a: Input/output error (down)\n     4 restart\n");
    free(text);
}

/* A few hundred random operations; what each returned goes into the log. */
struct life {
    struct fs *fs;
    struct random random;
    struct buf log;
    struct fs_file *open[4];
};

static const char *some_path(struct life *l)
{
    static const char *const paths[] = {"a", "b", "c", "d/a", "d/b", "e/a", "d", "none/x", "a/x"};

    return paths[random_below(&l->random, ARRAY_SIZE(paths))];
}

static void file_step(struct life *l, size_t i)
{
    struct fs_file *file = l->open[i];
    char bytes[3000];
    uint64_t n = random_below(&l->random, sizeof(bytes)), at = random_below(&l->random, 5000);
    ssize_t r = 0;

    memset(bytes, (int)random_below(&l->random, 256), sizeof(bytes));
    switch (random_below(&l->random, 6)) {
    case 0:
    case 1:
        r = fs_pwrite(file, bytes, n, at, NULL);
        break;
    case 2:
        r = fs_pread(file, bytes, n, at, NULL);
        buf_addf(&l->log, "%jx ", (uintmax_t)checksum64(bytes, sizeof(bytes)));
        break;
    case 3:
        r = fs_truncate(file, at, NULL);
        break;
    case 4:
        r = fs_sync(file, NULL);
        break;
    default:
        fs_close(file);
        l->open[i] = NULL;
    }
    buf_addf(&l->log, "%zd\n", r);
}

static void name_step(struct life *l)
{
    const char *from = some_path(l), *to = some_path(l);
    uint64_t n = 0;
    int r;

    switch (random_below(&l->random, 8)) {
    case 0:
        r = strcmp(from, "d") == 0 || strcmp(to, "d") == 0 ? 0 : fs_rename(l->fs, from, to, NULL);
        break;
    case 1:
        r = fs_unlink(l->fs, from, NULL);
        break;
    case 2:
        r = fs_mkdir(l->fs, random_below(&l->random, 2) ? "d" : "e", NULL);
        break;
    case 3:
        r = fs_link(l->fs, from, to, NULL);
        break;
    case 4:
        r = fs_sync_dir(l->fs, random_below(&l->random, 2) ? "." : "d", NULL);
        break;
    case 5:
        r = fs_list(l->fs, random_below(&l->random, 2) ? "." : "d", add_name, &l->log, NULL);
        break;
    case 6:
        r = fs_exists(l->fs, from, NULL);
        break;
    default:
        r = strcmp(from, "d") == 0 ? 0 : fs_path_size(l->fs, from, &n, NULL);
        break;
    }
    buf_addf(&l->log, "%s %s %d %ju\n", from, to, r, (uintmax_t)n);
}

static void live(struct life *l, int n_steps)
{
    static const unsigned kinds[] = {0, FS_CREATE, FS_CREATE, FS_CREATE | FS_EXCLUSIVE};

    for (int step = 0; step < n_steps; step++) {
        size_t i = (size_t)random_below(&l->random, ARRAY_SIZE(l->open));
        if (l->open[i] && random_below(&l->random, 3) > 0)
            file_step(l, i);
        else if (l->open[i] || random_below(&l->random, 2))
            name_step(l);
        else
            buf_addf(&l->log, "%d\n",
                     fs_open(l->fs, some_path(l),
                             FS_WRITE | kinds[random_below(&l->random, ARRAY_SIZE(kinds))],
                             &l->open[i], NULL));
    }
}

static void life_end(struct life *l)
{
    for (size_t i = 0; i < ARRAY_SIZE(l->open); i++)
        fs_close(l->open[i]);
}

static void behaves_like_the_real_one_while_nothing_fails(struct test *t)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct scratch scratch;
        CLEANUP(fs_freep) struct fs *real = NULL;
        SIM(sim, fs, seed);
        struct life lives[2] = {{.fs = fs}, {0}};

        scratch_init(&scratch);
        CHECK_INT(t, fs_real_new(scratch.path, &real, NULL), 0);
        lives[1].fs = real;
        for (int i = 0; i < 2; i++) {
            random_init(&lives[i].random, seed);
            live(&lives[i], 300);
            life_end(&lives[i]);
        }
        struct bytes rest[2] = {buf_bytes(&lives[0].log), buf_bytes(&lives[1].log)}, line[2];
        while (bytes_next_line(&rest[0], &line[0]) && bytes_next_line(&rest[1], &line[1])) {
            if (bytes_equal(line[0], line[1]))
                continue;
            printf("# seed %ju: \"%.*s\", really \"%.*s\"\n", (uintmax_t)seed, (int)line[0].len,
                   (const char *)line[0].data, (int)line[1].len, (const char *)line[1].data);
            t->failures++;
            break;
        }
        scratch_done(&scratch);
        buf_done(&lives[0].log);
        buf_done(&lives[1].log);
    }
}

/* All of several lives with crashes in them, as one number. */
static uint64_t history(uint64_t seed)
{
    SIM(sim, fs, seed);
    struct life l = {.fs = fs};

    random_init(&l.random, seed);
    for (int k = 0; k < 5; k++) {
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE,
                                             .nth = random_below(&l.random, 100),
                                             .what = SIM_CRASH});
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC, .nth = 3});
        live(&l, 300);
        life_end(&l);
        memset(l.open, 0, sizeof(l.open));
        sim_fs_restart(sim);
    }
    uint64_t sum = checksum64(l.log.data, l.log.len);
    buf_done(&l.log);
    return sum;
}

static void a_seed_gives_the_same_history(struct test *t)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        CHECK(t, history(seed) == history(seed));
        CHECK(t, history(seed) != history(seed + 1));
    }
}

/* Ten thousand synced appends and a thousand files: quadratic work would take minutes. */
static void long_lives_are_cheap(struct test *t)
{
    SIM(sim, fs, 1);
    CLEANUP(fs_closep) struct fs_file *wal = open_it(fs, "wal");
    char bytes[500] = "", path[32];
    uint64_t size;

    for (uint64_t i = 0; i < 20000; i++) {
        fs_pwrite(wal, bytes, sizeof(bytes), i * sizeof(bytes), NULL);
        fs_sync(wal, NULL);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof(path), "%010d.seg", i);
        make(fs, path, "x", true);
        fs_sync_dir(fs, ".", NULL);
    }
    for (int i = 0; i < 20; i++)
        sim_fs_restart(sim);
    CHECK_INT(t, fs_path_size(fs, "wal", &size, NULL), 0);
    CHECK_INT(t, size, 20000 * sizeof(bytes));
    CHECK_STR(t, content(fs, "0000004999.seg"), "x");
}

static const struct test_case cases[] = {
    TEST(what_was_synced_survives_every_crash),
    TEST(a_name_needs_a_sync_of_its_directory),
    TEST(a_name_may_survive_without_the_bytes),
    TEST(writes_survive_in_any_combination),
    TEST(large_writes_are_torn_at_sectors),
    TEST(a_truncate_survives_or_not),
    TEST(a_rename_replaces_at_once_or_not_at_all),
    TEST(changes_of_different_names_survive_out_of_order),
    TEST(changes_of_one_name_survive_in_order),
    TEST(a_removed_file_may_come_back),
    TEST(a_link_outlives_the_first_name),
    TEST(a_file_moved_between_directories_is_never_lost),
    TEST(a_lost_directory_takes_its_files_along),
    TEST(a_killed_process_loses_nothing_it_wrote),
    TEST(nothing_works_while_the_machine_is_down),
    TEST(the_nth_operation_fails),
    TEST(every_kind_of_operation_can_fail),
    TEST(a_short_write_leaves_its_beginning),
    TEST(a_torn_write_leaves_some_sectors),
    TEST(a_failed_sync_loses_writes_for_good),
    TEST(a_lying_sync_persists_nothing),
    TEST(a_fault_without_meaning_is_a_failure),
    TEST(a_crash_comes_before_or_after_the_nth_change),
    TEST(an_open_that_crashes_leaks_nothing),
    TEST(space_ends_where_it_is_said_to),
    TEST(space_is_counted_right_after_a_crash),
    TEST(rot_flips_one_bit_for_good),
    TEST(a_broken_file_leaves_the_others_readable),
    TEST(locks_exclude_and_end_with_the_machine),
    TEST(a_trace_tells_what_happened),
    TEST(behaves_like_the_real_one_while_nothing_fails),
    TEST(a_seed_gives_the_same_history),
    TEST(long_lives_are_cheap),
};
TEST_MAIN(cases)
