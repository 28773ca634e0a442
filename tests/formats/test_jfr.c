#include <stdio.h>

#include "formats/jfr.h"
#include "formats/jfr_builder.h"

/* "name@line[type];..." of a stack, outermost first. */
static const char *show_stack(const struct dict *d, uint32_t node)
{
    static char text[1024];
    uint32_t path[16];
    size_t n = 0, len = 0;

    for (; node && n < 16; node = d->node_parent.data[node])
        path[n++] = d->node_location.data[node];
    text[0] = '\0';
    while (n-- > 0) {
        struct location l = d->locations.data[path[n]];
        struct line line = d->lines.data[l.first_line];
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s@%lld[%s]", len ? ";" : "",
                                dict_cstr(d, d->functions.data[line.function].name),
                                (long long)line.line, dict_cstr(d, l.type));
    }
    return text;
}

static const char *show_attrs(const struct profile *p, size_t i)
{
    static char text[1024];
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[profile_attrs(p, i)];
    static const char *const keys[] = {"thread.name", "thread.id",         "thread.state",
                                       "class",       "jfr.context_id",    "profile_id",
                                       "span_name",   "jfr.span_name_id",  "color",
                                       "span id",     "local root span id"};
    size_t len = 0;

    text[0] = '\0';
    for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
        for (uint32_t j = 0; j < set.n; j++) {
            struct attribute a = d->attributes.data[d->attr_ids.data[set.first + j]];
            if (strcmp(dict_cstr(d, a.key), keys[k]) != 0)
                continue;
            len +=
                (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=", len ? " " : "", keys[k]);
            len += (size_t)(a.kind == ATTRIBUTE_INT ? snprintf(text + len, sizeof(text) - len,
                                                               "%lld", (long long)a.number)
                                                    : snprintf(text + len, sizeof(text) - len, "%s",
                                                               dict_cstr(d, a.text)));
        }
    }
    return text;
}

static const char *show_type(const struct profile *p, uint32_t i)
{
    static char text[128];
    snprintf(text, sizeof(text), "%s/%s", dict_cstr(p->dict, p->types[i].type),
             dict_cstr(p->dict, p->types[i].unit));
    return text;
}

static bool has_note(const struct profile_set *set, const char *part)
{
    for (size_t i = 0; i < set->notes.len; i++) {
        if (strstr(set->notes.data[i], part))
            return true;
    }
    return false;
}

static void check_cpu(struct test *t, const struct profile *p)
{
    CHECK_STR(t, show_type(p, 0), "cpu/nanoseconds");
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, p->values[0][0], 30000000);
    CHECK_INT(t, p->time_ns[0], 1000001000);
    CHECK_STR(t, show_stack(p->dict, p->node[0]), "test/Main.run@12[jvm];run@0[native]");
    CHECK_STR(t, show_attrs(p, 0),
              "thread.name=java-name thread.id=77 thread.state=STATE_RUNNABLE");
    CHECK_STR(t, show_attrs(p, 1),
              "thread.name=java-name thread.id=77 thread.state=STATE_RUNNABLE jfr.context_id=4 "
              "profile_id=0000000000000abc jfr.span_name_id=8");
    CHECK_INT(t, p->period, 30000000);
    CHECK_INT(t, p->time_unix_ns, 1000000000);
    CHECK_INT(t, p->duration_ns, 10000000000);
    uint32_t pid =
        dict_attrs_get(p->dict, p->resource_attrs, dict_find_string(p->dict, BYTES("process.pid")));
    CHECK_INT(t, p->dict->attributes.data[pid].number, 4321);
}

/* The same recording with integers of both kinds. */
static void reads_all_kinds_of_events_and_fields(struct test *t)
{
    for (int raw = 0; raw <= 1; raw++) {
        struct recording w = {.raw = raw};
        struct budget b;
        put_everything(&w);
        CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
        if (set->profiles.len != 6) {
            CHECK_INT(t, set->profiles.len, 6);
            return;
        }
        struct profile **p = set->profiles.data;
        check_cpu(t, p[0]);
        CHECK_STR(t, show_type(p[1], 0), "cpu_time/nanoseconds");
        CHECK_INT(t, p[1]->values[0][0], 2500);
        CHECK_INT(t, p[1]->period, 2500);
        CHECK_STR(t, show_type(p[2], 0), "wall/nanoseconds");
        CHECK_STR(t, show_attrs(p[2], 0),
                  "thread.name=java-name thread.id=77 thread.state=STATE_SLEEPING");
        CHECK_INT(t, p[2]->node[0], 0);
        CHECK_STR(t, show_type(p[3], 0), "native/nanoseconds");
        CHECK_STR(t, show_stack(set->dict, p[3]->node[0]),
                  "test/Main.run@0[jvm];run@0[kernel];unknown@3[jvm]");
        CHECK_INT(t, p[3]->values[0][0], 20000000);
        CHECK_STR(t, show_type(p[4], 1), "alloc_sample_bytes/bytes");
        CHECK_INT(t, p[4]->values[1][0], 1ll << 40);
        CHECK_STR(t, show_attrs(p[4], 0), "class=long[]");
        CHECK_STR(t, show_type(p[5], 1), "delay/nanoseconds");
        CHECK_INT(t, p[5]->values[1][0], 3000000);
        CHECK_STR(t, show_attrs(p[5], 0),
                  "thread.name=pooled thread.id=6 class=java.lang.String[][]");
        CHECK(t, has_note(set, "1 samples refer to stacks that the recording does not hold"));
        CHECK(t, has_note(set, "cut off the outer frames of 2 samples"));
        CHECK(t, has_note(set, "1 events of 1 kinds that are no samples were not kept: "
                               "1 test.Unknown"));
        CHECK(t, has_note(set, "1 events are of types that the recording does not define"));
        CHECK(t, has_note(set, "JVM user 50.0 %, JVM system 25.0 %, machine 0.0 %"));
    }
}

static void adds_up_the_chunks_of_a_file(struct test *t)
{
    struct recording w = {0};
    struct budget b;
    put_everything(&w);
    put_everything(&w);
    w.raw = true;
    put_everything(&w);
    CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
    CHECK_INT(t, set->profiles.len, 6);
    CHECK_INT(t, set->profiles.data[0]->n_samples, 6);
    CHECK_INT(t, set->profiles.data[1]->values[0][2], 2500);
    CHECK(t,
          has_note(set, "3 events of 1 kinds that are no samples were not kept: 3 test.Unknown"));
}

static void names_generated_classes_alike(struct test *t)
{
    static const struct {
        const char *class, *name;
    } cases[] = {
        {"a/B", "a/B.run"},
        {"a/B$$Lambda$12.0x00007f26fc000c28", "a/B$$Lambda_.run"},
        {"a/B$$Lambda.0x1f", "a/B$$Lambda_.run"},
        {"a/B$$Lambda$14/123", "a/B$$Lambda_.run"},
        {"a/B$$Lambda12", "a/B$$Lambda_.run"},
        {"a/B$$Lambda", "a/B$$Lambda.run"},
        {"a/B$$Lambda$12", "a/B$$Lambda$12.run"},
        {"a/B$$Lambda$12/", "a/B$$Lambda$12/.run"},
        {"a/B$$Lambda$12/0xg", "a/B$$Lambda$12/0xg.run"},
        {"a/B$$Lambda$89+0x00007f3420007c28/226", "a/B$$Lambda$89+0x00007f3420007c28/226.run"},
        {"$$Lambda12", "$$Lambda12.run"},
        {"jdk/internal/reflect/GeneratedMethodAccessor31",
         "jdk/internal/reflect/GeneratedMethodAccessor_.run"},
        {"jdk/internal/reflect/GeneratedMethodAccessor3x",
         "jdk/internal/reflect/GeneratedMethodAccessor3x.run"},
        {"a/B$$EnhancerBySpringCGLIB$$1234abcd", "a/B$$EnhancerBySpringCGLIB$$_.run"},
        {"", "run"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct recording w = {0};
        struct budget b;
        char raw[128];
        put_tables(&w, basic_types, cases[i].class);
        put_execution(&w, 1, 1, 0);
        end_chunk(&w);
        CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
        snprintf(raw, sizeof(raw), "%s.run()V", cases[i].class);
        uint32_t name = dict_find_string(set->dict, bytes_of(cases[i].name));
        uint32_t system_name = dict_find_string(set->dict, bytes_of(raw));
        bool found = false;
        for (size_t f = 1; f < set->dict->functions.len; f++)
            found |= set->dict->functions.data[f].name == name &&
                     set->dict->functions.data[f].system_name == system_name;
        CHECK_STR(t, found ? cases[i].name : "", cases[i].name);
    }
}

/* The JVM allows 65,535 bytes; here each of 40,000 characters has two. */
static void cuts_names_that_no_jvm_can_have_between_characters(struct test *t)
{
    struct recording w = {0};
    struct budget b;
    static char name[80000];
    size_t longest = 0;

    for (size_t i = 0; i < sizeof(name); i += 2)
        memcpy(name + i, "\u00e9", 2);
    put_tables(&w, basic_types, "A");
    begin_checkpoint(&w, 1);
    begin_pool(&w, 22, 1);
    put_long(&w, 3);
    buf_add_byte(&w.b, 3);
    put_int(&w, sizeof(name));
    buf_add(&w.b, name, sizeof(name));
    put_long(&w, 1);
    buf_add_byte(&w.b, 0);
    put_long(&w, 1);
    end_event(&w);
    begin_event(&w, 103);
    put_long(&w, 1000);
    put_long(&w, 3);
    put_long(&w, 1);
    put_long(&w, 1);
    put_long(&w, 1);
    end_event(&w);
    end_chunk(&w);
    CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
    for (uint32_t i = 0; i < set->dict->strings.len; i++)
        longest =
            longest < set->dict->strings.data[i].len ? set->dict->strings.data[i].len : longest;
    CHECK_INT(t, longest, 65534);
}

/* What a sample of each kind is worth under settings; `type` 0 stands for async-profiler's. */
static void takes_the_period_from_the_settings(struct test *t)
{
    static const struct {
        struct {
            uint64_t type;
            const char *name, *value;
        } settings[3];
        const char *type;
        int64_t cpu, wall;
    } cases[] = {
        {{{0}}, "cpu/nanoseconds", 20000000, 150000000},
        {{{101, "period", "10 ms"}}, "cpu/nanoseconds", 10000000, 150000000},
        {{{101, "period", "2 s"}}, "cpu/nanoseconds", 2000000000, 150000000},
        {{{101, "period", "1 fortnight"}}, "cpu/nanoseconds", 20000000, 150000000},
        {{{101, "period", "99999999999 d"}}, "cpu/nanoseconds", 20000000, 150000000},
        {{{103, "period", "10 ms"}}, "cpu/nanoseconds", 20000000, 150000000},
        {{{0, "event", "cpu"}}, "cpu/nanoseconds", 10000000, 150000000},
        {{{0, "event", "itimer"}, {0, "interval", "7"}}, "cpu/nanoseconds", 7, 150000000},
        {{{0, "event", "cpu"}, {0, "wall", "5"}}, "cpu/nanoseconds", 10000000, 15},
        {{{0, "event", "cache-misses"}, {0, "interval", "1000"}},
         "cache-misses/count",
         1000,
         150000000},
        {{{0, "event", "page-faults"}}, "page-faults/count", 1, 150000000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct recording w = {0};
        struct budget b;
        put_tables(&w, basic_types, "A");
        put_execution(&w, 1, 1, 0);
        begin_event(&w, 111);
        put_long(&w, 1000);
        put_long(&w, 1);
        put_long(&w, 1);
        put_int(&w, 3);
        end_event(&w);
        for (size_t k = 0; k < 3 && cases[i].settings[k].name; k++)
            put_setting(&w, cases[i].settings[k].type, cases[i].settings[k].name,
                        cases[i].settings[k].value);
        end_chunk(&w);
        CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
        CHECK_INT(t, set->profiles.len, 2);
        CHECK_STR(t, show_type(set->profiles.data[0], 0), cases[i].type);
        CHECK_INT(t, set->profiles.data[0]->values[0][0], cases[i].cpu);
        CHECK_INT(t, set->profiles.data[1]->values[0][0], cases[i].wall);
        CHECK_INT(t, has_note(set, "every 20 ms, the JDK's default, was assumed"),
                  cases[i].cpu == 20000000);
    }
}

static void counts_running_threads_twice_when_the_event_is_wall(struct test *t)
{
    struct recording w = {0};
    struct budget b;
    put_tables(&w, basic_types, "A");
    put_setting(&w, 0, "event", "wall");
    put_setting(&w, 0, "interval", "4");
    put_execution(&w, 1, 1, 0);
    put_execution(&w, 1, 2, 0);
    for (uint64_t state = 1; state <= 2; state++) {
        begin_event(&w, 111);
        put_long(&w, 1000);
        put_long(&w, 1);
        put_long(&w, state);
        put_int(&w, 10);
        end_event(&w);
    }
    end_chunk(&w);
    CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
    CHECK_INT(t, set->profiles.len, 2);
    CHECK_INT(t, profile_total(set->profiles.data[0], 0), 4 + 40);
    CHECK_INT(t, profile_total(set->profiles.data[1], 0), 4 + 4 + 40 + 40);
}

static void keeps_weights_and_spans_of_other_agents(struct test *t)
{
    struct recording w = {0};
    struct budget b;
    put_tables(&w, basic_types, "A");
    begin_event(&w, 112);
    put_long(&w, 1000);
    put_long(&w, 1);
    put_long(&w, 5);
    put_long(&w, 11);
    put_long(&w, 12);
    end_event(&w);
    begin_event(&w, 113);
    put_long(&w, 1000);
    put_long(&w, 1ull << 63); /* half of the longest time there is, backwards */
    put_long(&w, 1);
    put_long(&w, 0);
    end_event(&w);
    end_chunk(&w);
    CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
    CHECK_INT(t, set->profiles.len, 2);
    CHECK_INT(t, set->profiles.data[0]->values[0][0], 100000000);
    CHECK_STR(t, show_attrs(set->profiles.data[0], 0), "span id=11 local root span id=12");
    CHECK_INT(t, set->profiles.data[1]->values[1][0], -(1ll << 62));
}

/* The JVM's UTF-8: a character of two and of three bytes, one beyond 16 bits as the JVM and as all
 * others write it, half of one, a stray byte, a zero as two bytes, and one cut short. */
static const char jvm_utf8[] = "\xc3\xa9\xe2\x82\xac\xed\xa0\xbd\xed\xb8\x80\xf0\x9f\x98\x80"
                               "\xed\xa0\xbd\xff"
                               "x\xc0\x80\xe2\x82";

/* UTF-16 with a pair and two lone halves, and Latin-1 beyond ASCII. */
static void turns_texts_into_utf8(struct test *t)
{
    for (int raw = 0; raw <= 1; raw++) {
        static const uint16_t units[] = {0x41,   0xe9, 0x20ac, 0xd83d, 0xde00,
                                         0xd83d, 0x42, 0xde00, 0xd83d};
        struct recording w = {.raw = raw};
        struct budget b;
        begin_chunk(&w);
        put_metadata(&w, basic_types);
        begin_checkpoint(&w, 1);
        begin_pool(&w, 22, 1);
        put_long(&w, 1);
        buf_add_byte(&w.b, 1); /* empty */
        put_long(&w, 1);
        buf_add_byte(&w.b, 4);
        put_int(&w, ARRAY_SIZE(units));
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
            put_short(&w, units[i]);
        put_long(&w, 1);
        end_event(&w);
        put_execution(&w, 1, 1, 0);
        begin_event(&w, 108);
        buf_add_byte(&w.b, 5);
        put_int(&w, 2);
        buf_add(&w.b, "\xe9z", 2);
        end_event(&w);
        begin_event(&w, 107);
        buf_add_byte(&w.b, 3);
        put_int(&w, sizeof(jvm_utf8) - 1);
        buf_add(&w.b, jvm_utf8, sizeof(jvm_utf8) - 1);
        put_long(&w, 0);
        put_long(&w, 1);
        end_event(&w);
        end_chunk(&w);
        CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
        CHECK_STR(t, show_attrs(set->profiles.data[0], 0),
                  "thread.name=A\u00e9\u20ac\U0001F600\ufffdB\ufffd\ufffd thread.id=1");
        CHECK(t, dict_find_string(set->dict, BYTES("\u00e9z")) != 0);
        CHECK(t, dict_find_string(set->dict,
                                  BYTES("\u00e9\u20ac\U0001F600\U0001F600\ufffd\ufffdx\ufffd\ufffd"
                                        "\ufffd\ufffd")) != 0);
    }
}

static void puts_labels_in_the_place_of_numbers(struct test *t)
{
    struct recording w = {0};
    struct budget b;
    struct error err = {""};
    put_tables(&w, basic_types, "A");
    put_execution(&w, 1, 1, 0);
    put_execution(&w, 1, 1, 4);
    put_execution(&w, 1, 1, 5);
    end_chunk(&w);
    CLEANUP(profile_set_freep) struct profile_set *set = read_all(t, &w, &b);
    struct buf snapshot = make_snapshot(2);
    CHECK_INT(t, jfr_apply_labels(set, 0, buf_bytes(&snapshot), &err), 0);
    buf_done(&snapshot);
    const struct profile *p = set->profiles.data[0];
    CHECK_STR(t, show_attrs(p, 0),
              "thread.name=java-name thread.id=77 thread.state=STATE_RUNNABLE");
    CHECK_STR(t, show_attrs(p, 1),
              "thread.name=java-name thread.id=77 thread.state=STATE_RUNNABLE "
              "profile_id=0000000000000abc span_name=GET / color=red");
    CHECK_STR(t, show_attrs(p, 2),
              "thread.name=java-name thread.id=77 thread.state=STATE_RUNNABLE "
              "profile_id=0000000000000abc span_name=GET /");
}

static void is_told_by_its_first_bytes(struct test *t)
{
    CHECK_INT(t, format_jfr.sniff(BYTES("FLR\0\0\2")), 100);
    CHECK_INT(t, format_jfr.sniff(BYTES("FLR\1\0\2")), 0);
    CHECK_INT(t, format_jfr.sniff(BYTES("FL")), 0);
}

static const struct test_case cases[] = {
    TEST(reads_all_kinds_of_events_and_fields),
    TEST(adds_up_the_chunks_of_a_file),
    TEST(names_generated_classes_alike),
    TEST(cuts_names_that_no_jvm_can_have_between_characters),
    TEST(takes_the_period_from_the_settings),
    TEST(counts_running_threads_twice_when_the_event_is_wall),
    TEST(keeps_weights_and_spans_of_other_agents),
    TEST(turns_texts_into_utf8),
    TEST(puts_labels_in_the_place_of_numbers),
    TEST(is_told_by_its_first_bytes),
};
TEST_MAIN(cases)
