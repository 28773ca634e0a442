/* Recordings that are no recordings, and too little memory. */
#include <errno.h>
#include <stdio.h>

#include "formats/jfr.h"
#include "formats/jfr_builder.h"

static void check_refused(struct test *t, struct recording *w, const char *why)
{
    struct budget b;
    struct error err = {""};
    budget_init(&b, 64 << 20);
    struct profile_set *set = profile_set_new(&b);
    CHECK_INT(t, read_bytes(buf_bytes(&w->b), set, &err), -EBADMSG);
    if (!strstr(err.text, why))
        CHECK_STR(t, err.text, why);
    CHECK_INT(t, set->profiles.len, 0);
    profile_set_free(set);
    buf_done(&w->b);
}

static void refuses_headers_that_cannot_be_and_says_why(struct test *t)
{
    static const struct {
        size_t at;
        int width;
        uint64_t value;
        const char *why;
    } cases[] = {
        {0, 1, 'X', "t: jfr at byte 0: a chunk does not begin with \"FLR\""},
        {4, 2, 3, "jfr at byte 0: version 3.1 cannot be read; versions 1.x and 2.x can"},
        {8, 8, 0, "jfr at byte 0: the chunk is unfinished: the recording was not closed"},
        {8, 8, 67, "jfr at byte 0: the chunk is said to be 67 bytes long and "},
        {8, 8, UINT64_MAX,
         "jfr at byte 0: the chunk is said to be 18446744073709551615 bytes long"},
        {16, 8, 67, "the last checkpoint is said to be at 67, outside of the chunk"},
        {16, 8, 1ull << 63, "the last checkpoint is said to be at 9223372036854775808, outside"},
        {24, 8, 0, "the metadata is said to be at 0, outside of the chunk"},
        {24, 8, 1ull << 63, "the metadata is said to be at 9223372036854775808, outside of the"},
        {16, 8, 68, "jfr at byte 68: a checkpoint was expected and an event of type 0 found"},
        {24, 8, 69, "jfr at byte 78: the metadata is too short for its strings"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct recording w = {0};
        put_everything(&w);
        patch(&w, cases[i].at, cases[i].value, cases[i].width);
        check_refused(t, &w, cases[i].why);
    }
    struct recording w = {0};
    put_everything(&w);
    buf_add(&w.b, "FLR", 3);
    check_refused(t, &w, ": a chunk header of 68 bytes was expected and only 3 are left");
}

static void refuses_types_that_cannot_be_and_says_why(struct test *t)
{
    static const struct {
        struct type types[4];
        const char *why;
    } cases[] = {
        {{{200, "a", NULL, ""}, {200, "b", NULL, ""}}, ": two types have the same id"},
        {{{300, "a", NULL, "x:300"}},
         ": type \"a\" has structs nested 16 deep, or contains itself"},
        {{{300, "a", NULL, "x:300[]"}}, ": type \"a\" has structs nested 16 deep, or contains"},
        {{{300, "a", NULL, "x:301"}, {301, "b", NULL, "x:302"}, {302, "c", NULL, "x:300"}},
         ": type \"a\" has structs nested 16 deep, or contains itself"},
        {{{300, "a", NULL, "x:999"}},
         "jfr at byte 68: type \"a\" has a field \"x\" of a type that is not defined"},
        {{{300, "a\n\x7f", NULL, "x:999"}}, "type \"a??\" has a field \"x\" of a type that is not"},
        {{{300, "a", NULL, "x:q"}}, ": a field has no type id that is a number"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct type types[64] = {BASIC_TYPES};
        size_t n = ARRAY_SIZE(basic_types) - 1;
        memcpy(types + n, cases[i].types, sizeof(cases[i].types));
        struct recording w = {0};
        begin_chunk(&w);
        put_metadata(&w, types);
        begin_checkpoint(&w, 1);
        begin_pool(&w, 300, 1);
        put_long(&w, 1);
        put_fixed(&w, 0, 8);
        end_event(&w);
        end_chunk(&w);
        check_refused(t, &w, cases[i].why);
    }
}

/* Each type holds the next one twice: 2^14 fields of nothing. */
static void refuses_types_that_unfold_without_end(struct test *t)
{
    struct type types[80] = {BASIC_TYPES};
    size_t n = ARRAY_SIZE(basic_types) - 1;
    char names[15][4], fields[15][32];

    for (int i = 0; i < 15; i++) {
        snprintf(names[i], sizeof(names[i]), "t%d", i);
        snprintf(fields[i], sizeof(fields[i]), "x:%d y:%d", 301 + i, 301 + i);
        if (i == 14)
            fields[i][0] = '\0';
        types[n++] = (struct type){300 + i, names[i], NULL, fields[i]};
    }
    struct recording w = {0};
    begin_chunk(&w);
    put_metadata(&w, types);
    begin_checkpoint(&w, 1);
    begin_pool(&w, 300, 1);
    put_long(&w, 1);
    end_event(&w);
    end_chunk(&w);
    check_refused(t, &w,
                  ": type \"t0\" has more than 4096 fields, those of its structs counted in");
}

/* Metadata whose only content is what follows its strings "root" and "class". */
static void begin_bad_metadata(struct recording *w)
{
    begin_chunk(w);
    begin_metadata(w);
    put_int(w, 2);
    put_text(w, "root");
    put_text(w, "class");
}

static void end_bad(struct test *t, struct recording *w, const char *why)
{
    end_event(w);
    if (!w->last_checkpoint) {
        begin_checkpoint(w, 0);
        end_event(w);
    }
    end_chunk(w);
    check_refused(t, w, why);
}

static void refuses_metadata_that_cannot_be_and_says_why(struct test *t)
{
    struct recording w = {0};
    begin_bad_metadata(&w);
    for (int i = 0; i < 20; i++) {
        put_int(&w, 0);
        put_int(&w, 0);
        put_int(&w, 1);
    }
    end_bad(t, &w, ": the elements of the metadata are nested more than 16 deep");

    w = (struct recording){0};
    begin_bad_metadata(&w);
    put_int(&w, 7);
    end_bad(t, &w, ": the metadata names a string that it does not have");

    w = (struct recording){0};
    begin_bad_metadata(&w);
    put_int(&w, 1);
    put_int(&w, 0);
    end_bad(t, &w, ": a type has no id that is a number");

    w = (struct recording){0};
    begin_bad_metadata(&w);
    put_int(&w, 0);
    put_int(&w, 0);
    put_int(&w, 1ull << 40);
    end_bad(t, &w, ": an integer is cut short");

    w = (struct recording){0};
    begin_chunk(&w);
    begin_metadata(&w);
    put_int(&w, 1ull << 40);
    end_bad(t, &w, ": the metadata is too short for its strings");

    for (uint8_t encoding = 3; encoding <= 7; encoding++) {
        w = (struct recording){0};
        begin_chunk(&w);
        begin_metadata(&w);
        put_int(&w, 1);
        buf_add_byte(&w.b, encoding);
        put_int(&w, 1ull << 62);
        end_bad(t, &w,
                encoding < 6 ? ": a string runs past the end of what holds it"
                             : "jfr at byte 77: a string has an encoding that does not exist");
    }

    w = (struct recording){0};
    begin_chunk(&w);
    begin_metadata(&w);
    w.b.data[w.event + 4] = 5; /* not the type of metadata */
    end_bad(t, &w, "jfr at byte 68: the header points to an event that is not metadata");
}

static void refuses_constants_that_cannot_be_and_says_why(struct test *t)
{
    static const struct {
        uint64_t type, count;
        uint8_t content[12];
        const char *why;
    } cases[] = {
        {999, 1, {0}, ": a constant pool is of a type that the metadata lacks"},
        {31, 1ull << 40, {0}, ": an integer is cut short"},
        {26, 1, {1, 0, 0xff, 0xff, 0xff, 0x7f}, ": an array runs past the end of what holds it"},
        {20, 1, {1, 3, 0xff, 0xff, 0x7f}, ": a string runs past the end of what holds it"},
        {20, 1, {1, 9}, ": a string has an encoding that does not exist"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct recording w = {0};
        begin_chunk(&w);
        put_metadata(&w, basic_types);
        begin_checkpoint(&w, 1);
        begin_pool(&w, cases[i].type, cases[i].count);
        buf_add(&w.b, cases[i].content, cases[i].content[0] ? 8 : 0);
        end_bad(t, &w, cases[i].why);
    }
}

static void refuses_checkpoints_that_go_in_circles(struct test *t)
{
    static const struct {
        int64_t delta;
        const char *why;
    } cases[] = {
        {1, ": the checkpoint before this one is outside of the chunk"},
        {-100000, ": the checkpoint before this one is outside of the chunk"},
        {INT64_MIN, ": the checkpoint before this one is outside of the chunk"},
        {-1, ": a checkpoint overlaps what follows it"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct recording w = {0};
        begin_chunk(&w);
        put_metadata(&w, basic_types);
        w.last_checkpoint = w.b.len - w.chunk + (size_t)cases[i].delta;
        begin_checkpoint(&w, 0);
        end_bad(t, &w, cases[i].why);
    }
}

static void refuses_events_that_cannot_be_and_says_why(struct test *t)
{
    struct recording w = {0};
    put_tables(&w, basic_types, "A");
    begin_event(&w, 101);
    put_long(&w, 1);
    end_bad(t, &w, ": a number is cut short");

    for (int i = 0; i < 3; i++) {
        static const uint8_t sizes[] = {0, 1, 0x7f};
        w = (struct recording){0};
        put_tables(&w, basic_types, "A");
        buf_add_byte(&w.b, sizes[i]);
        buf_add_byte(&w.b, 109);
        end_chunk(&w);
        check_refused(t, &w, "bytes does not fit its chunk");
    }

    w = (struct recording){0};
    put_tables(&w, basic_types, "A");
    buf_add_byte(&w.b, 0xff);
    end_chunk(&w);
    check_refused(t, &w, ": an integer is cut short");

    w = (struct recording){0};
    struct type types[64] = {BASIC_TYPES};
    types[ARRAY_SIZE(basic_types) - 1] = (struct type){120, "profiler.Malloc", "e", "x:121"};
    put_tables(&w, types, "A");
    begin_event(&w, 120);
    end_bad(t, &w, ": type \"profiler.Malloc\" has a field \"x\" of a type that is not defined");
}

/* A file cut anywhere is refused; so is one whose header was made to agree, unless it was cut
 * between two events. */
static void refuses_a_recording_cut_anywhere(struct test *t)
{
    for (int raw = 0; raw <= 1; raw++) {
        struct recording w = {.raw = raw};
        put_everything(&w);
        for (size_t n = 1; n < w.b.len; n++) {
            struct budget b;
            struct error err = {""};
            budget_init(&b, 64 << 20);
            struct profile_set *set = profile_set_new(&b);
            int r = read_bytes(bytes_head(buf_bytes(&w.b), n), set, &err);
            CHECK_INT(t, r, -EBADMSG);
            CHECK(t, strstr(err.text, "t: jfr at byte 0: ") == err.text);

            struct buf copy = {0};
            buf_add(&copy, w.b.data, n);
            if (n >= 16) {
                struct recording cut = {.b = copy};
                patch(&cut, 8, n, 8);
            }
            r = read_bytes(buf_bytes(&copy), set, &err);
            CHECK(t, r == 0 || r == -EBADMSG);
            buf_done(&copy);
            profile_set_free(set);
            CHECK_INT(t, b.used, 0);
        }
        buf_done(&w.b);
    }
}

static void survives_any_byte_being_another(struct test *t)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};

    for (int raw = 0; raw <= 1; raw++) {
        struct recording w = {.raw = raw};
        put_everything(&w);
        for (size_t i = 0; i < w.b.len * ARRAY_SIZE(flips); i++) {
            struct budget b;
            struct error err = {""};
            budget_init(&b, 4 << 20);
            struct profile_set *set = profile_set_new(&b);
            w.b.data[i / ARRAY_SIZE(flips)] ^= flips[i % ARRAY_SIZE(flips)];
            int r = read_bytes(buf_bytes(&w.b), set, &err);
            CHECK(t, r == 0 || (r == -EBADMSG && strstr(err.text, "t: jfr at byte ")) ||
                         r == -ENOBUFS);
            w.b.data[i / ARRAY_SIZE(flips)] ^= flips[i % ARRAY_SIZE(flips)];
            profile_set_free(set);
            CHECK_INT(t, b.used, 0);
        }
        buf_done(&w.b);
    }
}

/* Each budget from nothing upwards must fail cleanly until one is large enough. */
static void survives_running_out_of_memory_anywhere(struct test *t)
{
    struct recording w = {0};
    int r = -ENOBUFS;

    put_everything(&w);
    for (size_t limit = 0; r == -ENOBUFS && limit < 4 << 20; limit += limit < 120000 ? 97 : 4099) {
        struct budget b;
        struct error err = {""};
        budget_init(&b, limit);
        struct profile_set *set = profile_set_new(&b);
        r = read_bytes(buf_bytes(&w.b), set, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && strstr(err.text, "memory limit of ")));
        CHECK_INT(t, set->profiles.len, r == 0 ? 6 : 0);
        profile_set_free(set);
        CHECK_INT(t, b.used, 0);
    }
    CHECK_INT(t, r, 0);
    buf_done(&w.b);
}

static void refuses_labels_that_cannot_be_and_says_why(struct test *t)
{
    static const struct {
        uint8_t content[8];
        size_t len;
        const char *why;
    } cases[] = {
        {{0x0a, 5, 1}, 3, "jfr labels at byte 2: a length runs past the end of its message"},
        {{0x08, 5}, 2, "jfr labels at byte 2: bytes were expected and a number was found"},
        {{0x0a, 2, 0x10, 1}, 4, "jfr labels at byte 4: bytes were expected and a number was found"},
        {{0x0a, 4, 0x12, 2, 0x0a, 9}, 6, "jfr labels at byte 6: a length runs past the end"},
        {{0x0a, 5, 0x12, 3, 0x0a, 1, 0x80}, 7, "jfr labels at byte 6: a field tag is cut short"},
        {{0x0a, 4, 0x12, 2, 0x08, 1}, 6, "jfr labels at byte 6: bytes were expected and a number"},
        {{0x12, 2, 0x0a, 0}, 4, "jfr labels at byte 4: a number was expected and bytes were found"},
    };
    struct budget b;
    struct error err = {""};
    budget_init(&b, 1 << 20);
    CLEANUP(profile_set_freep) struct profile_set *set = profile_set_new(&b);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct bytes content = {cases[i].content, cases[i].len};
        CHECK_INT(t, jfr_apply_labels(set, 0, content, &err), -EBADMSG);
        if (!strstr(err.text, cases[i].why))
            CHECK_STR(t, err.text, cases[i].why);
    }
    struct buf snapshot = make_snapshot(257);
    CHECK_INT(t, jfr_apply_labels(set, 0, buf_bytes(&snapshot), &err), -EBADMSG);
    CHECK(t, strstr(err.text, ": context 4 has 257 labels, more than 256"));
    buf_done(&snapshot);
}

static void survives_running_out_of_memory_while_labelling(struct test *t)
{
    struct recording w = {0};
    struct buf snapshot = make_snapshot(2);
    int r = -ENOBUFS;

    put_everything(&w);
    for (size_t extra = 0; r == -ENOBUFS && extra < 1 << 20; extra += 61) {
        struct budget b;
        struct error err = {""};
        budget_init(&b, 64 << 20);
        struct profile_set *set = profile_set_new(&b);
        CHECK_INT(t, read_bytes(buf_bytes(&w.b), set, &err), 0);
        b.limit = b.used + extra;
        r = jfr_apply_labels(set, 0, buf_bytes(&snapshot), &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && strstr(err.text, "memory limit of ")));
        profile_set_free(set);
        CHECK_INT(t, b.used, 0);
    }
    CHECK_INT(t, r, 0);
    buf_done(&snapshot);
    buf_done(&w.b);
}

static const struct test_case cases[] = {
    TEST(refuses_headers_that_cannot_be_and_says_why),
    TEST(refuses_types_that_cannot_be_and_says_why),
    TEST(refuses_types_that_unfold_without_end),
    TEST(refuses_metadata_that_cannot_be_and_says_why),
    TEST(refuses_constants_that_cannot_be_and_says_why),
    TEST(refuses_checkpoints_that_go_in_circles),
    TEST(refuses_events_that_cannot_be_and_says_why),
    TEST(refuses_a_recording_cut_anywhere),
    TEST(survives_any_byte_being_another),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(refuses_labels_that_cannot_be_and_says_why),
    TEST(survives_running_out_of_memory_while_labelling),
};
TEST_MAIN(cases)
