#include <pthread.h>

#include "store_local/store_fixture.h"

static const uint8_t id_a[16] = {1, 2, 3}, id_b[16] = {9};

static void stores_and_finds_again(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 5);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    struct everything e = find_everything(t, &f);
    CHECK_INT(t, e.n, 1);
    CHECK_INT(t, e.n_samples, 5);
    CHECK_INT(t, e.total, 60);
    CHECK_INT(t, e.sample_total, 60);
    fixture_done(&f);
}

static void survives_a_crash(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (unsigned i = 0; i < 10; i++)
        CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + i, i, 5), "a", NULL, STORE_STORED);
    struct everything before = find_everything(t, &f);
    fixture_reopen(t, &f);
    CHECK(t, strstr(f.log, "10 profiles") != NULL);
    struct everything after = find_everything(t, &f);
    CHECK_INT(t, after.n, 10);
    CHECK_INT(t, after.total, before.total);
    CHECK_INT(t, after.sample_total, before.sample_total);
    /* Again, with something new in a second WAL that refers to names of the first. */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 50, 0, 5), "a", NULL, STORE_STORED);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 11);
    CHECK_INT(t, find_everything(t, &f).sample_total, before.total + 60);
    fixture_done(&f);
}

static void keeps_everything_when_closed(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (unsigned i = 0; i < 10; i++)
        CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + i, i, 5), "a", NULL, STORE_STORED);
    int64_t total = find_everything(t, &f).total;
    fixture_close(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_STR(t, f.log, "");
    CHECK_INT(t, find_everything(t, &f).n, 10);
    CHECK_INT(t, find_everything(t, &f).sample_total, total);
    /* Names that are in the file are not defined again. */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 50, 0, 5), "a", NULL, STORE_STORED);
    CHECK_INT(t, local_of(f.store)->epochs.len, 1);
    CHECK_INT(t, find_everything(t, &f).sample_total, total + 60);
    fixture_done(&f);
}

static void stores_a_retry_once(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 5);
    struct profile *q = make_profile(f.source, NOW_NS, 1, 5);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_DUPLICATE);
    CHECK_APPEND(t, &f, q, "a", NULL, STORE_STORED); /* other content */
    CHECK_APPEND(t, &f, p, "a", id_a, STORE_STORED); /* one with an id is none without */
    CHECK_APPEND(t, &f, q, "a", id_a, STORE_DUPLICATE);
    CHECK_APPEND(t, &f, p, "a", id_b, STORE_STORED);
    CHECK_INT(t, stored_profiles(&f), 4);

    /* After a crash from the WAL, after closing from a segment, by another source's ids. */
    fixture_reopen(t, &f);
    p = make_profile(f.source, NOW_NS, 0, 5);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_DUPLICATE);
    CHECK_APPEND(t, &f, p, "a", id_a, STORE_DUPLICATE);
    fixture_close(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    make_profile(f.source, NOW_NS, 7, 9);
    p = make_profile(f.source, NOW_NS, 0, 5);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_DUPLICATE);
    CHECK_APPEND(t, &f, p, "a", id_b, STORE_DUPLICATE);
    CHECK_INT(t, stored_profiles(&f), 4);
    struct store_stat stat;
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.duplicates, 2);
    fixture_done(&f);
}

static void what_cannot_be_looked_up_is_not_guessed(struct test *t)
{
    struct fixture f;
    uint8_t id[16] = {1};
    struct label labels[2][2] = {{test_label("pod", "new"), test_label(LABEL_SERVICE, "checkout")},
                                 {test_label("pod", "a"), test_label(LABEL_SERVICE, "checkout")}};
    struct store_outcome outcomes[2];

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 3), "a", id, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err) >= 0, 1);
    fixture_reopen(t, &f);
    struct store_incoming in[2] = {
        {.profile = make_profile(f.source, NOW_NS, 3, 3), .labels = labels[0], .n_labels = 2},
        {.profile = make_profile(f.source, NOW_NS, 0, 3),
         .labels = labels[1],
         .n_labels = 2,
         .has_id = true,
         .id = {1}}};

    /* The first of the call brings a series and names; they are not lost with the second. */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 1, 0, 1), "a", NULL, STORE_STORED);
    f.fs->fail_read = EIO;
    int r = store_append(f.source, bytes_of("default"), in, 2, outcomes, &f.err);
    CHECK_INT(t, r, -EIO);
    CHECK_STR(t, f.err.text,
              "could not tell whether a profile is stored already: Input/output error");
    f.fs->fail_read = 0;
    CHECK_INT(t, stored_profiles(&f), 2);
    r = store_append(f.source, bytes_of("default"), in, 2, outcomes, &f.err);
    CHECK_INT(t, r, 0);
    CHECK_INT(t, outcomes[0].verdict, STORE_STORED);
    CHECK_INT(t, outcomes[1].verdict, STORE_DUPLICATE);
    fixture_reopen(t, &f);
    struct everything e = find_everything(t, &f);
    CHECK_INT(t, e.n, 3);
    CHECK_INT(t, e.total, 10 + 33 + 42);
    CHECK_INT(t, e.sample_total, 10 + 33 + 42);
    fixture_done(&f);
}

static void two_idle_pods_are_two(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 0);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_DUPLICATE);
    fixture_reopen(t, &f);
    CHECK_INT(t, stored_profiles(&f), 2);
    fixture_done(&f);
}

static void a_batch_is_judged_one_by_one(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct label good[] = {test_label(LABEL_SERVICE, "checkout")};
    struct label none[] = {test_label("pod", "x")};
    struct profile *p = make_profile(f.source, NOW_NS, 0, 3);
    struct store_incoming in[] = {
        {.profile = p, .labels = good, .n_labels = 1},
        {.profile = p, .labels = none, .n_labels = 1},
        {.profile = p, .labels = good, .n_labels = 1},
        {.profile = make_profile(f.source, NOW_NS + 7200 * SEC_NS, 0, 3),
         .labels = good,
         .n_labels = 1},
    };
    struct store_outcome out[4];
    CHECK_INT(t, store_append(f.source, bytes_of("default"), in, 4, out, &f.err), 0);
    CHECK_INT(t, out[0].verdict, STORE_STORED);
    CHECK_INT(t, out[1].verdict, STORE_REJECTED);
    CHECK_STR(t, out[1].why.text, "the label service.name is missing");
    CHECK_INT(t, out[2].verdict, STORE_DUPLICATE);
    CHECK_INT(t, out[3].verdict, STORE_REJECTED);
    CHECK_STR(t, out[3].why.text, "the profile is from 2h in the future: the limit is 1h");
    CHECK_INT(t, store_append(f.source, bytes_of("default"), in, 0, out, &f.err), 0);
    fixture_done(&f);
}

static void check_rejected(struct test *t, struct fixture *f, const struct profile *p,
                           const struct label *labels, size_t n, const char *why)
{
    bool is_time = strstr(why, "the profile is") || strstr(why, "does not say when") ||
                   strstr(why, "a duration");
    struct store_incoming in = {.profile = p, .labels = labels, .n_labels = n};
    struct store_outcome out;
    CHECK_INT(t, store_append(f->source, bytes_of("default"), &in, 1, &out, &f->err), 0);
    CHECK_INT(t, out.verdict, STORE_REJECTED);
    CHECK_INT(t, out.code, is_time ? -ERANGE : -EINVAL);
    CHECK_STR(t, out.why.text, why);
}

static void rejections_name_their_limit(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct label good[] = {test_label(LABEL_SERVICE, "s")};
    struct label many[65];
    char names[65][8], big[2100];
    for (int i = 0; i < 65; i++) {
        snprintf(names[i], sizeof(names[i]), "l%02d", i);
        many[i] = test_label(names[i], "v");
    }
    memset(big, 'x', sizeof(big));
    struct profile *p = make_profile(f.source, NOW_NS, 0, 1);
    check_rejected(t, &f, p, many, 65, "65 labels are more than the 64 a series may have");
    struct label long_name[] = {{{(uint8_t *)big, 257}, bytes_of("v")}, good[0]};
    check_rejected(t, &f, p, long_name, 2,
                   "the name of a label has 257 bytes: 1 to 256 are allowed");
    struct label long_value[] = {{bytes_of("pod"), {(uint8_t *)big, 2049}}, good[0]};
    check_rejected(t, &f, p, long_value, 2,
                   "the value of label \"pod\" has 2049 bytes: at most 2048 are allowed");
    struct label unsorted[] = {good[0], test_label("pod", "x")};
    check_rejected(t, &f, p, unsorted, 2, "labels are not sorted at \"pod\"");
    struct label twice[] = {good[0], good[0]};
    check_rejected(t, &f, p, twice, 2, "labels are not sorted at \"service.name\"");

    p->time_unix_ns = 0;
    check_rejected(t, &f, p, good, 1, "the profile does not say when it was taken");
    p->time_unix_ns = NOW_NS - 31 * DAY_NS;
    check_rejected(t, &f, p, good, 1, "the profile is 31d old: profiles are kept for 30d");
    p->time_unix_ns = NOW_NS;
    p->duration_ns = -1;
    check_rejected(t, &f, p, good, 1, "a duration of -1 ns cannot be");
    struct profile *empty = profile_set_add(f.source->set);
    empty->time_unix_ns = NOW_NS;
    check_rejected(t, &f, empty, good, 1, "the profile measures nothing: it has no sample types");
    struct profile *named = profile_set_add(f.source->set);
    named->time_unix_ns = NOW_NS;
    profile_add_type(named, dict_string(named->dict, (struct bytes){(uint8_t *)big, 300}), 0);
    check_rejected(t, &f, named, good, 1,
                   "the name of a sample type is longer than the 256 bytes allowed");
    struct store_stat stat;
    store_stat(f.store, &stat);
    CHECK_INT(t, stat.rejected, 10);
    CHECK_INT(t, stat.profiles, 0);
    fixture_done(&f);
}

static void too_many_series_are_refused_by_name(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fixture_crash(&f);
    f.options.max_series = 2; /* their group is not counted */
    CHECK_INT(t, fixture_open(&f), 0);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 1);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_STORED);
    struct store_outcome out;
    CHECK_INT(t, append_profile(&f, p, "c", NULL, &out), 0);
    CHECK_INT(t, out.verdict, STORE_REJECTED);
    CHECK_STR(t, out.why.text, "the tenant has 2 series: the limit is 2 (series_max)");
    fixture_done(&f);
}

static uint32_t series_of_tenant(void *ctx, struct bytes tenant)
{
    (void)tenant;
    return *(uint32_t *)ctx;
}

static void one_tenant_may_have_more_or_fewer_series(struct test *t)
{
    struct fixture f;
    uint32_t max = 1;
    fixture_init(t, &f);
    fixture_crash(&f);
    f.options.max_series = 2;
    f.options.max_series_of = series_of_tenant;
    f.options.max_series_ctx = &max;
    CHECK_INT(t, fixture_open(&f), 0);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 1);
    struct store_outcome out;
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    CHECK_INT(t, append_profile(&f, p, "b", NULL, &out), 0);
    CHECK_STR(t, out.why.text, "the tenant has 1 series: the limit is 1 (series_max)");
    max = 0; /* as for all */
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_STORED);
    CHECK_INT(t, append_profile(&f, p, "c", NULL, &out), 0);
    CHECK_STR(t, out.why.text, "the tenant has 2 series: the limit is 2 (series_max)");
    fixture_done(&f);
}

static void tenants_have_sound_names(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct label good[] = {test_label(LABEL_SERVICE, "s")};
    struct store_incoming in = {
        .profile = make_profile(f.source, NOW_NS, 0, 1), .labels = good, .n_labels = 1};
    struct store_outcome out;
    static const char *const bad[] = {"",
                                      ".",
                                      "..",
                                      "a/b",
                                      "t\xc3\xa4",
                                      ("0123456789012345678901234567890123456789"
                                       "012345678901234567890123456")};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        int r = store_append(f.source, bytes_of(bad[i]), &in, 1, &out, &f.err);
        CHECK_INT(t, r, -EINVAL);
        CHECK(t, strstr(f.err.text, "cannot be the name of a tenant") != NULL);
    }
    CHECK_INT(t, store_append(f.source, bytes_of("A-1_b.c"), &in, 1, &out, &f.err), 0);
    CHECK_INT(t, store_append(f.source, bytes_of("other"), &in, 1, &out, &f.err), 0);
    fixture_reopen(t, &f);
    CHECK_INT(t, local_of(f.store)->tenants.len, 2);
    CHECK_INT(t, stored_profiles(&f), 2);
    fixture_done(&f);
}

struct appender {
    struct fixture *f;
    struct store_source *source;
    int index, n_stored, r;
};

static void *append_some(void *arg)
{
    struct appender *a = arg;
    struct fixture mine = *a->f;
    char pod[16];

    mine.source = a->source;
    for (int i = 0; i < 25; i++) {
        struct store_outcome out = {0};
        snprintf(pod, sizeof(pod), "pod%d", a->index);
        struct profile *p =
            make_profile(a->source, NOW_NS + i * SEC_NS, (unsigned)(a->index * 3 + i), 4);
        int r = append_profile(&mine, p, pod, NULL, &out);
        if (r < 0)
            a->r = r;
        a->n_stored += out.verdict == STORE_STORED;
        store_source_reset(a->source);
    }
    return NULL;
}

static void threads_share_syncs(struct test *t)
{
    enum { N = 8 };
    struct fixture f;
    struct appender a[N];
    pthread_t threads[N];

    fixture_init(t, &f);
    f.fs->is_slow = true;
    unsigned before = f.fs->n_syncs;
    for (int i = 0; i < N; i++) {
        a[i] = (struct appender){.f = &f, .index = i};
        CHECK_INT(t, store_source_new(f.store, 0, &a[i].source, &f.err), 0);
        pthread_create(&threads[i], NULL, append_some, &a[i]);
    }
    int stored = 0;
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(t, a[i].r, 0);
        stored += a[i].n_stored;
        store_source_free(a[i].source);
    }
    CHECK_INT(t, stored, N * 25);
    unsigned syncs = f.fs->n_syncs - before;
    CHECK(t, syncs < N * 25 / 2);
    struct everything e = find_everything(t, &f);
    CHECK_INT(t, e.n, N * 25);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, N * 25);
    CHECK_INT(t, find_everything(t, &f).sample_total, e.sample_total);
    fixture_done(&f);
}

struct keeper {
    struct fixture *f;
    atomic_bool is_over;
    int n_flushes, r;
};

static void *keep_flushing(void *arg)
{
    struct keeper *k = arg;
    struct error err;

    while (k->r == 0 && (!k->is_over || k->n_flushes == 0)) {
        int r = store_upkeep(k->f->store, UPKEEP_FLUSH, &err);
        k->n_flushes += r > 0;
        usleep(3000);
        if (r < 0)
            k->r = r;
    }
    return NULL;
}

static void flushes_and_questions_go_on_meanwhile(struct test *t)
{
    enum { N = 3 };
    struct fixture f;
    struct appender a[N];
    pthread_t threads[N], keeping;
    struct keeper k = {.f = &f};

    fixture_init(t, &f);
    f.fs->is_slow = true;
    for (int i = 0; i < N; i++) {
        a[i] = (struct appender){.f = &f, .index = i};
        CHECK_INT(t, store_source_new(f.store, 0, &a[i].source, &f.err), 0);
    }
    pthread_create(&keeping, NULL, keep_flushing, &k);
    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, append_some, &a[i]);
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        struct everything e = find_everything(t, &f);
        CHECK(t, e.n >= before); /* what was seen stays */
        CHECK_INT(t, e.total, e.sample_total);
        before = e.n;
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(t, a[i].r, 0);
        CHECK_INT(t, a[i].n_stored, 25);
        store_source_free(a[i].source);
    }
    k.is_over = true;
    pthread_join(keeping, NULL);
    CHECK_INT(t, k.r, 0);
    CHECK(t, k.n_flushes > 0);
    CHECK_INT(t, find_everything(t, &f).n, N * 25);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, N * 25);
    fixture_done(&f);
}

static void a_failed_write_stores_nothing_and_can_be_tried_again(struct test *t)
{
    struct fixture f;
    struct store_outcome out;

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    struct profile *p = make_profile(f.source, NOW_NS + 1, 3, 5);
    f.fs->fail_write = ENOSPC;
    f.fs->torn = true;
    CHECK_INT(t, append_profile(&f, p, "b", NULL, &out), -ENOSPC);
    CHECK_INT(t, stored_profiles(&f), 1);
    f.fs->fail_write = 0;
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_STORED);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 2);
    CHECK_INT(t, find_everything(t, &f).n_samples, 10);
    fixture_done(&f);
}

static void a_failed_sync_ends_writing(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    struct store_stat stat;

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    struct profile *p = make_profile(f.source, NOW_NS + 1, 3, 5);
    f.fs->fail_sync = EIO;
    CHECK_INT(t, append_profile(&f, p, "a", NULL, &out), -EIO);
    f.fs->fail_sync = 0;
    CHECK_INT(t, append_profile(&f, p, "a", NULL, &out), -EROFS);
    CHECK(t, strstr(f.err.text, "writing has stopped") != NULL);
    CHECK(t, strstr(f.err.text, "made to fail") != NULL);
    CHECK(t, strstr(f.log, "writing has stopped") != NULL);
    store_stat(f.store, &stat);
    CHECK(t, stat.is_read_only);
    CHECK(t, strstr(stat.trouble, "made to fail") != NULL);
    CHECK_INT(t, find_everything(t, &f).n, 1); /* reading goes on */
    fixture_close(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, stored_profiles(&f) >= 1);
    struct store_outcome again;
    CHECK_INT(t, append_profile(&f, make_profile(f.source, NOW_NS + 1, 3, 5), "a", NULL, &again),
              0);
    CHECK_INT(t, find_everything(t, &f).n, 2); /* once, whether it was there or not */
    fixture_done(&f);
}

static void a_full_disk_is_refused_before_it_is_full(struct test *t)
{
    struct fixture f;
    struct store_outcome out;

    fixture_init(t, &f);
    fixture_crash(&f);
    f.options.disk_reserve = (uint64_t)64 << 20;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    f.fs->free_bytes = 1 << 20;
    f.clock.monotonic_ns += SEC_NS;
    struct profile *p = make_profile(f.source, NOW_NS + 1, 0, 5);
    CHECK_INT(t, append_profile(&f, p, "a", NULL, &out), -ENOSPC);
    CHECK_STR(t, f.err.text,
              "disk nearly full: 1.0 MiB free, and writes are refused below 64 MiB to keep the "
              "store sound");
    CHECK_INT(t, find_everything(t, &f).n, 1);
    f.fs->free_bytes = (uint64_t)1 << 30;
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    fixture_done(&f);
}

static void memory_has_a_limit_that_a_flush_relieves(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    int r = 0;

    fixture_init(t, &f);
    fixture_crash(&f);
    f.options.memory_limit = (size_t)4 << 20;
    CHECK_INT(t, fixture_open(&f), 0);
    unsigned n = 0;
    for (; n < 5000 && r == 0; n++) {
        f.clock.monotonic_ns += SEC_NS;
        r = append_profile(&f, make_profile(f.source, NOW_NS + n, 0, 500), "a", NULL, &out);
        store_source_reset(f.source);
    }
    CHECK_INT(t, r, -EAGAIN);
    CHECK(t, strstr(f.err.text, "memory limit of 4.0 MiB reached") != NULL);
    CHECK(t, local_of(f.store)->flush_wanted);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    CHECK(t, !local_of(f.store)->flush_wanted);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + n, 0, 500), "a", NULL, STORE_STORED);
    CHECK_INT(t, find_everything(t, &f).n, n);
    fixture_done(&f);
}

static void sources_count_and_begin_anew_when_memory_is_short(struct test *t)
{
    struct fixture f;

    fixture_init(t, &f);
    fixture_crash(&f);
    f.options.memory_limit = (size_t)8 << 20;
    CHECK_INT(t, fixture_open(&f), 0);
    struct local *l = local_of(f.store);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    CHECK(t, l->source_bytes >= f.source->budget.used);
    store_source_reset(f.source);
    CHECK_INT(t, f.source->generation, 1);

    while (f.source->budget.used <= local_source_bytes(l)) {
        char name[32];
        snprintf(name, sizeof(name), "function %zu", f.source->set->dict->strings.len);
        (void)dict_cstring(f.source->set->dict, name);
    }
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 1, 0, 5), "a", NULL, STORE_STORED);
    CHECK(t, l->source_bytes > local_source_bytes(l));
    store_source_reset(f.source);
    CHECK_INT(t, f.source->generation, 2);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 2, 0, 5), "a", NULL, STORE_STORED);
    CHECK(t, l->source_bytes < local_source_bytes(l));
    store_source_reset(f.source);
    CHECK_INT(t, f.source->generation, 2);

    struct store_source *other;
    size_t before = l->source_bytes;
    CHECK_INT(t, store_source_new(f.store, 0, &other, &f.err), 0);
    store_source_free(other);
    CHECK_INT(t, l->source_bytes, before);
    fixture_done(&f);
}

static void side_rows_and_labels_of_samples_come_back(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 3);
    struct dict *d = p->dict;
    uint32_t attribute =
        dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_cstring(d, "worker"));
    struct sample s = {.node = p->node[0],
                       .attrs = dict_attrs(d, &attribute, 1),
                       .link = dict_link(d, (struct link){{7}, {8}}),
                       .time_ns = (uint64_t)NOW_NS + 5,
                       .values = (int64_t[]){100}};
    profile_add(p, &s);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    const struct row *row = local_of(f.store)->head->rows.data[0];
    CHECK_INT(t, row->n_samples, 4);
    CHECK_INT(t, row->totals[0], 133);
    fixture_reopen(t, &f);
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .has_trace = true, .trace_id = {7}};
    struct everything e = {0};
    CHECK_INT(t, store_profiles(f.store, &find, count_found, &e, &f.err), 0);
    CHECK_INT(t, e.n, 1);
    find.trace_id[0] = 6;
    CHECK_INT(t, store_profiles(f.store, &find, count_found, &e, &f.err), 0);
    CHECK_INT(t, e.n, 1);
    fixture_done(&f);
}

static int first_names(void *ctx, const struct store_found *found)
{
    const struct dict *d = found->profile->dict;
    struct buf *out = ctx;
    for (size_t i = 1; i < d->functions.len; i++)
        buf_addf(out, "%s %s\n", dict_cstr(d, d->functions.data[i].name),
                 dict_cstr(d, d->functions.data[i].file));
    for (size_t i = 1; i < d->attributes.len; i++) {
        if (strcmp(dict_cstr(d, d->attributes.data[i].key), "key") == 0)
            buf_addf(out, "%s\n", dict_cstr(d, d->attributes.data[i].text));
    }
    return 0;
}

static void names_are_kept_as_the_source_rewrites_them(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = profile_set_add(f.source->set);
    struct dict *d = p->dict;
    uint32_t text = dict_cstring(d, "same"), other[STORE_ROLES], to[STORE_ROLES][16] = {{0}};
    static const char *const names[] = {"a name", "a path", "a value"};
    for (int i = 0; i < STORE_ROLES; i++) {
        other[i] = dict_cstring(d, names[i]);
        to[i][text] = other[i];
        f.source->rewrites[i] = (struct store_rewrite){to[i], 16};
    }
    uint32_t attribute = dict_string_attribute(d, dict_cstring(d, "key"), text);
    struct sample s = {.node =
                           dict_frame(d, 0, (struct function){.name = text, .file = text}, 0, 0, 0),
                       .attrs = dict_attrs(d, &attribute, 1),
                       .values = (int64_t[]){1}};
    profile_add_ctype(p, "cpu", "nanoseconds");
    profile_add(p, &s);
    p->time_unix_ns = NOW_NS;
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    struct buf out = {0};
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};
    CHECK_INT(t, store_profiles(f.store, &find, first_names, &out, &f.err), 0);
    CHECK_STR(t, buf_cstr(&out), "a name a path\na value\n");
    buf_done(&out);
    memset(f.source->rewrites, 0, sizeof(f.source->rewrites));
    fixture_done(&f);
}

static void senders_with_the_same_labels_are_told_apart(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct label label = test_label(LABEL_SERVICE, "s");
    struct store_incoming in = {
        .profile = make_profile(f.source, NOW_NS, 0, 3), .labels = &label, .n_labels = 1};
    static const enum store_verdict want[] = {STORE_STORED, STORE_STORED, STORE_STORED,
                                              STORE_DUPLICATE, STORE_DUPLICATE};
    static const uint64_t senders[] = {0, 1, 2, 1, 0};
    for (size_t i = 0; i < 5; i++) {
        struct store_outcome out;
        in.sender = senders[i];
        CHECK_INT(t, store_append(f.source, bytes_of("default"), &in, 1, &out, &f.err), 0);
        CHECK_INT(t, out.verdict, want[i]);
    }
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(stores_and_finds_again),
    TEST(survives_a_crash),
    TEST(keeps_everything_when_closed),
    TEST(stores_a_retry_once),
    TEST(what_cannot_be_looked_up_is_not_guessed),
    TEST(two_idle_pods_are_two),
    TEST(a_batch_is_judged_one_by_one),
    TEST(rejections_name_their_limit),
    TEST(too_many_series_are_refused_by_name),
    TEST(one_tenant_may_have_more_or_fewer_series),
    TEST(tenants_have_sound_names),
    TEST(threads_share_syncs),
    TEST(flushes_and_questions_go_on_meanwhile),
    TEST(a_failed_write_stores_nothing_and_can_be_tried_again),
    TEST(a_failed_sync_ends_writing),
    TEST(a_full_disk_is_refused_before_it_is_full),
    TEST(memory_has_a_limit_that_a_flush_relieves),
    TEST(sources_count_and_begin_anew_when_memory_is_short),
    TEST(side_rows_and_labels_of_samples_come_back),
    TEST(names_are_kept_as_the_source_rewrites_them),
    TEST(senders_with_the_same_labels_are_told_apart),
};
TEST_MAIN(cases)
