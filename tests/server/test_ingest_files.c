#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "lib/scratch.h"
#include "server/stored.h"
#include "wire/protobuf.h"

static void labels_come_from_the_query(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);

    CHECK_POST(t, &c,
               "/api/v1/profiles?service.name=shop&env=prod&label.from=here&label.x=a%20b&from=now-"
               "1h&instant=1",
               "", BYTES("main;a 5\nmain;b 7\n"), 200,
               "{\"format\":\"collapsed\",\"profiles\":1,\"stored\":1,\"duplicates\":0,"
               "\"rejected\":0,\"from_ns\":\"");
    CHECK_STORED(t, &c,
                 "deployment.environment.name=prod from=here service.name=shop x=a b | "
                 "samples/count instant | main;a 5 | main;b 7\n");
    calls_end(&c);
}

static void any_format_goes_by_its_content(struct test *t)
{
    static const char *const types[] = {"cpu/nanoseconds", NULL};
    static const char *const rows[] = {"main;a 20", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    CLEANUP(buf_done) struct buf packed = {0};
    struct calls c;

    make_pprof(types, rows, &pprof);
    gzip_pack(buf_bytes(&pprof), 6, &packed);
    calls_begin(t, &c);
    CHECK_POST(t, &c, "/v1/pprof?service.name=shop", "", buf_bytes(&packed), 200,
               "\"format\":\"pprof\"");
    CHECK_STORED(t, &c, "service.name=shop | cpu/nanoseconds | main;a 20\n");
    calls_end(&c);

    calls_begin(t, &c);
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop&format=pyroscope-lines", "",
               BYTES("main;a\nmain;a\n"), 200, "\"stored\":1");
    calls_end(&c);
}

static void says_where_it_is_found_again(struct test *t)
{
    struct calls c;
    int64_t now = clock_wall_ns(clock_real());
    calls_begin(t, &c);

    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop&vesta.upload=7", "", BYTES("main;a 5\n"),
               200, "\"labels\":{\"service.name\":\"shop\",\"vesta.upload\":\"7\"}");
    struct stored s;
    stored_read(t, &c, &s);
    CHECK(t, s.start_ns >= now && s.start_ns <= clock_wall_ns(clock_real()));
    buf_done(&s.text);
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=till&from=1794768065000000000&until=now", "",
               BYTES("main;a 5\n"), 200, "\"from_ns\":\"1794768065000000000\"");
    calls_end(&c);
}

/* What would be too old to keep is kept as if it were taken now, its moments as far apart. */
static void moves_times(struct test *t)
{
    static const char *const types[] = {"cpu/nanoseconds", NULL};
    static const char *const rows[] = {"main;a 20", NULL};
    CLEANUP(buf_done) struct buf pprof = {0};
    struct calls c;
    int64_t now = clock_wall_ns(clock_real());

    make_pprof(types, rows, &pprof);
    pb_put_u64(&pprof, 9, 1000000000000); /* time_nanos */
    pb_put_u64(&pprof, 10, 2000000000);   /* duration_nanos */
    calls_begin(t, &c);
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop", "", buf_bytes(&pprof), 422,
               "profiles are kept for");
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop&retime=1", "", buf_bytes(&pprof), 200,
               "\"stored\":1");
    struct stored s;
    stored_read(t, &c, &s);
    CHECK(t, s.start_ns >= now - 2000000000);
    CHECK_INT(t, s.duration_ns, 2000000000);
    buf_done(&s.text);
    calls_end(&c);
}

static void notes_are_told(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);

    CHECK_POST(t, &c, "/v1/pprof?service.name=shop", "", BYTES("main;a 1.5\nmain;b 2\n"), 200,
               "\"notes\":[\"counts have fractions: all are kept in millionths\"]");
    CHECK_POST(t, &c, "/v1/pprof?service.name=shop", "", BYTES("main;a 1\nmain;b 2\n"), 200,
               "\"notes\":[]");
    calls_end(&c);
}

static void refuses_and_names_what_is_wrong(struct test *t)
{
    static const struct {
        const char *query;
        struct bytes content;
        int status;
        const char *why;
    } cases[] = {
        {"", BYTES("hello, world"), 400, "the body: not a profile in any known format"},
        {"", (struct bytes){0}, 400, "the body: the file is empty"},
        {"?format=x", BYTES("a;b 1"), 400, "no format \\\"x\\\" can be read"},
        {"?format=svg", BYTES("a;b 1"), 400, "no format \\\"svg\\\" can be read"},
        {"?from=soon", BYTES("a;b 1"), 400, "from: \\\"soon\\\" is no time"},
        {"?label.=soon", BYTES("a;b 1"), 400, "a label without a name"},
        {"?service.name=a&from=now-90d", BYTES("a;b 1"), 422,
         "\"stored\":0,\"duplicates\":0,\"rejected\":1,\"why\":\""},
    };
    struct calls c;
    calls_begin(t, &c);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char target[200];
        snprintf(target, sizeof(target), "/api/v1/profiles%s", cases[i].query);
        CHECK_POST(t, &c, target, "", cases[i].content, cases[i].status, cases[i].why);
    }
    CHECK_STORED(t, &c, "");
    calls_end(&c);
}

/* A heap of three nodes: a root, an object it holds, a string that holds a secret. */
static const char snapshot[] =
    "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_"
    "count\","
    "\"detachedness\"],\"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\","
    "\"closure\",\"regexp\",\"number\",\"native\",\"synthetic\"],\"string\",\"number\",\"number\","
    "\"number\",\"number\"],\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],"
    "\"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\",\"shortcut\","
    "\"weak\"],\"string_or_number\",\"node\"]},\"node_count\":3,\"edge_count\":2},\"nodes\":"
    "[9,0,1,0,1,0,3,1,3,40,1,0,2,2,5,24,0,0],\"edges\":[1,1,6,2,3,12],\"strings\":[\"\","
    "\"Session\","
    "\"hunter2\",\"password\"]}";

static size_t count_files(const char *dir, struct stat *last)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    char path[512];

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        n += stat(path, last) == 0;
    }
    if (d)
        closedir(d);
    return n;
}

static void of_a_heap_snapshot_only_the_summary_stays(struct test *t)
{
    struct scratch dir;
    struct calls c;
    struct stored s;
    struct stat st;
    char heap[300];
    scratch_init(&dir);
    calls_config(&c);
    c.config.data_dir = dir.path;
    calls_open(t, &c);

    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop", "", BYTES(snapshot), 200,
               "\"format\":\"heapsnapshot\",\"profiles\":1,\"stored\":1");
    stored_read(t, &c, &s);
    CHECK(t, strstr(buf_cstr(&s.text), "Session") != NULL);
    CHECK(t, strstr(buf_cstr(&s.text), "hunter2") == NULL);
    buf_done(&s.text);
    snprintf(heap, sizeof(heap), "%s/heap", dir.path);
    CHECK_INT(t, count_files(heap, &st), 0);
    calls_end(&c);
    scratch_done(&dir);
}

static void a_heap_snapshot_is_kept_where_that_was_turned_on(struct test *t)
{
    struct scratch dir;
    struct calls c;
    struct stat st;
    char heap[300], old[400];
    scratch_init(&dir);
    snprintf(heap, sizeof(heap), "%s/heap", dir.path);
    snprintf(old, sizeof(old), "%s/old.heapsnapshot", heap);
    mkdir(heap, 0700);
    close(open(old, O_CREAT | O_WRONLY, 0600));
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    utimensat(AT_FDCWD, old, long_ago, 0);
    calls_config(&c);
    c.config.data_dir = dir.path;
    c.config.keep_heap_snapshots = true;
    calls_open(t, &c);

    CHECK_POST(t, &c, "/api/v1/profiles?service.name=shop", "", BYTES(snapshot), 200,
               ".heapsnapshot\"");
    CHECK_INT(t, count_files(heap, &st),
              2); /* the file and what lies beside it; the old one went */
    CHECK_INT(t, st.st_mode & 0777, 0600);
    CHECK(t, stat(old, &st) < 0);
    calls_end(&c);
    scratch_done(&dir);
}

static void only_snapshots_may_be_larger_than_bodies(struct test *t)
{
    struct calls c;
    calls_config(&c);
    c.config.body_limit = 400;
    calls_open(t, &c);

    CLEANUP(buf_done) struct buf text = {0};
    while (text.len < 500)
        buf_add_str(&text, "main;a 1\n");
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=a", "", buf_bytes(&text), 413,
               "is larger than limits.body, 400: only heap snapshots may be");
    CHECK_POST(t, &c, "/api/v1/profiles?service.name=a", "", BYTES(snapshot), 200, "\"stored\":1");
    calls_end(&c);
}

static const struct test_case cases[] = {
    TEST(labels_come_from_the_query),
    TEST(any_format_goes_by_its_content),
    TEST(says_where_it_is_found_again),
    TEST(moves_times),
    TEST(notes_are_told),
    TEST(refuses_and_names_what_is_wrong),
    TEST(of_a_heap_snapshot_only_the_summary_stays),
    TEST(a_heap_snapshot_is_kept_where_that_was_turned_on),
    TEST(only_snapshots_may_be_larger_than_bodies),
};
TEST_MAIN(cases)
