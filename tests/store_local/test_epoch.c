#include "store_local/store_fixture.h"

/* An epoch with something of everything, `n` frames deep. */
static void fill(struct epoch *e, unsigned from, unsigned n)
{
    struct dict *d = e->dict;
    char name[32];

    for (unsigned i = from; i < from + n; i++) {
        snprintf(name, sizeof(name), "function%u", i);
        uint32_t key = dict_cstring(d, "thread.name"), text = dict_cstring(d, name);
        uint32_t ids[2] = {dict_string_attribute(d, key, text),
                           dict_int_attribute(d, key, -(int64_t)i, text)};
        uint32_t attrs = dict_attrs(d, ids, 1 + i % 2);
        uint32_t mapping = dict_mapping(d, (struct mapping){.start = 0x1000u * (i + 1),
                                                            .limit = 0x2000u * (i + 1),
                                                            .offset = i,
                                                            .file = text,
                                                            .attrs = attrs,
                                                            .has_filenames = i & 1,
                                                            .has_inline_frames = i & 2});
        uint32_t f = dict_function(
            d, (struct function){.name = text, .file = key, .start_line = -(int64_t)i});
        struct line lines[2] = {{f, i, -1}, {f, INT64_MAX, INT64_MIN}};
        uint32_t location = dict_location(
            d,
            (struct location){
                .address = UINT64_MAX - i, .mapping = mapping, .attrs = attrs, .is_folded = i & 1},
            lines, i % 3);
        dict_node(d, (uint32_t)dict_n_nodes(d) - 1, location);
        dict_node(d, 0, location);
    }
    (void)epoch_update_hashes(e);
}

static struct epoch *new_epoch(void)
{
    return epoch_new(7, 1, bytes_of("checkout"), NOW_NS);
}

static bool same_hashes(const struct epoch *a, const struct epoch *b)
{
    return a->node_hash.len == b->node_hash.len && a->attrs_hash.len == b->attrs_hash.len &&
           memcmp(a->node_hash.data, b->node_hash.data, a->node_hash.len * 8) == 0 &&
           memcmp(a->attrs_hash.data, b->attrs_hash.data, a->attrs_hash.len * 8) == 0;
}

static void comes_back_with_the_same_ids(struct test *t)
{
    CLEANUP(epoch_freep) struct epoch *a = new_epoch(), *b = new_epoch();
    CLEANUP(buf_done) struct buf first = {0};
    CLEANUP(buf_done) struct buf second = {0};
    struct epoch_mark zero = epoch_mark_of(a->dict), from, to;
    struct error err = {0};

    fill(a, 0, 40);
    struct epoch_mark middle = epoch_mark_of(a->dict);
    epoch_encode(a->dict, &zero, &middle, &first);
    fill(a, 20, 60);
    struct epoch_mark end = epoch_mark_of(a->dict);
    epoch_encode(a->dict, &middle, &end, &second);
    CHECK_INT(t, epoch_encoded_marks(buf_bytes(&second), &from, &to), 0);
    CHECK(t, epoch_mark_equal(&from, &middle));
    CHECK(t, epoch_mark_equal(&to, &end));

    CHECK_INT(t, epoch_apply(b, buf_bytes(&second), &err), -ESTALE);
    CHECK_STR(t, err.text, "an earlier part of the dictionary is missing");
    CHECK_INT(t, epoch_apply(b, buf_bytes(&first), &err), 0);
    CHECK_INT(t, epoch_apply(b, buf_bytes(&first), &err), 0); /* there already */
    CHECK_INT(t, epoch_apply(b, buf_bytes(&second), &err), 0);
    CHECK_INT(t, epoch_apply(b, buf_bytes(&first), &err), 0);
    struct epoch_mark is = epoch_mark_of(b->dict);
    CHECK(t, epoch_mark_equal(&is, &end));
    CHECK(t, same_hashes(a, b));
    CHECK_STR(t, dict_cstr(b->dict, b->dict->functions.data[30].name),
              dict_cstr(a->dict, a->dict->functions.data[30].name));
    CHECK_INT(t, b->dict->locations.data[5].n_lines, a->dict->locations.data[5].n_lines);
    CHECK_INT(t, b->dict->mappings.data[4].limit, a->dict->mappings.data[4].limit);

    /* All at once over a part that is there. */
    CLEANUP(epoch_freep) struct epoch *c = new_epoch();
    CLEANUP(buf_done) struct buf all = {0};
    epoch_encode(a->dict, &zero, &end, &all);
    CHECK_INT(t, epoch_apply(c, buf_bytes(&first), &err), 0);
    CHECK_INT(t, epoch_apply(c, buf_bytes(&all), &err), 0);
    CHECK(t, same_hashes(a, c));
}

static void damage_is_refused_and_leaves_it_sound(struct test *t)
{
    CLEANUP(epoch_freep) struct epoch *a = new_epoch();
    CLEANUP(buf_done) struct buf all = {0};
    struct epoch_mark zero = epoch_mark_of(a->dict), end;
    struct error err;

    fill(a, 0, 6);
    end = epoch_mark_of(a->dict);
    epoch_encode(a->dict, &zero, &end, &all);
    for (size_t n = 0; n < all.len; n++) {
        CLEANUP(epoch_freep) struct epoch *b = new_epoch();
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, all.data, n);
        CHECK_INT(t, epoch_apply(b, (struct bytes){cut, n}, &err), -EBADMSG);
        free(cut);
    }
    for (size_t n = 0; n < all.len; n++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            CLEANUP(epoch_freep) struct epoch *b = new_epoch();
            all.data[n] ^= (uint8_t)(1u << bit);
            int r = epoch_apply(b, buf_bytes(&all), &err);
            CHECK(t, r == 0 || r == -EBADMSG || r == -ESTALE);
            CHECK_INT(t, b->node_hash.len, dict_n_nodes(b->dict));
            all.data[n] ^= (uint8_t)(1u << bit);
        }
    }
}

static void a_spent_budget_is_named(struct test *t)
{
    CLEANUP(epoch_freep) struct epoch *a = new_epoch(), *b = new_epoch();
    CLEANUP(buf_done) struct buf all = {0};
    struct epoch_mark zero = epoch_mark_of(a->dict), end;
    struct error err;

    fill(a, 0, 500);
    end = epoch_mark_of(a->dict);
    epoch_encode(a->dict, &zero, &end, &all);
    b->budget.limit = b->budget.used + 20000;
    CHECK_INT(t, epoch_apply(b, buf_bytes(&all), &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "memory limit of") != NULL);
    b->budget.limit = (size_t)1 << 30;
    CHECK_INT(t, epoch_apply(b, buf_bytes(&all), &err), 0); /* goes on where it stopped */
    CHECK(t, same_hashes(a, b));
}

static void marks_are_compared_whole(struct test *t)
{
    struct epoch_mark a = {.strings = 3, .nodes = 2}, b = {.strings = 2, .nodes = 2};
    CHECK(t, epoch_mark_covers(&a, &b));
    CHECK(t, !epoch_mark_covers(&b, &a));
    CHECK(t, !epoch_mark_equal(&a, &b));
    epoch_mark_max(&b, &a);
    CHECK(t, epoch_mark_equal(&a, &b));
}

/* What readers hold stays where it is while more is added; what is idle can go and come back. */
static void idle_ones_are_dropped_and_read_again(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct local *l = local_of(f.store);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 50), "a", NULL, STORE_STORED);
    struct epoch *e = l->epochs.data[0];
    pthread_mutex_lock(&l->lock);
    CHECK_INT(t, local_evict_epochs(l, 1), 0); /* only memory and the WAL have it */
    pthread_mutex_unlock(&l->lock);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);

    pthread_mutex_lock(&l->lock);
    CHECK_INT(t, epoch_acquire(l, e, &f.err), 0);
    struct dict view = epoch_view(e);
    CHECK_INT(t, local_evict_epochs(l, 1), 0);
    pthread_mutex_unlock(&l->lock);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 1, 50, 5000), "a", NULL, STORE_STORED);
    CHECK(t, view.node_parent.data != e->dict->node_parent.data);
    for (uint32_t i = 1; i < view.node_parent.len; i++)
        CHECK_INT(t, view.node_parent.data[i], e->dict->node_parent.data[i]);
    pthread_mutex_lock(&l->lock);
    CHECK(t, e->keep.bytes > 0);
    epoch_release(l, e);
    CHECK_INT(t, e->keep.bytes, 0);
    pthread_mutex_unlock(&l->lock);

    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    pthread_mutex_lock(&l->lock);
    CHECK(t, local_evict_epochs(l, 1) > 0);
    CHECK(t, !e->dict);
    CHECK_INT(t, epoch_bytes(e), 0);
    pthread_mutex_unlock(&l->lock);
    CHECK_INT(t, find_everything(t, &f).n_samples, 5050);
    CHECK(t, e->dict != NULL);
    fixture_done(&f);
}

static void an_old_one_makes_place_for_a_new_one(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    f.clock.wall_ns += DAY_NS + SEC_NS;
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + DAY_NS, 0, 5), "a", NULL, STORE_STORED);
    CHECK_INT(t, local_of(f.store)->epochs.len, 2);
    /* A retry is known by what it holds, though its ids are others now. */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_DUPLICATE);
    fixture_reopen(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_DUPLICATE);
    CHECK_INT(t, find_everything(t, &f).n, 2);
    CHECK_INT(t, find_everything(t, &f).sample_total, 120);
    fixture_done(&f);
}

static void attribute_sets_are_capped(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 1);
    struct dict *d = p->dict;
    char text[32];
    for (unsigned i = 0; i < EPOCH_ATTR_SETS_MAX + 500; i++) {
        snprintf(text, sizeof(text), "request%u", i);
        uint32_t a = dict_string_attribute(d, dict_cstring(d, "id"), dict_cstring(d, text));
        profile_add(p, &(struct sample){.node = p->node[0],
                                        .attrs = dict_attrs(d, &a, 1),
                                        .values = (int64_t[]){1}});
    }
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    struct epoch *e = local_of(f.store)->epochs.data[0];
    CHECK(t, e->dict->attr_sets.len <= EPOCH_ATTR_SETS_MAX + 2);
    CHECK_INT(t, find_everything(t, &f).sample_total, 10 + EPOCH_ATTR_SETS_MAX + 500);
    CHECK(t, dict_find_string(e->dict, bytes_of("other")) != 0);
    /* Sets that are there stay themselves, by another source's ids too. */
    fixture_reopen(t, &f);
    uint32_t before = (uint32_t)find_everything(t, &f).n;
    struct profile *q = make_profile(f.source, NOW_NS + 1, 0, 0);
    d = q->dict;
    uint32_t a = dict_string_attribute(d, dict_cstring(d, "id"), dict_cstring(d, "request7"));
    uint32_t node = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "x")}, 1, 0, 0);
    profile_add(
        q, &(struct sample){.node = node, .attrs = dict_attrs(d, &a, 1), .values = (int64_t[]){1}});
    CHECK_APPEND(t, &f, q, "a", NULL, STORE_STORED);
    e = local_of(f.store)->epochs.data[0];
    CHECK(t, e->dict->attr_sets.len <= EPOCH_ATTR_SETS_MAX + 2);
    CHECK_INT(t, find_everything(t, &f).n, before + 1);
    fixture_done(&f);
}

/* One binary at two addresses is one: pods do not multiply stacks. */
static void binaries_loaded_elsewhere_are_the_same(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (uint64_t base = 0x400000; base <= 0x800000; base += 0x400000) {
        struct profile *p = make_profile(f.source, NOW_NS + (int64_t)base, 0, 0);
        struct dict *d = p->dict;
        uint32_t m = dict_mapping(d, (struct mapping){.start = base,
                                                      .limit = base + 0x1800,
                                                      .build_id = dict_cstring(d, "abc")});
        uint32_t l =
            dict_location(d, (struct location){.mapping = m, .address = base + 0x10}, NULL, 0);
        profile_add_value(p, dict_node(d, 0, l), 1);
        CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    }
    struct epoch *e = local_of(f.store)->epochs.data[0];
    CHECK_INT(t, e->dict->mappings.len, 2);
    CHECK_INT(t, e->dict->locations.len, 2);
    CHECK_INT(t, dict_n_nodes(e->dict), 2);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(comes_back_with_the_same_ids),
    TEST(damage_is_refused_and_leaves_it_sound),
    TEST(a_spent_budget_is_named),
    TEST(marks_are_compared_whole),
    TEST(idle_ones_are_dropped_and_read_again),
    TEST(an_old_one_makes_place_for_a_new_one),
    TEST(attribute_sets_are_capped),
    TEST(binaries_loaded_elsewhere_are_the_same),
};
TEST_MAIN(cases)
