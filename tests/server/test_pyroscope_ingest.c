#include <errno.h>

#include "base/clock.h"
#include "server/pyroscope_name.h"
#include "server/stored.h"
#include "wire/protobuf.h"

#define TEXT "text/plain"
#define FORM "multipart/form-data; boundary=XX"

static void add_part(struct buf *form, const char *name, struct bytes content)
{
    buf_addf(form, "--XX\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"f\"\r\n\r\n",
             name);
    buf_add_bytes(form, content);
    buf_add_str(form, "\r\n");
}

static void end_form(struct buf *form)
{
    buf_add_str(form, "--XX--\r\n");
}

static void names_are_taken_apart(struct test *t)
{
    struct pyroscope_name n;
    struct error err = {""};

    CHECK_INT(t, pyroscope_name_parse(BYTES(" my app{ k = v ,a=b=c,, empty=}"), &n, &err), 0);
    CHECK(t, bytes_are(n.app, "my app"));
    CHECK_INT(t, n.n_labels, 3);
    CHECK(t, bytes_are(n.labels[0].name, "k") && bytes_are(n.labels[0].value, "v"));
    CHECK(t, bytes_are(n.labels[1].value, "b=c"));
    CHECK(t, bytes_are(n.labels[2].name, "empty") && n.labels[2].value.len == 0);
    CHECK_INT(t, pyroscope_name_parse(BYTES("app"), &n, &err), 0);
    CHECK_INT(t, n.n_labels, 0);
    CHECK_INT(t, pyroscope_name_parse(BYTES("app{k=v"), &n, &err), 0);
    CHECK_INT(t, n.n_labels, 1);

    CHECK_INT(t, pyroscope_name_parse(BYTES("{k=v}"), &n, &err), -EINVAL);
    CHECK_STR(t, err.text, "name: no application in \"{k=v}\"");
    CHECK_INT(t, pyroscope_name_parse(BYTES("app{k}"), &n, &err), -EINVAL);
    CHECK_STR(t, err.text, "name: not key=value: \"k\"");
    CHECK_INT(t, pyroscope_name_parse(BYTES("app{=v}"), &n, &err), -EINVAL);
    CHECK_INT(t, pyroscope_name_parse(BYTES("app{k=a\nb}"), &n, &err), -EINVAL);
    CHECK_STR(t, err.text, "name: there is a control character in it");
    struct buf many = {0};
    buf_add_str(&many, "app{");
    for (int i = 0; i < PYROSCOPE_LABELS_MAX + 1; i++)
        buf_addf(&many, "k%d=v,", i);
    CHECK_INT(t, pyroscope_name_parse(buf_bytes(&many), &n, &err), -EINVAL);
    CHECK_STR(t, err.text, "name: more than 256 labels");
    buf_done(&many);
}

static void samples_of_cpu_become_time(struct test *t)
{
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    CHECK_POST(t, &c,
               "/ingest?name=shop.cpu{env=prod}&from=now-20s&until=now-10s&sampleRate=50"
               "&spyName=rbspy",
               TEXT, BYTES("main;a 5\nmain;b 7\n"), 200, "");
    stored_read(t, &c, &s);
    CHECK_STR(t, buf_cstr(&s.text),
              "deployment.environment.name=prod pyroscope_spy=rbspy service.name=shop "
              "telemetry.sdk.language=ruby | cpu/nanoseconds | main;a 100000000 | main;b "
              "140000000\n");
    CHECK_INT(t, s.period, 20000000);
    CHECK_STR(t, s.period_type, "cpu/nanoseconds");
    CHECK(t, s.duration_ns > 9900000000 && s.duration_ns < 10100000000);
    buf_done(&s.text);
    calls_end(&c);
}

static void suffixes_and_units_say_what_was_counted(struct test *t)
{
    static const struct {
        const char *query, *want;
    } cases[] = {
        {"name=a.b.wall", "service.name=a.b | wall/nanoseconds | m 20000000\n"},
        {"name=a.itimer", "service.name=a | cpu/nanoseconds | m 20000000\n"},
        {"name=a&sampleRate=0", "service.name=a | samples/count | m 2\n"},
        {"name=a.alloc_space", "service.name=a | alloc_space/bytes | m 2\n"},
        {"name=a.inuse_space", "service.name=a | inuse_space/bytes instant | m 2\n"},
        {"name=a.goroutines", "service.name=a | goroutine/count instant | m 2\n"},
        {"name=a.mutex_count", "service.name=a | contentions/count | m 2\n"},
        {"name=a.block_duration", "profile.kind=block service.name=a | delay/nanoseconds | m 2\n"},
        {"name=a&units=lock_nanoseconds", "service.name=a | delay/nanoseconds | m 2\n"},
        {"name=a.service", "service.name=a.service | cpu/nanoseconds | m 20000000\n"},
        {"name=a.exceptions", "service.name=a | exceptions/count | m 2\n"},
        {"name=a.cpu&aggregationType=average",
         "service.name=a | cpu/nanoseconds instant | m 20000000\n"},
        {"name=a.cpu{service_name=b,__session_id__=7}",
         "service.name=b | cpu/nanoseconds | m 20000000\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct calls c;
        char target[200];
        calls_begin(t, &c);
        snprintf(target, sizeof(target), "/pyroscope/ingest?%s", cases[i].query);
        CHECK_POST(t, &c, target, TEXT, BYTES("m 2\n"), 200, "");
        CHECK_STORED(t, &c, cases[i].want);
        calls_end(&c);
    }
}

static void every_format_says_the_same(struct test *t)
{
    static const struct {
        const char *query, *type;
        struct bytes content;
    } cases[] = {
        {"&format=groups", TEXT, BYTES("main;a 2\nmain;b 1\n")},
        {"&format=folded", TEXT, BYTES("main;a 2\nmain;b 1\n")},
        {"&format=lines", TEXT, BYTES("main;a\nmain;b\nmain;a\n")},
        {"&format=tree", TEXT, BYTES("\0\0\1\4main\0\2\1a\2\0\1b\1\0")},
        {"", "binary/octet-stream+tree", BYTES("\0\0\1\4main\0\2\1a\2\0\1b\1\0")},
        {"&format=trie", TEXT, BYTES("\0\0\1\5main;\0\2\1a\2\0\1b\1\0")},
        {"", "binary/octet-stream+trie", BYTES("\0\0\1\5main;\0\2\1a\2\0\1b\1\0")},
        {"", "", BYTES("main;a 2\nmain;b 1\n")},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct calls c;
        char target[200];
        calls_begin(t, &c);
        snprintf(target, sizeof(target), "/ingest?name=app%s", cases[i].query);
        CHECK_POST(t, &c, target, cases[i].type, cases[i].content, 200, "");
        CHECK_STORED(t, &c,
                     "service.name=app | cpu/nanoseconds | main;a 20000000 | main;b 10000000\n");
        calls_end(&c);
    }
}

static void a_speedscope_file_says_its_own_types(struct test *t)
{
    static const char text[] =
        "{\"$schema\":\"https://www.speedscope.app/"
        "file-format-schema.json\",\"shared\":{\"frames\":"
        "[{\"name\":\"main\"},{\"name\":\"a\"}]},\"profiles\":[{\"type\":\"sampled\",\"name\":"
        "\"x\","
        "\"unit\":\"bytes\",\"startValue\":0,\"endValue\":3,\"samples\":[[0,1]],\"weights\":[3]}]}";
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    CHECK_POST(t, &c, "/ingest?name=app&format=speedscope", TEXT, BYTES(text), 200, "");
    stored_read(t, &c, &s);
    CHECK(t, strstr(buf_cstr(&s.text), "service.name=app") != NULL);
    CHECK(t, strstr(buf_cstr(&s.text), "/bytes | main;a 3") != NULL);
    buf_done(&s.text);
    calls_end(&c);
}

static void pprof_comes_alone_or_in_a_form_packed_or_not(struct test *t)
{
    static const char *const types[] = {"samples/count", "cpu/nanoseconds", NULL};
    static const char *const rows[] = {"main;a 2 20", "main;b 1 10 span_id=00000000000000ff", NULL};
    static const char want[] = "service.name=app | samples/count cpu/nanoseconds | main;a 2 20 | "
                               "main;b@00000000000000ff 1 10\n";
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf packed = {0};

    make_pprof(types, rows, &pprof);
    gzip_pack(buf_bytes(&pprof), 6, &packed);
    for (int i = 0; i < 6; i++) {
        CLEANUP(buf_done) struct buf form = {0};
        struct bytes content = buf_bytes(i % 2 ? &packed : &pprof);
        struct calls c;
        calls_begin(t, &c);
        add_part(&form, "profile", content);
        end_form(&form);
        if (i < 2)
            CHECK_POST(t, &c, "/ingest?name=app&format=pprof", "", content, 200, "");
        else if (i < 4)
            CHECK_POST(t, &c, "/ingest?name=app", "", content, 200, "");
        else
            CHECK_POST(t, &c, "/ingest?name=app", FORM, buf_bytes(&form), 200, "");
        CHECK_STORED(t, &c, want);
        calls_end(&c);
    }
}

static void live_heap_and_allocations_become_two_profiles(struct test *t)
{
    static const char *const types[] = {"alloc_objects/count", "alloc_space/bytes",
                                        "inuse_objects/count", "inuse_space/bytes", NULL};
    static const char *const rows[] = {"main;a 2 200 1 100", "main;b 1 10 0 0", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf form = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(types, rows, &pprof);
    add_part(&form, "profile", buf_bytes(&pprof));
    add_part(
        &form, "sample_type_config",
        BYTES("{\"alloc_objects\":{\"units\":\"objects\"},\"alloc_space\":{\"units\":"
              "\"bytes\",\"cumulative\":false},\"inuse_objects\":{\"aggregation\":\"average\"},"
              "\"inuse_space\":{\"aggregation\":\"average\"}}"));
    end_form(&form);
    CHECK_POST(t, &c, "/ingest?name=app", FORM, buf_bytes(&form), 200, "");
    stored_read(t, &c, &s);
    CHECK_INT(t, s.n, 2);
    CHECK(t, strstr(buf_cstr(&s.text), "service.name=app | alloc_objects/count alloc_space/bytes | "
                                       "main;a 2 200 | main;b 1 10\n") != NULL);
    CHECK(t, strstr(buf_cstr(&s.text), "service.name=app | inuse_objects/count inuse_space/bytes "
                                       "instant | main;a 1 100") != NULL);
    buf_done(&s.text);
    calls_end(&c);
}

static void what_counts_since_the_beginning_has_the_profile_before_taken_off(struct test *t)
{
    static const char *const types[] = {"alloc_space/bytes", "inuse_space/bytes", NULL};
    static const char *const now[] = {"main;a 200 5", "main;b 10 0", NULL};
    static const char *const before[] = {"main;a 150 9", "main;b 10 9", NULL};
    static const char config[] = "{\"alloc_space\":{\"cumulative\":true},"
                                 "\"inuse_space\":{\"aggregation\":\"average\"}}";
    CLEANUP(buf_done) struct buf a = {0};
    CLEANUP(buf_done) struct buf b = {0};

    make_pprof(types, now, &a);
    make_pprof(types, before, &b);
    for (int with_before = 0; with_before < 2; with_before++) {
        CLEANUP(buf_done) struct buf form = {0};
        struct calls c;
        struct stored s;
        calls_begin(t, &c);
        add_part(&form, "profile", buf_bytes(&a));
        if (with_before)
            add_part(&form, "prev_profile", buf_bytes(&b));
        add_part(&form, "sample_type_config", BYTES(config));
        end_form(&form);
        CHECK_POST(t, &c, "/ingest?name=app", FORM, buf_bytes(&form), 200, "");
        stored_read(t, &c, &s);
        const char *text = buf_cstr(&s.text);
        if (with_before) {
            CHECK_INT(t, s.n, 2);
            CHECK(t, strstr(text, "app | alloc_space/bytes | main;a 50\n") != NULL);
            CHECK(t, strstr(text, "app | inuse_space/bytes instant | main;a 5") != NULL);
        } else { /* a total since the beginning is a moment's */
            CHECK_STR(t, text,
                      "service.name=app | alloc_space/bytes inuse_space/bytes instant | main;a "
                      "200 5 | main;b 10 0\n");
        }
        buf_done(&s.text);
        calls_end(&c);
    }
}

static void what_a_type_is_shown_as_tells_block_from_mutex(struct test *t)
{
    static const char *const types[] = {"contentions/count", "delay/nanoseconds", NULL};
    static const char *const rows[] = {"main;lock 1 10", NULL};
    static const struct {
        const char *config, *want;
    } cases[] = {
        {"{\"contentions\":{\"display-name\":\"block_count\"},"
         "\"delay\":{\"display-name\":\"block_duration\"}}",
         "profile.kind=block service.name=app | contentions/count delay/nanoseconds | main;lock 1 "
         "10\n"},
        {"{\"contentions\":{\"display-name\":\"mutex_count\"},\"delay\":null}",
         "service.name=app | contentions/count delay/nanoseconds | main;lock 1 10\n"},
    };
    CLEANUP(buf_done) struct buf pprof = {0};

    make_pprof(types, rows, &pprof);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(buf_done) struct buf form = {0};
        struct calls c;
        calls_begin(t, &c);
        add_part(&form, "sample_type_config", bytes_of(cases[i].config));
        add_part(&form, "profile", buf_bytes(&pprof));
        end_form(&form);
        CHECK_POST(t, &c, "/ingest?name=app", FORM, buf_bytes(&form), 200, "");
        CHECK_STORED(t, &c, cases[i].want);
        calls_end(&c);
    }
}

static void an_agent_that_saw_nothing_is_answered(struct test *t)
{
    CLEANUP(buf_done) struct buf form = {0};
    struct calls c;
    calls_begin(t, &c);

    add_part(&form, "profile", (struct bytes){0});
    end_form(&form);
    CHECK_POST(t, &c, "/ingest?name=app", TEXT, (struct bytes){0}, 200, "");
    CHECK_POST(t, &c, "/ingest?name=app", FORM, buf_bytes(&form), 200, "");
    CHECK_STORED(t, &c, "");
    calls_end(&c);
}

static void refuses_and_names_what_is_wrong(struct test *t)
{
    static const struct {
        const char *query, *type;
        struct bytes content;
        int status;
        const char *why;
    } cases[] = {
        {"", TEXT, BYTES("a 1"), 400, "the parameter name is missing"},
        {"name={}", TEXT, BYTES("a 1"), 400, "name: no application in"},
        {"name=a&format=perl", TEXT, BYTES("a 1"), 400, "format \\\"perl\\\" is none of pprof"},
        {"name=a&from=yesterday", TEXT, BYTES("a 1"), 400, "from: \\\"yesterday\\\" is no time"},
        {"name=a&sampleRate=-1", TEXT, BYTES("a 1"), 400, "sampleRate is not a number"},
        {"name=a&sampleRate=9999999999999", TEXT, BYTES("a 1"), 400, "sampleRate is not a number"},
        {"name=a", TEXT, BYTES("a b"), 400,
         "the body: pyroscope groups at line 1: the count is not a whole number"},
        {"name=a&format=pprof", TEXT, BYTES("hello"), 400, "the body: pprof at byte"},
        {"name=a&format=tree", TEXT, BYTES("\0\0\5"), 400,
         "the body: pyroscope tree at byte 3: nodes are missing"},
        {"name=a&format=jfr", TEXT, BYTES("FLR\0"), 400, "the body: jfr"},
        {"name=a", TEXT, BYTES("a 9000000000000000000"), 400,
         "9000000000000000000 samples at 100 a second are more nanoseconds than can be counted"},
        {"name=a", FORM, BYTES("--XX\r\n"), 400, "multipart at byte 6: the headers of the part"},
        {"name=a", FORM,
         BYTES("--XX\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\nx\r\n--XX--"), 400,
         "the form has no part \\\"profile\\\" and none \\\"jfr\\\""},
        {"name=a", FORM,
         BYTES("--XX\r\nContent-Disposition: form-data; name=\"profile\"\r\n\r\nx\r\n--XX\r\n"
               "Content-Disposition: form-data; name=\"sample_type_config\"\r\n\r\n[]\r\n--XX--"),
         400, "sample_type_config at byte"},
        {"name=a", "multipart/form-data", BYTES("a 1"), 400, "has no boundary"},
        {"name=a&from=now-90d&until=now-90d", TEXT, BYTES("a 1"), 400, "old"},
    };
    struct calls c;
    calls_begin(t, &c);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char target[200];
        snprintf(target, sizeof(target), "/ingest?%s", cases[i].query);
        CHECK_POST(t, &c, target, cases[i].type, cases[i].content, cases[i].status, cases[i].why);
    }
    CHECK_STORED(t, &c, "");
    calls_end(&c);
}

static void a_time_of_1970_is_not_believed(struct test *t)
{
    static const char *const types[] = {"samples/count", NULL};
    static const char *const rows[] = {"main;a 2", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    struct calls c;
    struct stored s;
    calls_begin(t, &c);

    make_pprof(types, rows, &pprof);
    pb_put_u64(&pprof, 9, 1700000000000000); /* time_nanos, in microseconds */
    CHECK_POST(t, &c, "/ingest?name=app&format=pprof&from=now-1h", "", buf_bytes(&pprof), 200, "");
    stored_read(t, &c, &s);
    CHECK_INT(t, s.n, 1);
    int64_t age = clock_wall_ns(clock_real()) - s.start_ns;
    CHECK(t, age > 3599000000000 && age < 3700000000000);
    buf_done(&s.text);
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(names_are_taken_apart),
    TEST(samples_of_cpu_become_time),
    TEST(suffixes_and_units_say_what_was_counted),
    TEST(every_format_says_the_same),
    TEST(a_speedscope_file_says_its_own_types),
    TEST(pprof_comes_alone_or_in_a_form_packed_or_not),
    TEST(live_heap_and_allocations_become_two_profiles),
    TEST(what_counts_since_the_beginning_has_the_profile_before_taken_off),
    TEST(what_a_type_is_shown_as_tells_block_from_mutex),
    TEST(an_agent_that_saw_nothing_is_answered),
    TEST(refuses_and_names_what_is_wrong),
    TEST(a_time_of_1970_is_not_believed),
};
TEST_MAIN(cases)
