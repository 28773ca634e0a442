#include "lib/decode.h"
#include "wire/protobuf.h"

static void check_legacy(struct test *t, struct decoded *d, const char *text)
{
    decode_text(d, NULL, text);
    CHECK_INT(t, d->r, 0);
    if (d->r < 0)
        printf("# %s\n", d->err.text);
    else
        CHECK(t, d->format == &format_pprof_legacy);
}

static int64_t label_bytes(const struct profile *p, size_t row)
{
    uint32_t id =
        dict_attrs_get(p->dict, profile_attrs(p, row), dict_find_string(p->dict, BYTES("bytes")));
    return id ? p->dict->attributes.data[id].number : -1;
}

static const char *mapping_file(const struct profile *p, uint32_t node)
{
    const struct dict *d = p->dict;
    uint32_t mapping = d->locations.data[d->node_location.data[node]].mapping;
    return dict_cstr(d, d->mappings.data[mapping].file);
}

static void reads_counts_of_go(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "# a comment\n\ngoroutine profile: total 3\n2 @ 0x40 0x30\n#\t0x3f\tmain.f\n\n"
                 "1 @ 0x20\n");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, decoded_total(t, &d, "goroutine", "count"), 3);
    CHECK_STACK(t, d.set->dict, p->node[0], "0x2f;0x3f");
    CHECK_STACK(t, d.set->dict, p->node[1], "0x1f");
    CHECK_INT(t, p->mappings.len, 1); /* one of everything, as pprof makes it */
    CHECK_INT(t, d.set->dict->mappings.data[p->default_mapping].limit, UINT64_MAX);
    decoded_done(t, &d);

    check_legacy(t, &d,
                 "goroutine profile: total 1\n1 @ 0x41\n--- Memory map: ---\n40-50: /bin/x\n");
    CHECK_STR(t, mapping_file(d.set->profiles.data[0], d.set->profiles.data[0]->node[0]), "/bin/x");
    decoded_done(t, &d);
    check_legacy(t, &d,
                 "x profile: total 1\n1 @ 0x41\n--- other ---\nMAPPED_LIBRARIES:\n40-50 /x\n");
    CHECK_STR(t, mapping_file(d.set->profiles.data[0], d.set->profiles.data[0]->node[0]), "/x");
    decoded_done(t, &d);
}

static void reads_heaps_and_estimates_what_was_sampled(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "heap profile: 3: 300 [3: 300] @ heapz_v2/1000\n"
                 "  2: 200 [2: 200] @ 0x11 0x21\n"
                 " 0: 0 [0: 0] @ 0x31\n");
    const struct profile *p = d.set->profiles.data[0];
    /* 1 / (1 - exp(-100 / 1000)) = 10.508 */
    CHECK_INT(t, decoded_total(t, &d, "objects", "count"), 21);
    CHECK_INT(t, decoded_total(t, &d, "space", "bytes"), 2101);
    CHECK_INT(t, p->period, 1000);
    CHECK_INT(t, label_bytes(p, 0), 100);
    CHECK_INT(t, label_bytes(p, 1), 0);
    CHECK_STACK(t, d.set->dict, p->node[0], "0x20;0x10");
    CHECK(t, strstr(dict_cstr(d.set->dict, p->drop_frames), "tcmalloc") != NULL);
    CHECK(t, strstr(dict_cstr(d.set->dict, p->keep_frames), "panic") != NULL);
    decoded_done(t, &d);

    /* Go says twice the rate; allocations that differ from what is in use are types of their own.
     */
    check_legacy(t, &d,
                 "heap profile: 1: 100 [2: 200] @ heap/2000\n1: 100 [2: 200] @ 0x11\n# comment\n");
    CHECK_INT(t, decoded_total(t, &d, "alloc_objects", "count"), 21);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 1050);
    CHECK_INT(t, d.set->profiles.data[0]->period, 1000);
    decoded_done(t, &d);

    check_legacy(t, &d, "heap profile: 1: 9 [2: 8] @ heapprofile\n-1: -9 [2: 8] @ 0x11\n");
    CHECK_INT(t, decoded_total(t, &d, "alloc_space", "bytes"), 8);
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), -9);
    CHECK_INT(t, label_bytes(d.set->profiles.data[0], 0), 9);
    decoded_done(t, &d);

    check_legacy(t, &d, "heap profile: 1: 9 [1: 9] @ growthz\n1: 9 [1: 9] @ 0x11\n");
    CHECK_INT(t, decoded_total(t, &d, "space", "bytes"), 9);
    decoded_done(t, &d);
    check_legacy(t, &d, "heap profile: 1: 9 [1: 9] @ fragmentationz\n1: 9 [1: 9] @ 0x11\n");
    CHECK_INT(t, decoded_total(t, &d, "space", "bytes"), 9);
    decoded_done(t, &d);
}

static void reads_heaps_of_jemalloc(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "heap_v2/1000\n  t*: 2: 200 [0: 0]\n  t0: 2: 200 [0: 0]\n"
                 "@ 0x11 0x21\n  t*: 2: 200 [0: 0]\n  t0: 2: 200 [0: 0]\n"
                 "@ 0x31\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n10-20 r-xp 0 08:01 5 /bin/j\n");
    CHECK_INT(t, decoded_total(t, &d, "space", "bytes"), 2101);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "0x20;0x10");
    CHECK_STR(t, mapping_file(d.set->profiles.data[0], d.set->profiles.data[0]->node[0]), "/bin/j");
    decoded_done(t, &d);
    check_legacy(t, &d, "heap_v2/1\n t*: 1: 5 [7: 70]\n@ 0x11\n t*: 1: 5 [7: 70]\n");
    CHECK_INT(t, decoded_total(t, &d, "alloc_objects", "count"), 7);
    decoded_done(t, &d);
}

static void reads_contention(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 10\n"
                 "ms since reset = 5\ndiscarded samples = 0\n  100 3 @ 0x11 0x21\n\n# x\n"
                 "--- Memory map: ---\n  10-30: /bin/c\n");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, decoded_total(t, &d, "contentions", "count"), 30);
    CHECK_INT(t, decoded_total(t, &d, "delay", "nanoseconds"), 500);
    CHECK_INT(t, p->duration_ns, 5000000);
    CHECK_INT(t, p->period, 10);
    CHECK_STACK(t, d.set->dict, p->node[0], "0x20;0x10");
    CHECK_STR(t, mapping_file(p, p->node[0]), "/bin/c");
    CHECK(t, strstr(dict_cstr(d.set->dict, p->drop_frames), "Unlock") != NULL);
    decoded_done(t, &d);

    check_legacy(t, &d, "--- mutex:\nsampling period=0\n7 2 @ 0x5\n--- end\n");
    CHECK_INT(t, decoded_total(t, &d, "delay", "nanoseconds"), 7);
    CHECK_INT(t, decoded_total(t, &d, "contentions", "count"), 2);
    decoded_done(t, &d);
}

static void reads_threads(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "--- threadz 1 ---\n\n--- Thread 7f79 (name: main/1) stack: ---\n"
                 "  PC: 0x31: helper\n  0x21: main\n      creator: 0x11\n"
                 "--- Thread 7f80 (name: a/2) stack: ---\n  <stack same as previous thread>\n"
                 "  0x99\n--- Thread 7f81 (name: b/3) stack: ---\n  PC: 0x31\n  0x31\n 0x41\n"
                 "---- no stack trace for the rest\nMAPPED_LIBRARIES:\n10-40: /bin/t\n");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, decoded_total(t, &d, "thread", "count"), 3);
    CHECK_STACK(t, d.set->dict, p->node[0], "0x10;0x20;0x31");
    CHECK_STACK(t, d.set->dict, p->node[1], "0x40;0x31"); /* the leaf was there twice */
    CHECK_STR(t, mapping_file(p, p->node[0]), "/bin/t");
    decoded_done(t, &d);

    check_legacy(
        t, &d,
        "--- Thread ab (name: x/1) stack: ---\n 0x5\n--- Thread ac (name: y/2) stack: ---\n");
    CHECK_INT(t, decoded_total(t, &d, "thread", "count"), 2);
    decoded_done(t, &d);
}

/* Words of a CPU profile in one of its four encodings. */
static void put_words(struct buf *b, size_t size, bool big, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < size; k++)
            buf_add_byte(b, (uint8_t)(words[i] >> 8 * (big ? size - 1 - k : k)));
    }
}

static void reads_cpu_profiles_of_any_word(struct test *t)
{
    static const uint64_t words[] = {0, 3, 0,    10000, 0,          /* header: 10 ms */
                                     2, 3, 0x31, 0x77,  0x21,       /* twice */
                                     1, 4, 0x41, 0x77,  0x41, 0x21, /* 0x77 is in all: a handler */
                                     0, 1, 0};
    for (int i = 0; i < 4; i++) {
        struct buf b = {0};
        struct decoded d;
        put_words(&b, i < 2 ? 4 : 8, i % 2, words, sizeof(words) / sizeof(words[0]));
        buf_add_str(&b, "build=/bin\n10-60 r-xp 00000000 08:01 77 $build/cpu\n");
        decode_bytes(&d, NULL, buf_bytes(&b), 1 << 24);
        CHECK_INT(t, d.r, 0);
        const struct profile *p = d.set->profiles.data[0];
        CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 3);
        CHECK_INT(t, decoded_total(t, &d, "cpu", "nanoseconds"), 30000000);
        CHECK_INT(t, p->period, 10000000);
        CHECK_STACK(t, d.set->dict, p->node[0], "0x20;0x31");
        CHECK_STACK(t, d.set->dict, p->node[1], "0x20;0x41");
        CHECK_STR(t, mapping_file(p, p->node[0]), "/bin/cpu");
        CHECK(t, strstr(dict_cstr(d.set->dict, p->drop_frames), "prof_handler") != NULL);
        decoded_done(t, &d);
        buf_done(&b);
    }
}

static void reads_java(struct test *t)
{
    static const uint64_t words[] = {0, 3, 1, 10000, 0, 4, 2, 3, 5, 0, 1, 0};
    struct buf b = {0};
    struct decoded d;
    put_words(&b, 8, false, words, sizeof(words) / sizeof(words[0]));
    buf_add_str(&b, " 0x3 com.A.run (A.java:12)\n 0x5 generated stub/JIT code\n 0x9 unused\n");
    decode_bytes(&d, NULL, buf_bytes(&b), 1 << 24);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 4);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "STUB;com.A.run");
    decoded_done(t, &d);
    buf_done(&b);

    check_legacy(t, &d,
                 "--- heapz 1 ---\nformat = java\nresolution = bytes\n 1048576 1 @ 0x3 0x4\n\n\n"
                 " 0x3 native (/usr/lib/libx.so)\n 0x00004 GC\n junk\n");
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = d.set->dict;
    CHECK_INT(t, decoded_total(t, &d, "inuse_space", "bytes"), 1212696);
    CHECK_INT(t, label_bytes(p, 0), 1048576);
    CHECK_STACK(t, dict, p->node[0], "GC;native");
    const struct location *leaf = &dict->locations.data[dict->node_location.data[p->node[0]]];
    CHECK_STR(
        t, dict_cstr(dict, dict->functions.data[dict->lines.data[leaf->first_line].function].file),
        "libx.so");
    decoded_done(t, &d);

    check_legacy(
        t, &d,
        "--- contentionz 1 ---\nformat = java\nresolution = microseconds\n"
        "sampling period = 100\nms since reset = 6019923\n 14 2 @ 0x3\n\n 0x3 f (A.java:-1)\n"
        " 0x4 f (B.java:1)\n");
    CHECK_INT(t, decoded_total(t, &d, "contentions", "count"), 200);
    CHECK_INT(t, decoded_total(t, &d, "delay", "microseconds"), 1400);
    CHECK_INT(t, d.set->profiles.data[0]->duration_ns, 6019923000000);
    decoded_done(t, &d);
}

static void reads_goroutine_dumps(struct test *t)
{
    struct decoded d;
    check_legacy(t, &d,
                 "panic: boom\n\ngoroutine 1 [running]:\nmain.(*T).f({0x1, 0x2}, 0x3?)\n"
                 "\t/src/main.go:12 +0x1f\nmain.main()\n\t/src/main.go:3 +0x4\n\n"
                 "goroutine 25 [chan receive, 5 minutes, locked to thread]:\nmain.w(...)\n"
                 "\t/src/w.go:7\n...additional frames elided...\n"
                 "created by main.main in goroutine 1\n\t/src/main.go:9 +0x3bb\n\nrax 0x0\n");
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = d.set->dict;
    CHECK_INT(t, decoded_total(t, &d, "goroutine", "count"), 2);
    CHECK_STACK(t, dict, p->node[0], "main.main;main.(*T).f");
    CHECK_STACK(t, dict, p->node[1], "main.w");
    CHECK_STR(t, leaf_type(dict, p->node[1]), "go");
    struct buf labels = {0};
    struct attrs set = dict->attr_sets.data[profile_attrs(p, 1)];
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &dict->attributes.data[dict->attr_ids.data[set.first + i]];
        if (a->kind == ATTRIBUTE_INT)
            buf_addf(&labels, "%s=%lld%s ", dict_cstr(dict, a->key), (long long)a->number,
                     dict_cstr(dict, a->unit));
        else
            buf_addf(&labels, "%s=%s ", dict_cstr(dict, a->key), dict_cstr(dict, a->text));
    }
    CHECK_STR(t, buf_cstr(&labels),
              "goroutine=25 state=chan receive waiting=5minutes locked_to=thread "
              "created_by=main.main ");
    buf_done(&labels);
    CHECK(t, has_note(&d, "more frames than the dump shows"));
    decoded_done(t, &d);
}

static void understands_memory_maps(struct test *t)
{
    static const struct {
        const char *maps;
        uint64_t address; /* one more than the location has */
        const char *file;
        uint64_t start;
    } rows[] = {
        {"400000-500000 r-xp 00001000 fc:00 12 /bin/a (deleted)", 0x400011, "/bin/a", 0x400000},
        {"400000-500000 rw-p 00000000 fc:00 12 /bin/a", 0x400011, "", 0},
        {"0x400000 0x500000 /bin/b (@ff0) abc123", 0x400011, "/bin/b", 0x400000},
        {"I0101 x.cc:12] 400000-500000: /bin/c", 0x400011, "/bin/c", 0x400000},
        {"[x.cc:12] 400000-500000: /bin/c", 0x400011, "", 0},
        {"d = /opt\n400000-500000: $d/e", 0x400011, "/opt/e", 0x400000},
        {"d = /opt\n400000-500000: $x/e", 0x400011, "$x/e", 0x400000},
        {"not a map\n400000-500000", 0x400011, "", 0x400000},
        {"400000-500000: /bin/a\n500000-600000: /bin/a", 0x500011, "/bin/a", 0x400000},
        {"10-20: /lib/l.so.6\n30-40: [vdso]\n50-60: /bin/m", 0x56, "/bin/m", 0x50},
        {"10-20: /lib/l.so\n30-40: /lib/x.so_1", 0x16, "/lib/l.so", 0x10},
        {"500000-600000: /bin/f (@100000)", 0x500011, "/bin/f", 0x400000},
        {"700000-800000: /bin/g (@1000)", 0x6ff800, "/bin/g", 0x6ff000},
        {"700000-800000: /bin/g", 0x6ff800, "", 0},
        {"10-20: /anon_hugepage\n20-30: /bin/h", 0x25, "/bin/h", 0x20},
        {"10-40: /bin/i\n20-30: /bin/j", 0x25, "/bin/i", 0x10},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[400];
        struct decoded d;
        snprintf(text, sizeof(text),
                 "heap profile: 1: 1 [1: 1] @ heapprofile\n1: 1 [1: 1] @ 0x%llx\n\n"
                 "MAPPED_LIBRARIES:\n%s\n",
                 (unsigned long long)rows[i].address, rows[i].maps);
        check_legacy(t, &d, text);
        const struct profile *p = d.set->profiles.data[0];
        const struct dict *dict = d.set->dict;
        CHECK_STR(t, mapping_file(p, p->node[0]), rows[i].file);
        uint32_t m = dict->locations.data[dict->node_location.data[p->node[0]]].mapping;
        CHECK_INT(t, dict->mappings.data[m].start, rows[i].start);
        decoded_done(t, &d);
    }
}

static void finds_the_main_binary_and_build_ids(struct test *t)
{
    struct decoded d;
    check_legacy(
        t, &d,
        "heap profile: 1: 1 [1: 1] @ heapprofile\n1: 1 [1: 1] @ 0x15\n\nMAPPED_LIBRARIES:\n"
        "10-20: /lib/l.so.6\n30-40: [vdso]\n50-60: /bin/m (@10) abc\n");
    const struct profile *p = d.set->profiles.data[0];
    const struct mapping *main_binary = &d.set->dict->mappings.data[p->default_mapping];
    CHECK_STR(t, dict_cstr(d.set->dict, main_binary->file), "/bin/m");
    CHECK_STR(t, dict_cstr(d.set->dict, main_binary->build_id), "abc");
    CHECK_INT(t, main_binary->offset, 0x10);
    CHECK_INT(t, p->mappings.len, 3);
    decoded_done(t, &d);
}

static void refuses_what_is_malformed_and_says_where(struct test *t)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"threadcreate profile: total 5\n5 @\n",
         "pprof-legacy at line 2: not \"COUNT @ ADDRESS...\""},
        {"x profile: total 5\n5 @ 0x11111111111111111\n",
         "pprof-legacy at line 2: an address is larger than 64 bits"},
        {"heap profile: 1: 2 [1: 2] @ heap/9\n\nwhat\n",
         "pprof-legacy at line 3: not \"COUNT: BYTES [COUNT: BYTES] @ ADDRESS...\""},
        {"heap profile: 1: 2 [1: 2] @ heap/9\n0: 2 [1: 2] @ 0x1\n",
         "pprof-legacy at line 2: a count of 0 has 2 bytes"},
        {"heap profile: 1: 2 [3: 4] @ heap/9\n1: 2 [0: 2] @ 0x1\n",
         "pprof-legacy at line 2: a count of 0 has 2 bytes"},
        {"heap profile: 1: 2 [1: 2] @ heap/9\n1: 2 [1: 2] @ 0x11111111111111111\n",
         "pprof-legacy at line 2: an address is larger than 64 bits"},
        {"heap_v2/10\nt*: x\n", "pprof-legacy at line 2: not \"t*: COUNT: BYTES [COUNT: BYTES]\""},
        {"heap_v2/10\n", "pprof-legacy at line 1: there is no \"t*:\" line with the totals"},
        {"--- contention:\nnew = 1\n",
         "pprof-legacy at line 2: \"new\" is not known or not a number"},
        {"--- contention:\nsampling period = x\n",
         "pprof-legacy at line 2: \"sampling period\" is not known or not a number"},
        {"--- contention:\n1 @ 0x1\n", "pprof-legacy at line 2: not \"CYCLES COUNT @ ADDRESS...\""},
        {"--- contention:\nsampling period = 99\n1 9223372036854775807 @ 0x1\n",
         "pprof-legacy at line 3: a count does not fit 64 bits"},
        {"--- contention:\n1 1 @ 0x11111111111111111\n",
         "pprof-legacy at line 2: an address is larger than 64 bits"},
        {"--- threadz 1 ---\n--- what ---\n",
         "pprof-legacy at line 2: not \"--- Thread ID (name: NAME/ID) stack: ---\""},
        {"--- Thread a (name: x/1) stack: ---\n 0x11111111111111111\n",
         "pprof-legacy at line 2: an address is larger than 64 bits"},
        {"--- heapz 1 ---\nformat = java\n 1 1 @ 0x1\n",
         "pprof-legacy at line 3: samples come before \"resolution = UNIT\""},
        {"--- heapz 1 ---\nformat = java\nresolution = bytes\n 1 0 @ 0x1\n",
         "pprof-legacy at line 4: a count is 0"},
        {"--- heapz 1 ---\nformat = java\nresolution = bytes\n 1 -1 @ 0x1\n",
         "pprof-legacy at line 4: a value is negative"},
        {"--- heapz 1 ---\nformat = java\nformat = c\n",
         "pprof-legacy at line 3: the format is not \"java\""},
        {"--- heapz 1 ---\nformat = java\nother = 1\n",
         "pprof-legacy at line 3: \"other\" is not known or not a number"},
        {"--- contentionz 1 ---\nformat = java\nresolution = us\nsampling period = 99\n"
         " 9223372036854775807 1 @ 0x1\n",
         "pprof-legacy at line 5: a value does not fit 64 bits"},
        {"nothing at all", "pprof-legacy at line 1: there is no profile and no goroutine in it"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct decoded d;
        decode_text(&d, &format_pprof_legacy, rows[i].text);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK(t, strncmp(d.err.text, "test: ", 6) == 0);
        CHECK_STR(t, d.err.text + 6, rows[i].why);
        decoded_done(t, &d);
    }
}

static void refuses_cpu_profiles_that_are_cut_short(struct test *t)
{
    static const struct {
        uint64_t words[8];
        size_t n;
        const char *why;
    } rows[] = {
        {{0, 3, 0, 100, 0, 1}, 6, "test: pprof-legacy at byte 40: a sample is cut short"},
        {{0, 3, 0, 100, 0, 1, 5, 1},
         8,
         "test: pprof-legacy at byte 40: a stack is deeper than the file is long"},
        {{0, 3, 0, 100, 0, INT64_MAX, 1, 1},
         8,
         "test: pprof-legacy at byte 40: a count is too large"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = {0};
        struct decoded d;
        put_words(&b, 8, false, rows[i].words, rows[i].n);
        decode_bytes(&d, NULL, buf_bytes(&b), 1 << 24);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK_STR(t, d.err.text, rows[i].why);
        decoded_done(t, &d);
        buf_done(&b);
    }
}

static const char *const samples[] = {
    "heap profile: 1: 100 [2: 200] @ heap/2000\n1: 100 [2: 200] @ 0x11 0x44\n2: 64 [2: 64] @ 0x12\n"
    "MAPPED_LIBRARIES:\nb=/x\n10-20: $b/b\n30-50 r-xp 00000000 08:01 77 /lib/c.so\n",
    "--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 10\n 100 3 @ 0x11 0x21\n",
    "--- threadz 1 ---\n\n--- Thread 7f79 (name: main/1) stack: ---\n PC: 0x31: h\n  0x21: main\n"
    "--- Memory map: ---\n 10-40: /b\n",
    "goroutine profile: total 3\n2 @ 0x40 0x30\n1 @ 0x20\n",
    "--- heapz 1 ---\nformat = java\nresolution = bytes\n 1048576 1 @ 0x3 0x4\n\n 0x3 f "
    "(A.java:1)\n",
    "heap_v2/1000\n  t*: 2: 200 [1: 5]\n@ 0x11 0x21\n  t*: 2: 200 [1: 5]\n",
    "goroutine 1 [running, 3 minutes]:\nmain.f(0x1)\n\t/a.go:1 +0x1\ncreated by "
    "main.main\n\t/a.go:2\n",
};

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        check_budget_sweep(t, &format_pprof_legacy, bytes_of(samples[i]), 61);
}

static void survives_being_cut_anywhere(struct test *t)
{
    static const uint64_t words[] = {0, 3, 0, 10000, 0, 2, 3, 0x31, 0x77, 0x21, 0, 1, 0};
    struct buf b = {0};

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        check_truncation(t, NULL, bytes_of(samples[i]));
        check_truncation(t, &format_pprof_legacy, bytes_of(samples[i]));
    }
    put_words(&b, 8, false, words, sizeof(words) / sizeof(words[0]));
    check_truncation(t, &format_pprof_legacy, buf_bytes(&b));
    buf_done(&b);
}

static const struct test_case cases[] = {
    TEST(reads_counts_of_go),
    TEST(reads_heaps_and_estimates_what_was_sampled),
    TEST(reads_heaps_of_jemalloc),
    TEST(reads_contention),
    TEST(reads_threads),
    TEST(reads_cpu_profiles_of_any_word),
    TEST(reads_java),
    TEST(reads_goroutine_dumps),
    TEST(understands_memory_maps),
    TEST(finds_the_main_binary_and_build_ids),
    TEST(refuses_what_is_malformed_and_says_where),
    TEST(refuses_cpu_profiles_that_are_cut_short),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)
