#include "segment/chunk_log.h"
#include "segment/file_name.h"
#include "store/selector.h"
#include "store_local/epoch_names.h"
#include "store_local/store_fixture.h"

#define N_SERVICES 50
#define KNOWS      17 /* the service that has the function */

static struct profile *profile_of(struct fixture *f, const char *function, unsigned first)
{
    struct profile *p = make_profile(f->source, NOW_NS, first, 20);

    if (function) {
        struct function needle = {.name = dict_cstring(p->dict, function)};
        profile_add_value(p, dict_frame(p->dict, 0, needle, 1, 0, 0), 7);
    }
    return p;
}

static void append_to(struct test *t, struct fixture *f, struct profile *p, const char *service,
                      bool is_instant)
{
    struct label label = test_label(LABEL_SERVICE, service);
    struct store_incoming in = {
        .profile = p, .labels = &label, .n_labels = 1, .is_instant = is_instant};
    struct store_outcome outcome = {0};

    CHECK_INT(t, store_append(f->source, BYTES("default"), &in, 1, &outcome, &f->err), 0);
    CHECK_INT(t, outcome.verdict, STORE_STORED);
    store_source_reset(f->source);
}

static void flush(struct test *t, struct fixture *f)
{
    CHECK_INT(t, store_upkeep(f->store, UPKEEP_FLUSH, &f->err), 1);
}

static void fill_services(struct test *t, struct fixture *f)
{
    for (unsigned i = 0; i < N_SERVICES; i++) {
        char service[16];
        snprintf(service, sizeof(service), "svc-%02u", i);
        append_to(t, f, profile_of(f, i == KNOWS ? "needle" : NULL, 100 * i), service, false);
    }
    flush(t, f);
}

static size_t n_resident(struct fixture *f)
{
    struct local *l = local_of(f->store);
    size_t n = 0;

    for (size_t i = 0; i < l->epochs.len; i++)
        n += l->epochs.data[i]->dict != NULL;
    return n;
}

static struct store_answer *ask(struct test *t, struct fixture *f, struct store_plan plan)
{
    static const struct bytes by = BYTES(LABEL_SERVICE);
    CLEANUP(selector_freep) struct selector *selector = NULL;
    struct store_answer *answer = store_answer_new((size_t)64 << 20);

    CHECK_INT(t, selector_parse(BYTES("{}"), &selector, &f->err), 0);
    plan.tenant = BYTES("default");
    plan.selector = selector;
    plan.to_ns = INT64_MAX;
    plan.group_by = &by;
    plan.n_group_by = 1;
    CHECK_INT(t, store_aggregate(f->store, &plan, answer, &f->err), 0);
    CHECK(t, !answer->is_incomplete);
    return answer;
}

static struct store_answer *ask_function(struct test *t, struct fixture *f, const char *name)
{
    return ask(t, f, (struct store_plan){.what = PLAN_FUNCTION, .function = bytes_of(name)});
}

static void dictionaries_without_the_name_stay_unread(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill_services(t, &f);
    fixture_reopen(t, &f);
    CHECK_INT(t, n_resident(&f), 0);

    for (int round = 0; round < 2; round++) { /* from files, then from the cache */
        CLEANUP(store_answer_freep)
        struct store_answer *none = ask_function(t, &f, "nobody has it");
        CHECK_INT(t, none->cells.len, N_SERVICES);
        CHECK_INT(t, none->samples_read, 0);
        CHECK_INT(t, n_resident(&f), 0);
    }
    CLEANUP(store_answer_freep) struct store_answer *one = ask_function(t, &f, "needle");
    CHECK_INT(t, n_resident(&f), 1);
    CHECK_INT(t, one->cells.len, N_SERVICES); /* zeros are answers too */
    for (size_t i = 0; i < one->cells.len; i++) {
        const struct store_cell *c = &one->cells.data[i];
        bool knows = bytes_are(one->groups.data[c->group]->value, "svc-17");
        CHECK_INT(t, c->n_profiles, 1);
        CHECK_INT(t, c->value, knows ? 7 : 0);
        CHECK_INT(t, c->flat, knows ? 7 : 0);
    }

    CLEANUP(store_answer_freep) struct store_answer *main = ask_function(t, &f, "main");
    CHECK_INT(t, n_resident(&f), N_SERVICES);
    CHECK(t, main->cells.data[0].value > 0);
    CLEANUP(store_answer_freep) struct store_answer *again = ask_function(t, &f, "needle");
    CHECK_INT(t, again->cells.len, one->cells.len);
    for (size_t i = 0; i < one->cells.len; i++)
        CHECK_INT(t, again->cells.data[i].value, one->cells.data[i].value);
    fixture_done(&f);
}

/* What has no name is in no list. */
static void unnamed_functions_are_looked_for_everywhere(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = profile_of(&f, NULL, 0);
    uint32_t place = dict_location(p->dict, (struct location){.address = 77}, NULL, 0);
    profile_add_value(p, dict_node(p->dict, 0, place), 5);
    append_to(t, &f, p, "raw", false);
    flush(t, &f);
    fixture_reopen(t, &f);
    CLEANUP(store_answer_freep) struct store_answer *answer = ask_function(t, &f, "");
    CHECK_INT(t, answer->cells.data[0].value, 5);
    fixture_done(&f);
}

/* The last moment is the last, also where it has nothing of the function. */
static void moments_without_the_function_still_are_moments(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "needle", 0), "heap", true);
    flush(t, &f);
    f.clock.wall_ns += 2 * EPOCH_AGE_MAX_NS;
    f.clock.monotonic_ns += 2 * EPOCH_AGE_MAX_NS;
    struct profile *later = profile_of(&f, NULL, 0);
    later->time_unix_ns = f.clock.wall_ns;
    append_to(t, &f, later, "heap", true);
    CHECK_INT(t, local_of(f.store)->epochs.len, 2);

    for (int round = 0; round < 2; round++) { /* in memory, then in files */
        struct store_plan plan = {
            .what = PLAN_FUNCTION, .function = BYTES("needle"), .instant = INSTANT_LAST};
        CLEANUP(store_answer_freep) struct store_answer *last = ask(t, &f, plan);
        CHECK_INT(t, last->cells.len, 1);
        CHECK_INT(t, last->cells.data[0].value, 0);
        plan.instant = INSTANT_SUM;
        CLEANUP(store_answer_freep) struct store_answer *sum = ask(t, &f, plan);
        CHECK_INT(t, sum->cells.data[0].value, 7);
        CHECK_INT(t, sum->cells.data[0].n_profiles, 2);
        if (round == 0) {
            flush(t, &f);
            fixture_reopen(t, &f);
        }
    }
    fixture_done(&f);
}

/* ---- Lists */

static int may_know(struct fixture *f, const char *function)
{
    struct local *l = local_of(f->store);

    pthread_mutex_lock(&l->lock);
    int r = epoch_may_know(l, l->epochs.data[0], bytes_of(function));
    pthread_mutex_unlock(&l->lock);
    return r;
}

static void every_flush_adds_to_the_list(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "one", 0), "svc", false);
    CHECK_INT(t, may_know(&f, "one"), 1);
    CHECK_INT(t, may_know(&f, "two"), 0);
    flush(t, &f);
    struct profile *p = profile_of(&f, "two", 0);
    p->time_unix_ns++;
    append_to(t, &f, p, "svc", false);
    flush(t, &f);
    fixture_reopen(t, &f);
    CHECK(t, !local_of(f.store)->epochs.data[0]->dict);
    CHECK_INT(t, may_know(&f, "one"), 1);
    CHECK_INT(t, may_know(&f, "two"), 1);
    CHECK_INT(t, may_know(&f, "step3"), 1);
    CHECK_INT(t, may_know(&f, "w.c"), 0); /* a file, not a function */
    CHECK_INT(t, may_know(&f, "three"), 0);
    CHECK_INT(t, may_know(&f, ""), 1);
    CHECK_INT(t, store_verify(f.store, NULL, NULL, &f.err), 0);
    fixture_done(&f);
}

struct copied {
    struct chunk_log log;
    uint64_t end;
    struct bytes list; /* instead of what was there */
};

static int copy_chunk(void *arg, uint64_t offset, struct bytes payload, struct error *err)
{
    struct copied *c = arg;

    (void)offset;
    return chunk_log_append_listed(&c->log, c->end, payload, c->list, &c->end, err);
}

/* Writes the first epoch's file anew, with this list in place of those it had. */
static void rewrite(struct test *t, struct fixture *f, struct bytes list)
{
    struct local *l = local_of(f->store);
    struct epoch *e = l->epochs.data[0];
    struct file_name name = file_name("dict", e->id, "dict");
    struct chunk_log log = {l->fs, name.text, e->id};
    struct copied c = {{l->fs, "dict/copy", e->id}, 0, list};
    struct chunk_report report;

    CHECK_INT(
        t,
        chunk_log_read(&log, e->file_len, (struct chunk_visitor){copy_chunk, &c}, &report, &f->err),
        0);
    CHECK_INT(t, fs_rename(l->fs, "dict/copy", name.text, &f->err), 0);
    e->file_len = c.end;
}

static void files_without_lists_may_know_anything(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "one", 0), "svc", false);
    flush(t, &f);
    fixture_reopen(t, &f);
    rewrite(t, &f, BYTES(""));
    CHECK_INT(t, may_know(&f, "nobody has it"), 1);
    CLEANUP(store_answer_freep) struct store_answer *answer = ask_function(t, &f, "one");
    CHECK_INT(t, answer->cells.data[0].value, 7);
    CHECK_INT(t, may_know(&f, "nobody has it"), 0); /* now it is resident */
    fixture_done(&f);
}

/* Sums that hold, and something else than a list. */
static void malformed_lists_may_know_anything(struct test *t)
{
    static const struct bytes lists[] = {
        BYTES("\x80"),                     /* no number */
        BYTES("\1"),                       /* no second one */
        BYTES("\2\4"),                     /* not where the one before ended */
        BYTES("\1\1"),                     /* too few */
        BYTES("\1\x17\xff\xff\xff\xff\1"), /* no hash */
        BYTES("\1\x17\1\x80"),             /* cut */
        BYTES("\xff\xff\xff\xff\xff\xff\1\1"),
        BYTES("\1\xff\xff\xff\xff\xff\xff\1"),
    };
    struct fixture f;

    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "one", 0), "svc", false);
    CHECK_INT(t, local_of(f.store)->epochs.data[0]->dict->functions.len, 1 + 0x17);
    flush(t, &f);
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        fixture_reopen(t, &f);
        rewrite(t, &f, lists[i]);
        CHECK_INT(t, may_know(&f, "nobody has it"), 1);
    }
    rewrite(t, &f, BYTES("\1\x17\1\2"));
    CHECK_INT(t, may_know(&f, "nobody has it"), 0);
    fixture_done(&f);
}

static void damaged_lists_may_know_anything(struct test *t)
{
    struct fixture f;
    struct fs_file *file = NULL;
    uint8_t last;

    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "one", 0), "svc", false);
    flush(t, &f);
    fixture_reopen(t, &f);
    struct epoch *e = local_of(f.store)->epochs.data[0];
    struct file_name name = file_name("dict", e->id, "dict");
    CHECK_INT(t, fs_open(&f.fs->fs, name.text, FS_WRITE, &file, NULL), 0);
    CHECK_INT(t, fs_pread(file, &last, 1, e->file_len - 1, NULL), 1);
    last ^= 1;
    CHECK_INT(t, fs_pwrite(file, &last, 1, e->file_len - 1, NULL), 0);
    fs_close(file);
    CHECK_INT(t, may_know(&f, "nobody has it"), 1);
    CHECK_INT(t, store_verify(f.store, NULL, NULL, &f.err), -EUCLEAN);
    CHECK_INT(t, fs_unlink(&f.fs->fs, name.text, NULL), 0);
    CHECK_INT(t, may_know(&f, "nobody has it"), 1);
    e->is_damaged = true;
    CHECK_INT(t, may_know(&f, "nobody has it"), 1);
    fixture_done(&f);
}

static void find_bad(void *ctx, bool is_bad, const char *text)
{
    if (is_bad && strstr(text, "does not name the functions before it"))
        ++*(unsigned *)ctx;
}

static void verify_compares_lists_with_names(struct test *t)
{
    struct fixture f;
    unsigned n_bad = 0;

    fixture_init(t, &f);
    append_to(t, &f, profile_of(&f, "one", 0), "svc", false);
    flush(t, &f);
    rewrite(t, &f, BYTES("\1\1\1\2\3"));
    CHECK_INT(t, store_verify(f.store, find_bad, &n_bad, &f.err), -EUCLEAN);
    CHECK_INT(t, n_bad, 1);
    fixture_done(&f);
}

static void malformed_lists_are_never_right(struct test *t)
{
    CLEANUP(epoch_freep) struct epoch *e = epoch_new(7, 1, BYTES("svc"), NOW_NS);
    CLEANUP(buf_done) struct buf list = {0};
    struct dict *d = e->dict;

    (void)dict_function(d, (struct function){.name = dict_cstring(d, "b"), .start_line = 1});
    (void)dict_function(d, (struct function){.name = dict_cstring(d, "a")});
    (void)dict_function(d, (struct function){.name = dict_cstring(d, "b"), .start_line = 2});
    (void)dict_function(d, (struct function){.system_name = dict_cstring(d, "c")});
    epoch_encode_names(d, 1, (uint32_t)d->functions.len, &list);
    CHECK(t, list.len > 2 + 2 && list.len <= 2 + 2 * 4); /* each once, none without a name */
    CHECK(t, epoch_names_are_right(d, buf_bytes(&list)));
    for (size_t n = 0; n < list.len; n++)
        CHECK(t, !epoch_names_are_right(d, (struct bytes){list.data, n}));
    for (size_t at = 2; at < list.len; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            list.data[at] ^= (uint8_t)(1u << bit);
            CHECK(t, !epoch_names_are_right(d, buf_bytes(&list)));
            list.data[at] ^= (uint8_t)(1u << bit);
        }
    }
}

static const struct test_case cases[] = {
    TEST(dictionaries_without_the_name_stay_unread),
    TEST(unnamed_functions_are_looked_for_everywhere),
    TEST(moments_without_the_function_still_are_moments),
    TEST(every_flush_adds_to_the_list),
    TEST(files_without_lists_may_know_anything),
    TEST(malformed_lists_may_know_anything),
    TEST(damaged_lists_may_know_anything),
    TEST(verify_compares_lists_with_names),
    TEST(malformed_lists_are_never_right),
};
TEST_MAIN(cases)
