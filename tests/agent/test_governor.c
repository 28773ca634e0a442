#include <math.h>

#include "agent/governor.h"
#include "lib/test.h"

#define SECOND ((int64_t)1000000000)
#define MINUTE (60 * SECOND)

static const struct governor_limits standard = {
    .rate = 20,
    .burst_rate = 200,
    .cpu_budget = 0.01,
    .burst_cpu_budget = 0.03,
    .host_cpu_high = 0.90,
    .burst_max_ns = 10 * MINUTE,
    .memory_max = (uint64_t)100 << 20,
};

/* A machine in which a second passes at a time. The agent costs `fixed`, and `each` for each
 * sample per second. */
struct world {
    struct governor *g;
    struct governor_reading r;
    struct governor_ruling now;
    double fixed, each;
    unsigned turns; /* how often the ruling changed */
};

static void world_init(struct world *w, const struct governor_limits *l)
{
    *w = (struct world){.g = governor_new(l), .r = {.now_ns = 1000 * SECOND, .host_cpu = 0.3}};
    w->r.memory = (uint64_t)20 << 20;
    governor_feed(w->g, &w->r, &w->now);
}

static void world_done(struct world *w)
{
    governor_free(w->g);
}

static void pass(struct world *w, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        w->r.now_ns += SECOND;
        w->r.own_cpu = w->fixed + w->each * w->now.rate;
        w->turns += governor_feed(w->g, &w->r, &w->now);
    }
}

static void warm_world(struct world *w, const struct governor_limits *l)
{
    world_init(w, l);
    pass(w, 31);
    w->turns = 0;
}

static void ask(struct world *w, enum governor_source s, enum agent_mode mode)
{
    governor_ask(w->g, s, &(struct governor_ask){.speaks = true, .mode = mode});
}

static void unask(struct world *w, enum governor_source s)
{
    governor_ask(w->g, s, &(struct governor_ask){0});
}

/* ---- names */

static void names_of_modes_and_types_are_read_back(struct test *t)
{
    for (unsigned m = MODE_OFF; m <= MODE_BURST; m++) {
        enum agent_mode got = MODE_OFF;
        CHECK(t, agent_mode_parse(agent_mode_name((enum agent_mode)m), &got));
        CHECK_INT(t, got, m);
    }
    for (unsigned i = 0; i < AGENT_TYPES; i++) {
        enum agent_type got = AGENT_TYPE_CPU;
        CHECK(t, agent_type_parse(agent_type_name((enum agent_type)i), &got));
        CHECK_INT(t, got, i);
    }
    enum agent_mode m = MODE_LOW;
    CHECK(t, !agent_mode_parse("on", &m));
    CHECK(t, !agent_mode_parse("", &m));
    CHECK_INT(t, m, MODE_LOW);
    enum agent_type type;
    CHECK(t, !agent_type_parse("off-cpu", &type));
}

/* ---- modes */

static void nobody_asking_is_normal_at_the_configured_rate(struct test *t)
{
    struct governor *g = governor_new(&standard);
    struct governor_ruling now;
    CHECK(t, governor_feed(g, &(struct governor_reading){.now_ns = SECOND}, &now));
    CHECK_INT(t, now.mode, MODE_NORMAL);
    CHECK_INT(t, now.rate, 20);
    CHECK_INT(t, now.changes, 0);
    CHECK_STR(t, now.why, "as configured");
    CHECK(t, !governor_feed(g, &(struct governor_reading){.now_ns = 2 * SECOND}, &now));
    governor_free(g);
}

static void each_mode_has_its_rate(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    ask(&w, ASKED_BY_CONFIG, MODE_LOW);
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 5);
    ask(&w, ASKED_BY_CONFIG, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 200);
    ask(&w, ASKED_BY_CONFIG, MODE_OFF);
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 0);
    CHECK_STR(t, w.now.why, "off by configuration");
    CHECK_INT(t, w.now.changes, 3);
    world_done(&w);
}

static void a_rate_that_is_asked_for_is_taken_up_to_999(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    governor_ask(w.g, ASKED_BY_SERVER,
                 &(struct governor_ask){.speaks = true, .mode = MODE_NORMAL, .rate = 49});
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 49);
    governor_ask(w.g, ASKED_BY_SERVER,
                 &(struct governor_ask){.speaks = true, .mode = MODE_NORMAL, .rate = 5000});
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 999);
    governor_ask(w.g, ASKED_BY_SERVER,
                 &(struct governor_ask){.speaks = true, .mode = MODE_LOW, .rate = 3});
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 3);
    world_done(&w);
}

static void the_strongest_source_wins(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    ask(&w, ASKED_BY_CONFIG, MODE_NORMAL);
    ask(&w, ASKED_BY_SERVER, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    CHECK_STR(t, w.now.why, "burst asked for by the server");
    ask(&w, ASKED_BY_FILE, MODE_LOW);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_LOW);
    CHECK_STR(t, w.now.why, "low asked for by the gate file");
    ask(&w, ASKED_BY_SIGNAL, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    CHECK_STR(t, w.now.why, "burst asked for by a signal");
    unask(&w, ASKED_BY_SIGNAL);
    unask(&w, ASKED_BY_FILE);
    unask(&w, ASKED_BY_SERVER);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    world_done(&w);
}

static void off_of_any_source_wins_over_all(struct test *t)
{
    static const char *const why[] = {"off asked for by the server",
                                      "off asked for by the gate file",
                                      "off asked for by a signal"};
    for (unsigned s = ASKED_BY_SERVER; s < GOVERNOR_SOURCES; s++) {
        struct world w;
        world_init(&w, &standard);
        for (unsigned i = 0; i < GOVERNOR_SOURCES; i++)
            ask(&w, (enum governor_source)i, MODE_BURST);
        ask(&w, (enum governor_source)s, MODE_OFF);
        pass(&w, 1);
        CHECK_INT(t, w.now.mode, MODE_OFF);
        CHECK_INT(t, w.now.rate, 0);
        CHECK_STR(t, w.now.why, why[s - ASKED_BY_SERVER]);
        world_done(&w);
    }
}

static void what_is_asked_for_until_a_time_ends_then(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    governor_ask(w.g, ASKED_BY_SERVER,
                 &(struct governor_ask){
                     .speaks = true, .mode = MODE_OFF, .until_ns = w.r.now_ns + 10 * SECOND});
    pass(&w, 9);
    CHECK_INT(t, w.now.mode, MODE_OFF);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_STR(t, w.now.why, "off asked for by the server is over");
    world_done(&w);
}

static void types_are_those_of_who_asks(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    CHECK_INT(t, w.now.types, 0);
    governor_ask(w.g, ASKED_BY_SERVER,
                 &(struct governor_ask){.speaks = true, .mode = MODE_NORMAL, .types = 6});
    pass(&w, 1);
    CHECK_INT(t, w.now.types, 6);
    CHECK_INT(t, w.turns, 1);
    CHECK_INT(t, w.now.changes, 0); /* neither mode nor rate */
    world_done(&w);
}

/* ---- bursts */

static void a_burst_ends_at_its_cap_and_asking_the_same_does_not_renew_it(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    ask(&w, ASKED_BY_FILE, MODE_BURST);
    pass(&w, 600);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    CHECK_STR(t, w.now.why, "burst asked for by the gate file is over");
    ask(&w, ASKED_BY_FILE, MODE_BURST);
    pass(&w, 5);
    CHECK_INT(t, w.now.mode, MODE_NORMAL);
    unask(&w, ASKED_BY_FILE);
    ask(&w, ASKED_BY_FILE, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    world_done(&w);
}

static void a_burst_ends_when_it_was_said_to(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    governor_ask(
        w.g, ASKED_BY_SERVER,
        &(struct governor_ask){
            .speaks = true, .mode = MODE_BURST, .rate = 99, .until_ns = w.r.now_ns + 60 * SECOND});
    pass(&w, 59);
    CHECK_INT(t, w.now.rate, 99);
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 20);
    world_done(&w);
}

static void a_burst_overrides_the_backoff(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 1.0;
    pass(&w, 10);
    CHECK(t, w.now.is_backing_off);
    CHECK_INT(t, w.now.rate, 5);
    ask(&w, ASKED_BY_SERVER, MODE_BURST);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_BURST);
    CHECK_INT(t, w.now.rate, 200);
    CHECK(t, !w.now.is_backing_off);
    CHECK_STR(t, w.now.why, "burst asked for by the server");
    unask(&w, ASKED_BY_SERVER);
    pass(&w, 1);
    CHECK(t, w.now.is_backing_off);
    CHECK_INT(t, w.now.rate, 5);
    world_done(&w);
}

static void a_burst_keeps_within_its_own_budget(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.each = 0.0004; /* 8 % at 200; 0.8 % at 20 */
    pass(&w, 60);
    CHECK_INT(t, w.now.rate, 20);
    ask(&w, ASKED_BY_SERVER, MODE_BURST);
    pass(&w, 60);
    CHECK(t, w.now.is_throttled);
    CHECK(t, w.each * w.now.rate <= 0.03);
    CHECK(t, w.now.rate >= 25);
    CHECK(t, strstr(w.now.why, "its budget is 3.00 %"));
    unask(&w, ASKED_BY_SERVER);
    pass(&w, 1);
    CHECK_INT(t, w.now.rate, 20); /* the burst's cost is not held against what follows */
    CHECK(t, !w.now.is_throttled);
    pass(&w, 60);
    CHECK_INT(t, w.now.rate, 20);
    world_done(&w);
}

/* ---- own CPU */

static void a_cost_within_the_budget_changes_nothing(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.each = 0.0004;
    pass(&w, 3600);
    CHECK_INT(t, w.turns, 0);
    CHECK_INT(t, w.now.rate, 20);
    world_done(&w);
}

static void a_cost_over_the_budget_lowers_the_rate_until_it_fits(struct test *t)
{
    for (double each = 0.0006; each < 0.02; each *= 1.7) {
        struct world w;
        warm_world(&w, &standard);
        w.each = each;
        pass(&w, 100);
        CHECK(t, w.now.is_throttled);
        CHECK_INT(t, w.now.mode, MODE_NORMAL);
        CHECK(t, w.now.rate == 1 || each * w.now.rate <= 0.01);
        CHECK(t, strstr(w.now.why, "its budget is 1.00 %"));
        /* And stays there: at most a try now and then. */
        w.turns = 0;
        double spent = 0;
        for (unsigned i = 0; i < 3600; i++) {
            pass(&w, 1);
            spent += w.r.own_cpu / 3600;
        }
        CHECK(t, w.turns < 40);
        CHECK(t, w.now.rate == 1 || spent <= 0.01);
        world_done(&w);
    }
}

static void a_cost_that_falls_lets_the_rate_rise_slowly(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.each = 0.002; /* 4 % */
    pass(&w, 100);
    uint32_t low = w.now.rate;
    CHECK(t, low <= 5);
    w.each = 0.0001;
    pass(&w, 60);
    CHECK(t, w.now.rate > low && w.now.rate < 20);
    pass(&w, 600);
    CHECK_INT(t, w.now.rate, 20);
    CHECK(t, !w.now.is_throttled);
    CHECK(t, strstr(w.now.why, "is within its budget of 1.00 % again"));
    world_done(&w);
}

static void starting_up_is_not_held_against_it(struct test *t)
{
    struct world w;
    world_init(&w, &standard);
    w.fixed = 0.8;
    pass(&w, 29);
    w.fixed = 0.002;
    pass(&w, 300);
    CHECK_INT(t, w.turns, 0);
    world_done(&w);
}

static void one_expensive_second_is_no_trend_but_many_are(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.fixed = 0.002;
    for (unsigned i = 0; i < 10; i++) { /* 0.3 s every minute: 0.7 % in the mean */
        pass(&w, 59);
        w.fixed = 0.3;
        pass(&w, 1);
        w.fixed = 0.002;
    }
    CHECK_INT(t, w.turns, 0);
    for (unsigned i = 0; i < 30; i++) { /* 0.3 s every ten: 3 % */
        pass(&w, 9);
        w.fixed = 0.3;
        pass(&w, 1);
        w.fixed = 0.002;
    }
    CHECK(t, w.now.is_throttled);
    world_done(&w);
}

static void what_the_rate_cannot_save_other_types_do(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    governor_ask(w.g, ASKED_BY_CONFIG,
                 &(struct governor_ask){.speaks = true, .mode = MODE_NORMAL, .types = 7});
    w.fixed = 0.05;
    w.each = 0.0001;
    pass(&w, 120);
    CHECK_INT(t, w.now.rate, 1);
    CHECK_INT(t, w.now.types, 1 << AGENT_TYPE_CPU);
    w.fixed = 0;
    pass(&w, 1200);
    CHECK_INT(t, w.now.rate, 20);
    CHECK_INT(t, w.now.types, 7);
    world_done(&w);
}

static void raising_that_was_wrong_is_tried_less_and_less_often(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    unsigned early = 0, late = 0;
    for (unsigned i = 0; i < 7200; i++) { /* free up to 14 samples per second, dear above */
        w.each = w.now.rate <= 14 ? 0.0003 : 0.002;
        w.turns = 0;
        pass(&w, 1);
        early += i < 1200 ? w.turns : 0;
        late += i >= 6000 ? w.turns : 0;
    }
    CHECK(t, early >= 4);
    CHECK(t, late < early);
    CHECK(t, late <= 8);
    world_done(&w);
}

static void without_a_budget_nothing_is_lowered(struct test *t)
{
    struct governor_limits l = standard;
    l.cpu_budget = 0;
    struct world w;
    warm_world(&w, &l);
    w.fixed = 0.9;
    pass(&w, 600);
    CHECK_INT(t, w.turns, 0);
    world_done(&w);
}

static void throttling_does_not_rise_while_it_backs_off(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.each = 0.001; /* 2 % at 20 */
    pass(&w, 100);
    uint32_t rate = w.now.rate;
    CHECK(t, rate <= 10);
    w.r.host_cpu = 1;
    pass(&w, 900);
    CHECK(t, w.now.is_backing_off && w.now.is_throttled);
    CHECK(t, strstr(w.now.why, "host CPU 100 % is over 90 %; own CPU was"));
    w.r.host_cpu = 0.1;
    pass(&w, 16);
    CHECK_INT(t, w.now.rate, rate);
    world_done(&w);
}

/* ---- heat */

static void a_hot_host_is_backed_off_from_and_returned_to(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 0.97;
    pass(&w, 4);
    CHECK_INT(t, w.turns, 0);
    pass(&w, 1);
    CHECK_INT(t, w.now.mode, MODE_LOW);
    CHECK_INT(t, w.now.rate, 5);
    CHECK(t, w.now.is_backing_off);
    CHECK_STR(t, w.now.why, "host CPU 97 % is over 90 %");
    w.r.host_cpu = 0.85; /* not yet clearly below */
    pass(&w, 300);
    CHECK(t, w.now.is_backing_off);
    w.r.host_cpu = 0.79;
    pass(&w, 14);
    CHECK(t, w.now.is_backing_off);
    pass(&w, 1);
    CHECK(t, !w.now.is_backing_off);
    CHECK_INT(t, w.now.rate, 20);
    CHECK_STR(t, w.now.why, "host CPU 79 % is below 80 % again");
    CHECK_INT(t, w.turns, 2);
    CHECK_INT(t, w.now.changes, 2);
    world_done(&w);
}

static void spikes_do_not_make_a_host_hot_but_mostly_hot_does(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    for (unsigned i = 0; i < 300; i++) {
        w.r.host_cpu = i % 2 ? 1 : 0.5;
        pass(&w, 1);
    }
    CHECK_INT(t, w.turns, 0);
    for (unsigned i = 0; i < 30; i++) {
        w.r.host_cpu = i % 4 ? 1 : 0.5;
        pass(&w, 1);
    }
    CHECK(t, w.now.is_backing_off);
    CHECK_INT(t, w.turns, 1);
    world_done(&w);
}

static void one_hot_second_starts_the_cooling_anew(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 1;
    pass(&w, 5);
    for (unsigned i = 0; i < 10; i++) {
        w.r.host_cpu = 0.1;
        pass(&w, 14);
        w.r.host_cpu = 0.95;
        pass(&w, 1);
    }
    CHECK(t, w.now.is_backing_off);
    CHECK_INT(t, w.turns, 1);
    world_done(&w);
}

static void a_threshold_of_nothing_never_backs_off(struct test *t)
{
    struct governor_limits l = standard;
    l.host_cpu_high = 0;
    struct world w;
    warm_world(&w, &l);
    w.r.host_cpu = 1;
    w.r.hottest_process = 16;
    pass(&w, 600);
    CHECK_INT(t, w.turns, 0);
    world_done(&w);
}

static void a_hot_process_is_backed_off_from(struct test *t)
{
    struct governor_limits l = standard;
    l.process_cpu_high = 1.5;
    struct world w;
    warm_world(&w, &l);
    w.r.hottest_process = 1.9;
    pass(&w, 5);
    CHECK_INT(t, w.now.rate, 5);
    CHECK_STR(t, w.now.why, "a process with 190 % CPU is over 150 %");
    w.r.hottest_process = 1.45;
    pass(&w, 60);
    CHECK_INT(t, w.now.rate, 5);
    w.r.hottest_process = 1.3;
    pass(&w, 15);
    CHECK_INT(t, w.now.rate, 20);
    CHECK_STR(t, w.now.why, "no process is over 140 % CPU any more");
    world_done(&w);
}

static void low_is_not_lowered_further_by_heat(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    ask(&w, ASKED_BY_CONFIG, MODE_LOW);
    w.r.host_cpu = 1;
    pass(&w, 20);
    CHECK_INT(t, w.now.rate, 5);
    CHECK(t, w.now.is_backing_off);
    world_done(&w);
}

static void new_limits_hold_from_the_next_reading(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 1;
    pass(&w, 10);
    CHECK(t, w.now.is_backing_off);
    struct governor_limits l = standard;
    l.host_cpu_high = 0;
    l.rate = 49;
    governor_set_limits(w.g, &l);
    pass(&w, 1);
    CHECK(t, !w.now.is_backing_off);
    CHECK_INT(t, w.now.rate, 49);
    world_done(&w);
}

/* ---- memory */

static void memory_is_shed_in_order_and_taken_back_step_by_step(struct test *t)
{
    static const struct {
        unsigned mib;
        enum governor_shed shed;
        uint32_t rate;
    } steps[] = {{79, SHED_NOTHING, 20},
                 {80, SHED_RATE, 10},
                 {88, SHED_NAMES, 10},
                 {94, SHED_TABLES, 10},
                 {100, SHED_WINDOW, 10}};
    struct world w;
    warm_world(&w, &standard);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        w.r.memory = (uint64_t)steps[i].mib << 20;
        pass(&w, 1);
        CHECK_INT(t, w.now.shed, steps[i].shed);
        CHECK_INT(t, w.now.rate, steps[i].rate);
    }
    CHECK_STR(t, w.now.why, "memory 100 MiB of 100 MiB");
    w.r.memory = (uint64_t)93 << 20; /* not clearly below */
    pass(&w, 60);
    CHECK_INT(t, w.now.shed, SHED_WINDOW);
    w.r.memory = (uint64_t)30 << 20;
    for (unsigned left = SHED_WINDOW; left-- > 0;) {
        pass(&w, 9);
        CHECK_INT(t, w.now.shed, left + 1);
        pass(&w, 1);
        CHECK_INT(t, w.now.shed, left);
    }
    CHECK_INT(t, w.now.rate, 20);
    CHECK_STR(t, w.now.why, "memory is back to 30 MiB");
    world_done(&w);
}

static void memory_far_over_sheds_all_at_once(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.memory = (uint64_t)300 << 20;
    pass(&w, 1);
    CHECK_INT(t, w.now.shed, SHED_WINDOW);
    world_done(&w);
}

/* ---- time and nonsense */

static void suspend_makes_no_reading(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 1;
    pass(&w, 4);
    w.r.now_ns += 3600 * SECOND;
    w.r.own_cpu = 50;
    CHECK(t, !governor_feed(w.g, &w.r, &w.now));
    CHECK_INT(t, w.now.rate, 20);
    pass(&w, 1); /* the fifth hot second */
    CHECK(t, w.now.is_backing_off);
    world_done(&w);
}

static void time_that_goes_back_or_stands_still_makes_no_reading(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    w.r.host_cpu = 1;
    w.r.own_cpu = 50;
    for (unsigned i = 0; i < 100; i++)
        CHECK(t, !governor_feed(w.g, &w.r, &w.now));
    for (unsigned i = 0; i < 100; i++) {
        w.r.now_ns += SECOND / 1000;
        CHECK(t, !governor_feed(w.g, &w.r, &w.now));
    }
    w.r.now_ns -= 20 * SECOND;
    CHECK(t, !governor_feed(w.g, &w.r, &w.now));
    CHECK_INT(t, w.now.rate, 20);
    world_done(&w);
}

static void asking_takes_effect_between_readings(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    ask(&w, ASKED_BY_SIGNAL, MODE_OFF);
    CHECK(t, governor_feed(w.g, &w.r, &w.now));
    CHECK_INT(t, w.now.rate, 0);
    world_done(&w);
}

static void readings_that_are_no_numbers_count_as_nothing(struct test *t)
{
    struct world w;
    warm_world(&w, &standard);
    const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        for (unsigned s = 0; s < 30; s++) {
            w.r.now_ns += SECOND;
            w.r.own_cpu = w.r.host_cpu = w.r.hottest_process = odd[i];
            CHECK(t, !governor_feed(w.g, &w.r, &w.now));
        }
    w.r.host_cpu = 0.97;
    w.r.hottest_process = 0;
    pass(&w, 5);
    CHECK(t, w.now.is_backing_off);
    world_done(&w);
}

static void every_change_says_why_in_whole_sentences(struct test *t)
{
    struct governor_limits l = standard;
    l.process_cpu_high = 1;
    struct world w;
    warm_world(&w, &l);
    unsigned state = 1;
    for (unsigned i = 0; i < 20000; i++) {
        state = state * 1103515245 + 12345;
        unsigned dice = state >> 16;
        if (dice % 50 == 0)
            governor_ask(w.g, (enum governor_source)(dice / 50 % GOVERNOR_SOURCES),
                         &(struct governor_ask){.speaks = dice / 200 % 2,
                                                .mode = (enum agent_mode)(dice / 400 % 4)});
        if (dice % 40 == 1) {
            w.r.host_cpu = dice / 40 % 3 / 2.0;
            w.r.hottest_process = dice / 120 % 3;
            w.each = dice / 360 % 4 * 0.0005;
            w.r.memory = (uint64_t)(dice / 1440 % 5 * 25) << 20;
        }
        struct governor_ruling before = w.now;
        w.turns = 0;
        pass(&w, 1);
        CHECK(t, w.now.why[0] != '\0' && w.now.why[0] != ';');
        CHECK(t, (w.now.mode == MODE_OFF) == (w.now.rate == 0));
        CHECK(t, w.now.rate <= 200);
        CHECK(t, w.turns > 0 || memcmp(&before, &w.now, sizeof(before)) == 0);
        CHECK_INT(t, w.now.changes - before.changes,
                  before.mode != w.now.mode || before.rate != w.now.rate);
    }
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(names_of_modes_and_types_are_read_back),
    TEST(nobody_asking_is_normal_at_the_configured_rate),
    TEST(each_mode_has_its_rate),
    TEST(a_rate_that_is_asked_for_is_taken_up_to_999),
    TEST(the_strongest_source_wins),
    TEST(off_of_any_source_wins_over_all),
    TEST(what_is_asked_for_until_a_time_ends_then),
    TEST(types_are_those_of_who_asks),
    TEST(a_burst_ends_at_its_cap_and_asking_the_same_does_not_renew_it),
    TEST(a_burst_ends_when_it_was_said_to),
    TEST(a_burst_overrides_the_backoff),
    TEST(a_burst_keeps_within_its_own_budget),
    TEST(a_cost_within_the_budget_changes_nothing),
    TEST(a_cost_over_the_budget_lowers_the_rate_until_it_fits),
    TEST(a_cost_that_falls_lets_the_rate_rise_slowly),
    TEST(starting_up_is_not_held_against_it),
    TEST(one_expensive_second_is_no_trend_but_many_are),
    TEST(what_the_rate_cannot_save_other_types_do),
    TEST(raising_that_was_wrong_is_tried_less_and_less_often),
    TEST(without_a_budget_nothing_is_lowered),
    TEST(throttling_does_not_rise_while_it_backs_off),
    TEST(a_hot_host_is_backed_off_from_and_returned_to),
    TEST(spikes_do_not_make_a_host_hot_but_mostly_hot_does),
    TEST(one_hot_second_starts_the_cooling_anew),
    TEST(a_threshold_of_nothing_never_backs_off),
    TEST(a_hot_process_is_backed_off_from),
    TEST(low_is_not_lowered_further_by_heat),
    TEST(new_limits_hold_from_the_next_reading),
    TEST(memory_is_shed_in_order_and_taken_back_step_by_step),
    TEST(memory_far_over_sheds_all_at_once),
    TEST(suspend_makes_no_reading),
    TEST(time_that_goes_back_or_stands_still_makes_no_reading),
    TEST(asking_takes_effect_between_readings),
    TEST(readings_that_are_no_numbers_count_as_nothing),
    TEST(every_change_says_why_in_whole_sentences),
};
TEST_MAIN(cases)
