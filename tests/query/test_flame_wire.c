#include <errno.h>

#include "base/le.h"
#include "lib/test.h"
#include "query/flame_wire.h"
#include "wire/json.h"
#include "wire/protobuf.h"

static uint32_t call(struct dict *d, uint32_t parent, const char *name)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0);
}

struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *profile;
};

/* main -> { a 20 -> c 40, b 30 }, before and after */
static void setup(struct fixture *f, int64_t sign)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    struct dict *d = f->set->dict;
    struct profile *p = f->profile = profile_set_add(f->set);
    profile_add_ctype(p, "before", "ms");
    profile_add_ctype(p, "after", "ms");
    uint32_t top = call(d, 0, "main"), a = call(d, top, "a"), b = call(d, top, "b");
    profile_add(p, &(struct sample){.node = a, .values = (int64_t[]){10, 20}});
    profile_add(p, &(struct sample){.node = b, .values = (int64_t[]){0, 30}});
    profile_add(p, &(struct sample){.node = call(d, a, "c"), .values = (int64_t[]){30, 40 * sign}});
}

/* A section of a written tree, found by its name. */
static struct bytes section(struct bytes out, const char *name)
{
    struct budget budget;
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    size_t length = le32_get(out.data + 12);
    struct bytes data = bytes_from(out, 16 + length), found = {0};

    json_reader_set_text(r, bytes_head(bytes_from(out, 16), length), 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!bytes_are(key, "sections")) {
            json_skip(r);
            continue;
        }
        json_enter_array(r);
        while (json_next_element(r)) {
            bool is_it = false;
            size_t offset = 0;
            json_enter_object(r);
            while (json_next_key(r, &key)) {
                if (bytes_are(key, "name"))
                    is_it = bytes_are(json_get_string(r), name);
                else if (bytes_are(key, "offset"))
                    offset = (size_t)json_get_u64(r);
                else if (is_it)
                    found = bytes_head(bytes_from(data, offset), (size_t)json_get_u64(r));
                else
                    json_skip(r);
            }
        }
    }
    return found;
}

static void check_numbers(struct test *t, struct bytes out, const char *name, const uint64_t *want,
                          size_t n)
{
    struct bytes s = section(out, name);
    const uint8_t *at = s.data, *end = s.data + s.len;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 0;
        CHECK(t, pb_varint(&at, end, &v));
        CHECK_INT(t, v, want[i]);
    }
    CHECK(t, at == end);
}
#define NUMBERS(t, out, name, ...)                                                                 \
    check_numbers((t), (out), (name), (const uint64_t[]){__VA_ARGS__},                             \
                  sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static struct buf write_tree(struct test *t, struct fixture *fx, struct flame_cut_options o)
{
    struct flame_cut f;
    struct buf out = {0};
    o.is_level_order = true;
    CHECK_INT(t, flame_cut_build(fx->profile, &o, &f, NULL), 0);
    CHECK_INT(
        t,
        flame_wire_write(&f, &(struct flame_wire_options){.members = BYTES("\"a\":1")}, &out, NULL),
        0);
    flame_cut_done(&f);
    return out;
}

static void sends_levels_in_units_that_fit(struct test *t)
{
    struct fixture fx;
    setup(&fx, 1);
    CLEANUP(buf_done)
    struct buf out = write_tree(t, &fx, (struct flame_cut_options){.type = 1});
    struct bytes b = buf_bytes(&out);
    static const char head[] =
        "{\"a\":1,\"nodes\":5,\"frames\":5,\"scale\":10,\"is_signed\":false,";
    CHECK(t, memcmp(b.data, "VESTATRE\1\0\0\0", 12) == 0);
    CHECK(t, memcmp(b.data + 16, head, sizeof(head) - 1) == 0);
    NUMBERS(t, b, "children", 1, 2, 1, 0, 0);
    NUMBERS(t, b, "self", 0, 0, 2, 3, 4);
    NUMBERS(t, b, "frame", 0, 1, 2, 3, 4);
    NUMBERS(t, b, "frame_name", 1, 2, 3, 4, 5);
    struct bytes strings = section(b, "strings");
    CHECK(t, bytes_equal(strings, BYTES("\0\4root\4main\1a\1b\1c")));
    CHECK_INT(t, section(b, "hidden").len, 0);
    CHECK(t, !section(b, "before").data);
    profile_set_free(fx.set);
}

static void sends_both_sides_with_signs_and_what_was_cut(struct test *t)
{
    struct fixture fx;
    setup(&fx, -1);
    CLEANUP(buf_done)
    struct buf out = write_tree(
        t, &fx,
        (struct flame_cut_options){.type = 1, .compares = true, .base_type = 0, .max_nodes = 3});
    struct bytes b = buf_bytes(&out);
    /* root, main, a; c (heavier than a itself) would be the fourth, b is the lightest. */
    NUMBERS(t, b, "children", 1, 1, 0);
    NUMBERS(t, b, "self", 0, 0, 4);
    NUMBERS(t, b, "before", 0, 0, 2);
    NUMBERS(t, b, "hidden", 1, 1, 6, 0, 1, 1, 7, 6);
    profile_set_free(fx.set);
}

static void ends_where_the_budget_does(struct test *t)
{
    for (size_t bytes = 0; bytes < 40000; bytes += 512) {
        struct fixture fx;
        struct flame_cut f;
        struct error err = {0};
        CLEANUP(buf_done) struct buf out = {0};
        setup(&fx, 1);
        fx.budget.limit = fx.budget.used + bytes;
        int r = flame_cut_build(fx.profile, &(struct flame_cut_options){.is_level_order = true}, &f,
                                &err);
        if (r == 0)
            r = flame_wire_write(&f, &(struct flame_wire_options){0}, &out, &err);
        CHECK(t, r == 0 || r == -ENOBUFS);
        CHECK(t, (r == 0) == (err.text[0] == '\0'));
        flame_cut_done(&f);
        profile_set_free(fx.set);
        CHECK_INT(t, fx.budget.used, 0);
    }
}

static const struct test_case cases[] = {TEST(sends_levels_in_units_that_fit),
                                         TEST(sends_both_sides_with_signs_and_what_was_cut),
                                         TEST(ends_where_the_budget_does)};
TEST_MAIN(cases)
