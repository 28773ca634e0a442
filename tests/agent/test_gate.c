#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/gate.h"
#include "base/buf.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define SECOND ((int64_t)1000000000)
#define WALL   ((int64_t)1800000000 * SECOND)

struct world {
    struct scratch dir;
    struct governor *governor;
    struct gate *gate;
    struct governor_ruling now;
    struct buf said;
    unsigned n_said;
    int64_t now_ns, wall_ns;
};

static void hear(void *arg, const char *text)
{
    struct world *w = arg;
    buf_clear(&w->said);
    buf_add_str(&w->said, text);
    w->n_said++;
}

static void make_gate(struct world *w)
{
    gate_free(w->gate);
    governor_free(w->governor);
    w->governor = governor_new(&(struct governor_limits){
        .rate = 20, .burst_rate = 200, .burst_max_ns = 600 * SECOND, .cpu_budget = 0.01});
    w->gate = gate_new(&(struct gate_options){.governor = w->governor,
                                              .file = scratch_name(&w->dir, "gate"),
                                              .burst_ns = 600 * SECOND,
                                              .say = hear,
                                              .arg = w});
}

static void world_init(struct world *w)
{
    *w = (struct world){.now_ns = 1000 * SECOND, .wall_ns = WALL};
    scratch_init(&w->dir);
    make_gate(w);
}

static void world_done(struct world *w)
{
    gate_free(w->gate);
    governor_free(w->governor);
    buf_done(&w->said);
    scratch_done(&w->dir);
}

static void pass(struct world *w, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        w->now_ns += SECOND;
        w->wall_ns += SECOND;
        gate_look(w->gate, w->now_ns, w->wall_ns);
        governor_feed(w->governor, &(struct governor_reading){.now_ns = w->now_ns}, &w->now);
    }
}

static void write_gate(struct world *w, const char *text)
{
    FILE *f = fopen(scratch_name(&w->dir, "gate"), "w");
    fputs(text, f);
    fclose(f);
    struct timespec t[2] = {{.tv_sec = w->wall_ns / SECOND}, {.tv_sec = w->wall_ns / SECOND}};
    utimensat(AT_FDCWD, w->dir.name, t, 0);
}

static void direct(struct world *w, const char *json)
{
    gate_directive(w->gate, bytes_of(json), w->now_ns, w->wall_ns);
    governor_feed(w->governor, &(struct governor_reading){.now_ns = w->now_ns}, &w->now);
}

/* ---- file */

static void the_files_first_word_is_a_mode_while_it_is_there(struct test *t)
{
    struct world w;
    world_init(&w);
    pass(&w, 2);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    static const struct {
        const char *text;
        enum agent_mode mode;
    } rows[] = {{"off", MODE_OFF},
                {"low\n", MODE_LOW},
                {"  Normal\t1h\n", MODE_NORMAL},
                {"burst\n\n", MODE_BURST},
                {"OFF\n", MODE_OFF}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_gate(&w, rows[i].text);
        pass(&w, 1);
        CHECK_INT(t, w.now.mode, rows[i].mode);
    }
    CHECK_STR(t, buf_cstr(&w.said), "the gate file asks for off");
    CHECK_STR(t, w.now.why, "off asked for by the gate file");
    remove(scratch_name(&w.dir, "gate"));
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_STR(t, buf_cstr(&w.said), "the gate file is gone");
    world_done(&w);
}

static void a_file_that_changes_within_one_tick_is_seen(struct test *t)
{
    struct world w;
    world_init(&w);
    write_gate(&w, "off");
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_OFF);
    w.wall_ns -= SECOND;
    write_gate(&w, "low"); /* the same length and time */
    w.wall_ns += SECOND;
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_LOW);
    world_done(&w);
}

static void text_that_makes_no_sense_is_told_once_and_ignored(struct test *t)
{
    struct world w;
    world_init(&w);
    write_gate(&w, "on\x01\xff please");
    pass(&w, 5);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_INT(t, w.n_said, 1);
    CHECK(t, strstr(buf_cstr(&w.said),
                    "is ignored: its first word is off, low, normal or burst, not \"on\?\?\""));
    write_gate(&w, "off soon");
    pass(&w, 5);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_INT(t, w.n_said, 2);
    CHECK(t, strstr(buf_cstr(&w.said), "its second word is how long, such as 5m, not \"soon\""));
    world_done(&w);
}

static void an_empty_file_says_nothing(struct test *t)
{
    struct world w;
    world_init(&w);
    write_gate(&w, "low");
    pass(&w, 1);
    write_gate(&w, "");
    pass(&w, 3);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_INT(t, w.n_said, 1);
    world_done(&w);
}

static void a_time_in_the_file_counts_from_when_it_was_written(struct test *t)
{
    struct world w;
    world_init(&w);
    write_gate(&w, "burst 30s");
    pass(&w, 29);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);

    make_gate(&w); /* an agent that starts later does not begin anew */
    pass(&w, 2);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    write_gate(&w, "burst 30s");
    pass(&w, 20);
    make_gate(&w);
    pass(&w, 9);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void writing_the_file_again_renews_a_burst(struct test *t)
{
    struct world w;
    world_init(&w);
    write_gate(&w, "burst");
    pass(&w, 599);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 10);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    write_gate(&w, "burst");
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    world_done(&w);
}

static void a_file_from_the_future_or_a_clock_that_jumps_does_no_harm(struct test *t)
{
    struct world w;
    world_init(&w);
    w.wall_ns += 7200 * SECOND;
    write_gate(&w, "burst 1m");
    w.wall_ns -= 7200 * SECOND;
    pass(&w, 59);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    w.wall_ns += 7200 * SECOND;
    pass(&w, 10);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void what_is_no_regular_file_is_not_waited_for(struct test *t)
{
    struct world w;
    world_init(&w);
    CHECK_INT(t, mkfifo(scratch_name(&w.dir, "gate"), 0600), 0);
    pass(&w, 3);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK(t, strstr(buf_cstr(&w.said), "it is not a regular file"));
    CHECK_INT(t, w.n_said, 1);
    remove(w.dir.name);
    CHECK_INT(t, mkdir(w.dir.name, 0700), 0);
    pass(&w, 3);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void without_a_file_nothing_is_looked_at(struct test *t)
{
    struct governor *g = governor_new(&(struct governor_limits){.rate = 20});
    struct gate *gate = gate_new(&(struct gate_options){.governor = g, .file = ""});
    gate_look(gate, SECOND, WALL);
    gate_signal(gate, SIGUSR1, SECOND);
    struct governor_ruling now;
    governor_feed(g, &(struct governor_reading){.now_ns = SECOND}, &now);
    CHECK_INT(t, now.mode, MODE_OFF);
    gate_free(gate);
    gate_free(NULL);
    governor_free(g);
}

/* ---- signals */

static void a_signal_switches_off_and_on_again(struct test *t)
{
    struct world w;
    world_init(&w);
    gate_signal(w.gate, SIGUSR1, w.now_ns);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_OFF);
    CHECK_STR(t, buf_cstr(&w.said), "SIGUSR1 switches off");
    gate_signal(w.gate, SIGUSR1, w.now_ns);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    gate_signal(w.gate, SIGHUP, w.now_ns);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void a_signal_bursts_for_its_time_and_again_when_sent_again(struct test *t)
{
    struct world w;
    world_init(&w);
    gate_signal(w.gate, SIGUSR2, w.now_ns);
    CHECK_STR(t, buf_cstr(&w.said), "SIGUSR2 asks for a burst of 10m");
    pass(&w, 599);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    gate_signal(w.gate, SIGUSR1, w.now_ns);
    gate_signal(w.gate, SIGUSR2, w.now_ns);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    gate_signal(w.gate, SIGUSR1, w.now_ns); /* off, not on: the burst took that back */
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_OFF);
    world_done(&w);
}

/* ---- the server */

static void a_directive_is_obeyed_for_its_time(struct test *t)
{
    struct world w;
    world_init(&w);
    pass(&w, 1);
    direct(&w, "{\"directive\":{\"number\":7,\"mode\":\"burst\",\"rate\":99,\"lasts\":60,"
               "\"types\":[\"cpu\",\"wall\"],\"until\":\"2031-01-01T00:00:00Z\","
               "\"reason\":\"slo checkout-latency\",\"new\":{\"x\":[1]}}}");
    CHECK_INT(t, w.now.mode, MODE_BURST);
    CHECK_INT(t, w.now.rate, 99);
    CHECK_INT(t, w.now.types, 1 << AGENT_TYPE_CPU | 1 << AGENT_TYPE_WALL);
    CHECK_STR(t, buf_cstr(&w.said), "the server asks for burst: slo checkout-latency");
    pass(&w, 59);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void the_same_directive_again_does_not_last_longer(struct test *t)
{
    struct world w;
    world_init(&w);
    pass(&w, 1);
    const char *same = "{\"number\":7,\"mode\":\"burst\",\"lasts\":60,"
                       "\"until\":\"2027-01-15T09:00:00Z\"}";
    direct(&w, same);
    pass(&w, 50);
    direct(&w, same);
    pass(&w, 11);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_INT(t, w.n_said, 1);
    direct(&w, "{\"number\":8,\"mode\":\"burst\",\"lasts\":60}");
    CHECK_INT(t, w.now.mode, MODE_BURST);
    world_done(&w);
}

static void number_0_takes_back_what_the_server_said(struct test *t)
{
    struct world w;
    world_init(&w);
    pass(&w, 1);
    direct(&w, "{\"number\":3,\"mode\":\"off\"}");
    CHECK_INT(t, w.now.mode, MODE_OFF);
    direct(&w, "{\"number\":0,\"mode\":\"normal\"}");
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_STR(t, w.now.why, "as configured");
    world_done(&w);
}

static void a_time_without_a_length_is_held_against_our_clock(struct test *t)
{
    struct world w;
    world_init(&w);
    w.wall_ns = 1800000000 * SECOND; /* 2027-01-15T08:00:00Z */
    pass(&w, 1);
    direct(&w, "{\"number\":3,\"mode\":\"low\",\"until\":\"2027-01-15T08:00:31.5Z\"}");
    pass(&w, 30);
    CHECK_INT(t, w.now.mode, MODE_LOW);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    direct(&w, "{\"number\":4,\"mode\":\"off\",\"until\":\"2020-01-01T00:00:00Z\"}");
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL); /* over already */
    world_done(&w);
}

static void directives_that_make_no_sense_are_ignored(struct test *t)
{
    static const struct {
        const char *json, *said;
    } rows[] = {
        {"", "directive at byte 0"},
        {"{\"number\":1}", "a directive has no \"mode\""},
        {"{\"number\":1,\"mode\":\"turbo\"}", "its mode is \"turbo\""},
        {"{\"number\":1,\"mode\":\"low\",\"until\":\"tomorrow\"}", "\"until\" is no time"},
        {"{\"number\":1,\"mode\":\"low\",\"rate\":-5}", "\"rate\" is no number"},
        {"{\"number\":1,\"mode\":\"low\",\"rate\":1e300}", "\"rate\" is no number"},
        {"{\"number\":-1,\"mode\":\"low\"}", "directive at byte"},
        {"[1]", "directive at byte"},
        {"{\"number\":1,\"mode\":\"low\"} x", "directive at byte"},
        {"{\"directive\":{\"directive\":{\"mode\":\"off\"}}}", "a directive has no \"mode\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        world_init(&w);
        pass(&w, 1);
        direct(&w, rows[i].json);
        CHECK_INT(t, w.now.mode, MODE_NORMAL);
        CHECK_INT(t, w.n_said, 1);
        CHECK(t, strstr(buf_cstr(&w.said), "is ignored"));
        if (!strstr(buf_cstr(&w.said), rows[i].said))
            CHECK_STR(t, buf_cstr(&w.said), rows[i].said);
        world_done(&w);
    }
}

static void types_nobody_knows_are_told_and_left_out(struct test *t)
{
    struct world w;
    world_init(&w);
    pass(&w, 1);
    direct(&w, "{\"number\":3,\"mode\":\"normal\",\"types\":[\"heap\",\"lock\"]}");
    CHECK_INT(t, w.now.types, 1 << AGENT_TYPE_LOCK);
    CHECK_INT(t, w.n_said, 2);
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(the_files_first_word_is_a_mode_while_it_is_there),
    TEST(a_file_that_changes_within_one_tick_is_seen),
    TEST(text_that_makes_no_sense_is_told_once_and_ignored),
    TEST(an_empty_file_says_nothing),
    TEST(a_time_in_the_file_counts_from_when_it_was_written),
    TEST(writing_the_file_again_renews_a_burst),
    TEST(a_file_from_the_future_or_a_clock_that_jumps_does_no_harm),
    TEST(what_is_no_regular_file_is_not_waited_for),
    TEST(without_a_file_nothing_is_looked_at),
    TEST(a_signal_switches_off_and_on_again),
    TEST(a_signal_bursts_for_its_time_and_again_when_sent_again),
    TEST(a_directive_is_obeyed_for_its_time),
    TEST(the_same_directive_again_does_not_last_longer),
    TEST(number_0_takes_back_what_the_server_said),
    TEST(a_time_without_a_length_is_held_against_our_clock),
    TEST(directives_that_make_no_sense_are_ignored),
    TEST(types_nobody_knows_are_told_and_left_out),
};
TEST_MAIN(cases)
