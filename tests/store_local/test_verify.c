#include "segment/file_name.h"
#include "segment/manifest_file.h"
#include "store/selector.h"
#include "store_local/disk_bytes.h"
#include "store_local/kept_store.h"
#include "store_local/part.h"
#include "store_local/version.h"

static void a_store_with_everything_is_sound(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct findings found;
    struct fixture f;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    CHECK_INT(t, kept_verify(&f, &found), 0); /* nothing in it yet */
    CHECK_STR(t, found.text, "");
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, kept_verify(&f, &found), 0);
    CHECK_STR(t, found.text, "");
    bool has_sums = false;
    struct local *l = local_of(f.store);
    for (size_t i = 0; i < l->version->segments.len; i++)
        has_sums |= l->version->segments.data[i]->tier > 0;
    CHECK(t, has_sums);
    fixture_close(&f);
}

/* ---- Every byte */

static void ask_everything(struct fixture *f)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;
    struct everything e = {0};
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};
    struct store_plan plan = {.tenant = bytes_of("default"), .to_ns = INT64_MAX};

    (void)store_profiles(f->store, &find, count_found, &e, &f->err);
    (void)selector_parse(bytes_of("{}"), &selector, &f->err);
    plan.selector = selector;
    for (plan.what = PLAN_STACKS; plan.what <= PLAN_FUNCTIONS; plan.what++) {
        CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);
        (void)store_aggregate(f->store, &plan, answer, &f->err);
    }
}

static void a_change_of_any_byte_is_found(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
    struct findings found;
    struct fixture f;
    struct names all;
    unsigned n_missed = 0, n = 0;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    list_files(sim, &all);
    CHECK(t, all.n >= 8);
    for (size_t i = 0; i < all.n; i++) {
        for (uint64_t k = 0; k < 3 * all.files[i].size; k++, n++) {
            const unsigned masks[] = {1u << k / 3 % 8, 0xff, 1u << k / 7 % 8 | 1u << k / 11 % 8};
            uint64_t byte = k / 3;
            unsigned mask = masks[k % 3];
            flip(sim, all.files[i].path, byte, mask);
            int r = kept_verify(&f, &found);
            if (r != -EUCLEAN && n_missed++ < 10)
                printf("# byte %llu of %s: %d\n", (unsigned long long)byte, all.files[i].path, r);
            flip(sim, all.files[i].path, byte, mask);
        }
    }
    printf("# %u changes in %zu files\n", n, all.n);
    CHECK_INT(t, n_missed, 0);
    CHECK_INT(t, kept_verify(&f, &found), 0);
    fixture_close(&f);
}

static void no_question_crashes_on_a_changed_byte(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct fixture f;
    struct names all;
    unsigned n_opened = 0;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    list_files(sim, &all);
    for (size_t i = 0; i < all.n; i++) {
        for (uint64_t byte = i; byte < all.files[i].size; byte += 13) {
            flip(sim, all.files[i].path, byte, 1u << byte % 8);
            if (kept_open(&f, sim, true) == 0) {
                n_opened++;
                ask_everything(&f);
            }
            fixture_close(&f);
            flip(sim, all.files[i].path, byte, 1u << byte % 8);
        }
    }
    CHECK(t, n_opened > 100);
}

/* ---- What checksums do not say */

/* Writes a manifest that is wrong, through `change`. */
static void change_manifest(struct test *t, struct sim_fs *sim, void (*change)(struct version *v))
{
    CLEANUP(buf_done) struct buf content = {0};
    CLEANUP(buf_done) struct buf changed = {0};
    CLEANUP(version_discardp) struct version *v = NULL;
    struct manifest_report report;
    struct error err;
    bool in_doubt;

    CHECK_INT(t, manifest_file_read(sim_fs_fs(sim), &content, &report, &err), 0);
    CHECK_INT(t, version_decode(buf_bytes(&content), &v, &err), 0);
    change(v);
    version_encode(v, &changed);
    CHECK_INT(t, manifest_file_write(sim_fs_fs(sim), buf_bytes(&changed), &in_doubt, &err), 0);
}

static struct segment *first_of_profiles(struct version *v)
{
    size_t i = 0;
    while (v->segments.data[i]->kind != SEGMENT_PROFILES)
        i++;
    return v->segments.data[i];
}

static void count_one_more(struct version *v)
{
    first_of_profiles(v)->n_rows++;
}

static void forget_an_epoch(struct version *v)
{
    free(v->epochs.data[0].service);
    memmove(&v->epochs.data[0], &v->epochs.data[1],
            (v->epochs.len - 1) * sizeof(v->epochs.data[0]));
    v->epochs.len--;
}

static void name_too_few_nodes(struct version *v)
{
    v->epochs.data[0].mark.nodes--;
}

static void forget_series(struct version *v)
{
    v->tenants.data[0].series_file_len = 0;
}

static void move_the_window(struct version *v)
{
    first_of_profiles(v)->window_start_ns += DAY_NS;
}

static void move_spans(struct version *v)
{
    for (size_t i = 0; i < v->segments.len; i++) {
        if (v->segments.data[i]->kind == SEGMENT_SPANS)
            v->segments.data[i]->max_ns++;
    }
}

static void forget_a_tenant(struct version *v)
{
    v->tenants.len--;
    free(v->tenants.data[v->tenants.len].name);
}

static void give_numbers_again(struct version *v)
{
    v->next_id = 1;
}

static void apply_no_tombstone(struct version *v)
{
    v->segments.data[0]->tombstone_seq = 7;
}

static void forget_a_segment(struct version *v)
{
    v->segments.len--;
    free(v->segments.data[v->segments.len]->epochs);
    free(v->segments.data[v->segments.len]);
}

static void what_files_say_of_each_other_is_held_against_it(struct test *t)
{
    static const struct {
        void (*change)(struct version *v);
        const char *text;
    } wrong[] = {
        {count_one_more, "it is not what the manifest says"},
        {forget_an_epoch, "is not known"},
        {name_too_few_nodes, "it does not hold what the manifest says"},
        {name_too_few_nodes, "name what the dictionary has not"},
        {forget_series, "series 1 is not known"},
        {move_the_window, "it lies outside of the file's window"},
        {move_spans, "it is not what the manifest says"},
        {forget_a_tenant, "which is not known"},
        {give_numbers_again, "has a number that is still to be given"},
        {apply_no_tombstone, "had a tombstone applied that never was"},
    };
    struct findings found;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(4);
        struct fixture f;
        kept_init(&f);
        CHECK_INT(t, kept_open(&f, sim, false), 0);
        kept_make(t, &f);
        CHECK_INT(t, kept_open(&f, sim, true), 0);
        change_manifest(t, sim, wrong[i].change);
        CHECK_INT(t, kept_verify(&f, &found), -EUCLEAN);
        CHECK(t, strstr(found.text, wrong[i].text) != NULL);
        if (!strstr(found.text, wrong[i].text))
            printf("# %s: %s\n", wrong[i].text, found.text);
        fixture_close(&f);
    }
}

static void missing_files_are_named_and_strays_are_no_damage(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(5);
    struct findings found;
    struct fixture f;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    struct version *v = local_of(f.store)->version;
    struct file_name last = file_name("seg", v->segments.data[v->segments.len - 1]->id, "seg");
    change_manifest(t, sim, forget_a_segment);
    CHECK_INT(t, fs_write_whole(sim_fs_fs(sim), "seg/what", bytes_of("x"), &f.err), 0);
    CHECK_INT(t, kept_verify(&f, &found), 0);
    CHECK(t, strstr(found.text, last.text) != NULL);
    CHECK(t, strstr(found.text, "\"seg/what\" is not named by the manifest") != NULL);
    CHECK_INT(t, found.n_bad, 0);
    CHECK_INT(t, found.n_notes, 2);

    struct file_name gone[] = {file_name("seg", v->segments.data[0]->id, "seg"),
                               file_name("seg", first_of_profiles(v)->id, "seg"),
                               file_name("dict", v->epochs.data[0].id, "dict"),
                               file_name("series", v->tenants.data[0].id, "series")};
    for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
        char path[160];
        CHECK_INT(t, fs_rename(sim_fs_fs(sim), gone[i].text, "away", &f.err), 0);
        CHECK_INT(t, kept_verify(&f, &found), -EUCLEAN);
        snprintf(path, sizeof(path), "\"%.95s\": it is missing", gone[i].text);
        CHECK(t, strstr(found.text, path) != NULL);
        if (!strstr(found.text, path))
            printf("# %s: %s\n", path, found.text);
        CHECK_INT(t, fs_rename(sim_fs_fs(sim), "away", gone[i].text, &f.err), 0);
    }
    CHECK_INT(t, fs_rename(sim_fs_fs(sim), "MANIFEST", "away", &f.err), 0);
    CHECK_INT(t, kept_verify(&f, &found), -EUCLEAN);
    CHECK(t, strstr(found.text, "MANIFEST") != NULL);
    fixture_close(&f);
}

static void a_write_that_was_cut_is_no_damage(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(6);
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct findings found;
    struct fixture f;
    struct names all;
    const struct named *wal = NULL;
    unsigned n_notes = 0;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    list_files(sim, &all);
    for (size_t i = 0; i < all.n; i++) {
        if (strncmp(all.files[i].path, "wal/", 4) == 0)
            wal = &all.files[i];
    }
    CHECK(t, wal != NULL);
    CHECK_INT(t, fs_open(sim_fs_fs(sim), wal->path, FS_WRITE, &file, &f.err), 0);
    for (uint64_t size = wal->size - 1; size > wal->size - 150; size--) {
        CHECK_INT(t, fs_truncate(file, size, &f.err), 0);
        CHECK_INT(t, kept_verify(&f, &found), 0);
        n_notes += found.n_notes;
    }
    CHECK(t, n_notes > 100);
    CHECK(t, strstr(found.text, "that was not finished") != NULL);
    fixture_close(&f);
}

static const struct test_case cases[] = {
    TEST(a_store_with_everything_is_sound),
    TEST(a_change_of_any_byte_is_found),
    TEST(no_question_crashes_on_a_changed_byte),
    TEST(what_files_say_of_each_other_is_held_against_it),
    TEST(missing_files_are_named_and_strays_are_no_damage),
    TEST(a_write_that_was_cut_is_no_damage),
};
TEST_MAIN(cases)
