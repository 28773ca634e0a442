#include <errno.h>

#include "base/budget.h"
#include "host/inspect.h"
#include "host/inspect_text.h"
#include "lib/test.h"

static bool map_of(const char *text, struct map_line *ret)
{
    return map_line_read(bytes_of(text), ret);
}

static const char *path_of(const char *text, bool *deleted)
{
    static char path[4096];
    struct map_line m;
    struct buf out = {0};

    path[0] = '\0';
    if (map_of(text, &m)) {
        *deleted = map_path(m.path, 4095, &out);
        snprintf(path, sizeof(path), "%s", buf_cstr(&out));
    }
    buf_done(&out);
    return path;
}

static void a_line_of_maps_is_read(struct test *t)
{
    struct map_line m = {0};

    CHECK(t, map_of("7f1c2a000000-7f1c2a028000 r-xp 00028000 08:0a 1234567                    "
                    "/usr/lib/x86_64-linux-gnu/libc.so.6",
                    &m));
    CHECK(t, m.begin == 0x7f1c2a000000 && m.end == 0x7f1c2a028000 && m.offset == 0x28000);
    CHECK_INT(t, m.major, 8);
    CHECK_INT(t, m.minor, 10);
    CHECK_INT(t, m.inode, 1234567);
    CHECK(t, m.is_executable);
    CHECK(t, bytes_are(m.path, "/usr/lib/x86_64-linux-gnu/libc.so.6"));
    CHECK(t, map_of("00400000-00401000 rw-p 00000000 00:00 0 ", &m));
    CHECK(t, !m.is_executable && m.path.len == 0 && m.inode == 0);
    CHECK(t, map_of("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]", &m));
    CHECK(t, bytes_are(m.path, "[vsyscall]"));
}

static void paths_are_as_people_know_them(struct test *t)
{
    bool deleted = false;

    CHECK_STR(t, path_of("1000-2000 r-xp 0 0:1 7   /opt/my app/a b.so", &deleted),
              "/opt/my app/a b.so");
    CHECK(t, !deleted);
    CHECK_STR(t, path_of("1000-2000 r-xp 0 0:1 7   /opt/x.so (deleted)", &deleted), "/opt/x.so");
    CHECK(t, deleted);
    CHECK_STR(t, path_of("1000-2000 r-xp 0 0:1 7   /opt/a\\012b.so", &deleted), "/opt/a\nb.so");
    CHECK(t, !deleted);
    CHECK_STR(t, path_of("1000-2000 r-xp 0 0:1 7   /opt/a\\012 (deleted)", &deleted), "/opt/a\n");
    /* A file of that very name: cut as well, nobody can tell. */
    CHECK_STR(t, path_of("1000-2000 r-xp 0 0:1 7    (deleted)", &deleted), "(deleted)");
}

static void lines_that_are_none_are_refused(struct test *t)
{
    static const char *const all[] = {
        "",
        "1000",
        "1000-",
        "2000-1000 r-xp 0 0:1 7 /x",
        "1000-1000 r-xp 0 0:1 7 /x",
        "1000-2000 r-x 0 0:1 7 /x",
        "1000-2000 r-xp z 0:1 7 /x",
        "1000-2000 r-xp 0 01 7 /x",
        "1000-2000 r-xp 0 0:1 x /x",
        "1000-2000 r-xp 0 0:1",
        "11112222333344445-2000 r-xp 0 0:1 7 /x",
        "1000-2000 r-xp 0 100000000:1 7 /x",
        "/opt/x.so",
    };
    struct map_line m;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK(t, !map_of(all[i], &m));
}

static void a_name_with_brackets_does_not_shift_fields(struct test *t)
{
    struct stat_text s = {0};

    CHECK(t, stat_read(BYTES("12 (a) R 1 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 999 "
                             "10 11 12 4096 8192 140000 1 2 3\n"),
                       &s));
    CHECK(t, bytes_are(s.comm, "a) R 1 (b"));
    CHECK_INT(t, s.state, 'S');
    CHECK_INT(t, s.parent, 7);
    CHECK_INT(t, s.flags, 4194560);
    CHECK_INT(t, s.start_ticks, 999);
    CHECK_INT(t, s.code_start, 4096);
    CHECK_INT(t, s.code_end, 8192);
    CHECK_INT(t, s.stack_start, 140000);
    CHECK(t, !stat_read(BYTES("12 (a S 7 12"), &s));
    CHECK(t, !stat_read(BYTES("12 )a( S 7 12"), &s));
    CHECK(t, !stat_read(BYTES("12 (a) S 7 12 12 0 -1 4194560 1 2 3"), &s));
    CHECK(t, !stat_read(BYTES(""), &s));
}

static void status_tells_user_and_inner_pid(struct test *t)
{
    uint32_t uid = 0, pid = 0;

    CHECK(t, status_read(BYTES("Name:\tx\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4711\t42\t7\n"),
                         &uid, &pid));
    CHECK_INT(t, uid, 1001);
    CHECK_INT(t, pid, 7);
    CHECK(t, !status_read(BYTES("Name:\tx\n"), &uid, &pid));
    CHECK(t, !status_read(BYTES("Uid:\t-1\t99999999999\n"), &uid, &pid));
}

static void only_variables_asked_for_are_picked_and_the_first_counts(struct test *t)
{
    static const char text[] =
        "PATH=/bin\0OTEL_SERVICE_NAME=first\0SECRET=x\0OTEL_SERVICE_NAME=two\0"
        "no value\0=odd\0EMPTY=\0OTEL_SERVICE_NAMES=other\0LAST=unended";
    struct bytes names[] = {BYTES("LAST"), BYTES("OTEL_SERVICE_NAME"), BYTES("EMPTY")};
    struct buf out = {0};

    environ_pick((struct bytes){(const uint8_t *)text, sizeof(text) - 1}, names, 3, 1000, &out);
    CHECK(t,
          bytes_equal(buf_bytes(&out), BYTES("OTEL_SERVICE_NAME=first\0EMPTY=\0LAST=unended\0")));
    CHECK(t, bytes_are(environ_get(buf_bytes(&out), "LAST"), "unended"));
    CHECK(t, bytes_are(environ_get(buf_bytes(&out), "OTEL_SERVICE_NAME"), "first"));
    CHECK(t, environ_get(buf_bytes(&out), "EMPTY").data != NULL);
    CHECK(t, environ_get(buf_bytes(&out), "SECRET").data == NULL);
    buf_clear(&out);
    /* What does not fit is left out, not cut. */
    environ_pick((struct bytes){(const uint8_t *)text, sizeof(text) - 1}, names, 3, 10, &out);
    CHECK(t, bytes_equal(buf_bytes(&out), BYTES("EMPTY=\0")));
    buf_done(&out);
}

static void listening_sockets_near_us_are_told_from_others(struct test *t)
{
    struct tcp_line l = {0};

    CHECK(t,
          tcp_line_read(BYTES("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 "
                              "00000000     0        0 1064 1 0000000096c7cf9e 100 0 0 10 0"),
                        &l));
    CHECK(t, l.is_listening && l.is_near && l.is_loopback);
    CHECK_INT(t, l.port, 8080);
    CHECK_INT(t, l.inode, 1064);
    CHECK(t,
          tcp_line_read(BYTES("   1: 0A00000A:0050 0100000A:1234 01 00000000:00000000 00:00000000 "
                              "00000000     0        0 77 1"),
                        &l));
    CHECK(t, !l.is_listening && !l.is_near && !l.is_loopback);
    CHECK(t, tcp_line_read(BYTES("   0: 00000000000000000000000001000000:0016 "
                                 "00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1"),
                           &l));
    CHECK(t, l.is_near && l.is_loopback && l.is_v6 && l.address[15] == 1);
    CHECK(t, tcp_line_read(BYTES("   0: 0000000000000000FFFF00000100007F:0016 0:0 0A 0 0 0 0 0 9"),
                           &l));
    CHECK(t, l.is_near && l.is_loopback && l.address[12] == 127);
    CHECK(t, tcp_line_read(BYTES("   0: 00000000:0016 0:0 0A 0 0 0 0 0 9"), &l));
    CHECK(t, l.is_near && !l.is_loopback && !l.is_v6);
    CHECK(t, tcp_line_read(BYTES("   0: 00000000000000000000000000000000:0016 0:0 0A 0 0 0 0 0 9"),
                           &l));
    CHECK(t, l.is_near && !l.is_loopback);
    CHECK(t, tcp_line_read(BYTES("   0: B80D0120000000000000000001000000:0016 0:0 0A 0 0 0 0 0 9"),
                           &l));
    CHECK(t, !l.is_near && !l.is_loopback);
    CHECK(t, !tcp_line_read(BYTES("   0: 0100007:0016 0:0 0A 0 0 0 0 0 9"), &l));
    CHECK(t, !tcp_line_read(BYTES("  sl  local_address rem_address   st"), &l));
    CHECK(t, !tcp_line_read(BYTES("   0: 0100007F:99999 00000000:0000 0A 0 0 0 0 0 9"), &l));
}

static void what_is_said_about_inspectors_is_heard(struct test *t)
{
    static const struct bytes said[] = {
        BYTES("node\0--inspect-port=0.0.0.0:9229\0app.js\0"),
        BYTES("node\0--inspect_port=0.0.0.0:9229\0app.js\0"),
        BYTES("node\0--debug_port=9333\0"),
        BYTES("NODE_OPTIONS=--max-old-space-size=100 --disable-sigusr1"),
        BYTES("node\0--env-file=.env\0app.js\0"),
        BYTES("node\0--env_file-if-exists=.env\0app.js\0"),
        BYTES("node\0--experimental-default-config-file\0app.js\0"),
        BYTES("node\0--experimental_config-file=x.json\0app.js\0"),
    };

    for (size_t i = 0; i < ARRAY_SIZE(said); i++)
        CHECK(t, node_speaks_of_inspector(said[i]));
    CHECK(t, !node_speaks_of_inspector(BYTES("node\0app.js\0--config-file=x\0__inspect\0")));
    CHECK(t, !node_speaks_of_inspector(BYTES("")));
    CHECK(t, !node_speaks_of_inspector(BYTES("--inspec")));
}

static void titles_are_told_from_command_lines(struct test *t)
{
    CHECK(t, cmdline_is_kept(BYTES("node\0--x=1\0app.js\0"), 3));
    CHECK(t, cmdline_is_kept(BYTES("node\0"), 1));
    CHECK(t, !cmdline_is_kept(BYTES("shop\0\0\0\0\0\0\0\0"), 3));
    CHECK(t, !cmdline_is_kept(BYTES("node --x=1 app\0\0\0"), 3)); /* as many zeros as arguments */
    CHECK(t, !cmdline_is_kept(BYTES("a title as long as all of it\0"), 3));
    CHECK(t, !cmdline_is_kept(BYTES("cut"), 1));
    CHECK(t, !cmdline_is_kept(BYTES("\0"), 1));
    CHECK(t, !cmdline_is_kept(BYTES(""), 0));
}

static void signals_with_a_handler_are_told_from_others(struct test *t)
{
    struct bytes node = BYTES("Name:\tnode\nSigIgn:\t0000000001001000\n"
                              "SigCgt:\t0000000100004602\nCapInh:\t0\n");

    CHECK(t, status_catches(node, 10)); /* SIGUSR1 */
    CHECK(t, status_catches(node, 2) && !status_catches(node, 1));
    CHECK(t, !status_catches(node, 12) && !status_catches(node, 0) && !status_catches(node, 65));
    CHECK(t, !status_catches(BYTES("SigCgt:\t0000000100004402\n"), 10));
    CHECK(t, !status_catches(BYTES("SigIgn:\tffffffffffffffff\n"), 10));
    CHECK(t, !status_catches(BYTES("SigCgt:\tx\n"), 10));
    CHECK(t, !status_catches(BYTES(""), 10));
}

static void damaged_answers_are_not_believed(struct test *t)
{
    static const struct {
        struct bytes answer;
        const char *why;
    } all[] = {
        {BYTES(""), "it is about nobody"},
        {BYTES("\x08"), "a varint is cut short or too long"},
        /* comm of 16 bytes */
        {BYTES("\x08\x01\x4a\x10"
               "0123456789abcdef"),
         "a text is too long"},
        /* a mapping of a file that was not told */
        {BYTES("\x08\x01\x92\x01\x04\x01\x01\x00\x01"), "a mapping is out of range"},
        /* of no length, and past the end of memory */
        {BYTES("\x08\x01\x92\x01\x04\x01\x00\x00\x00"), "a mapping is out of range"},
        {BYTES("\x08\x01\x92\x01\x0c\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00"),
         "a mapping is out of range"},
        {BYTES("\x08\x01\x92\x01\x03\x01\x01\x00"), "mappings are cut short"},
        /* twice: the second would begin before the first ends */
        {BYTES("\x08\x01\x92\x01\x04\x01\x01\x00\x00\x92\x01\x04\x00\x01\x00\x00"),
         "mappings come twice"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct inspect_process p;
        struct budget b;
        struct error err = {{0}};
        char want[200];
        budget_init(&b, 1 << 20);
        CHECK_INT(t, inspect_read(all[i].answer, &b, &p, &err), -EBADMSG);
        snprintf(want, sizeof(want), "the answer about a process is damaged: %s", all[i].why);
        CHECK_STR(t, err.text, want);
        CHECK_INT(t, b.used, 0);
    }
}

static void a_small_budget_refuses_an_answer(struct test *t)
{
    struct inspect_process p;
    struct budget b;
    struct error err = {{0}};

    budget_init(&b, 8);
    CHECK_INT(t, inspect_read(BYTES("\x08\x01\x4a\x02xy"), &b, &p, &err), -ENOBUFS);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(a_line_of_maps_is_read),
    TEST(paths_are_as_people_know_them),
    TEST(lines_that_are_none_are_refused),
    TEST(a_name_with_brackets_does_not_shift_fields),
    TEST(status_tells_user_and_inner_pid),
    TEST(only_variables_asked_for_are_picked_and_the_first_counts),
    TEST(listening_sockets_near_us_are_told_from_others),
    TEST(what_is_said_about_inspectors_is_heard),
    TEST(titles_are_told_from_command_lines),
    TEST(signals_with_a_handler_are_told_from_others),
    TEST(damaged_answers_are_not_believed),
    TEST(a_small_budget_refuses_an_answer),
};
TEST_MAIN(cases)
