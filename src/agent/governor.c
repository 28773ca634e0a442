#include "agent/governor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/budget.h"
#include "base/must.h"

#define SECOND ((int64_t)1000000000)

/* A reading covers about a second. Less says nothing; after more the machine was asleep or we were
 * stopped, and what was measured is not what a second costs. */
#define READING_MIN (SECOND / 5)
#define READING_MAX (5 * SECOND)

#define HOT_NS        (5 * SECOND)  /* over the threshold for so long: back off */
#define COOL_NS       (15 * SECOND) /* clearly below it for so long: return */
#define COOL_MARGIN   0.10
#define BACKOFF_SHARE 4 /* mode low: a quarter */

/* The agent's own cost: over ten seconds, in which one expensive second (a large program has come)
 * counts at most as CLIP budgets, and over a minute, in which it counts in full. */
#define SHORT_NS        ((double)(10 * SECOND))
#define LONG_NS         ((double)(60 * SECOND))
#define CLIP            4.0
#define STEP_DOWN       0.7
#define STEP_DOWN_MIN   0.25 /* far over the budget: at most to this at once */
#define STEP_UP         1.2
#define LOWER_WAIT      (5 * SECOND)  /* until a step down shows */
#define RAISE_WAIT      (30 * SECOND) /* doubled when raising was wrong */
#define RAISE_WAIT_MAX  (480 * SECOND)
#define ROOM_TO_RAISE   0.85 /* of the budget is the most that raising may lead to */
#define ONLY_CPU_BELOW  0.25 /* the rate is not what costs: other types are */
#define ALL_TYPES_ABOVE 0.5

#define SHED_RETURN_NS     (10 * SECOND)
#define SHED_RETURN_MARGIN 0.08

static const double shed_above[] = {
    [SHED_NOTHING] = 0,   [SHED_RATE] = 0.80,  [SHED_NAMES] = 0.88,
    [SHED_TABLES] = 0.94, [SHED_WINDOW] = 1.0,
};

/* Something that may be hot: the host, or the busiest process. */
struct heat {
    int64_t above_ns, below_ns; /* for how long so far */
    bool is_hot;
    double since; /* the value that made it so */
};

/* What a source asked for, and since when: what a burst's time cap counts from. */
struct asked {
    struct governor_ask ask;
    int64_t begin_ns; /* 0: not fed since */
    bool is_spent;    /* a burst that had its time */
};

struct governor {
    struct governor_limits limits;
    struct asked asked[GOVERNOR_SOURCES];
    int64_t first_ns, last_ns; /* of readings; 0: none */
    struct heat host, process;

    double cost_short, cost_long; /* averages of own CPU */
    double share[2];              /* of the mode's rate that the budget allows; [1]: in bursts */
    int64_t stepped_ns, raised_ns, raise_wait;
    double step_cost, step_budget; /* at the last step down, for `why` */
    bool only_cpu[2];              /* other types are off as well */

    enum governor_shed shed;
    int64_t roomy_ns; /* memory has been below the level's threshold for so long */
    uint64_t memory;

    char note[96]; /* what has ended with this reading */
    bool has_ruled;
    struct governor_ruling last;
};

static const char *const mode_names[] = {"off", "low", "normal", "burst"};
static const char *const type_names[] = {"cpu", "wall", "offcpu", "lock", "faults", "threads"};
_Static_assert(ARRAY_SIZE(type_names) == AGENT_TYPES, "a name for each type");

static bool find_name(const char *const *names, size_t n, const char *text, unsigned *ret)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

const char *agent_mode_name(enum agent_mode m)
{
    return mode_names[m];
}

bool agent_mode_parse(const char *text, enum agent_mode *ret)
{
    unsigned i;
    if (!find_name(mode_names, ARRAY_SIZE(mode_names), text, &i))
        return false;
    *ret = (enum agent_mode)i;
    return true;
}

const char *agent_type_name(enum agent_type t)
{
    return type_names[t];
}

bool agent_type_parse(const char *text, enum agent_type *ret)
{
    unsigned i;
    if (!find_name(type_names, ARRAY_SIZE(type_names), text, &i))
        return false;
    *ret = (enum agent_type)i;
    return true;
}

struct governor *governor_new(const struct governor_limits *limits)
{
    struct governor *g = must_calloc(1, sizeof(*g));
    g->limits = *limits;
    g->share[0] = g->share[1] = 1;
    g->raise_wait = RAISE_WAIT;
    return g;
}

void governor_free(struct governor *g)
{
    free(g);
}

void governor_set_limits(struct governor *g, const struct governor_limits *limits)
{
    g->limits = *limits;
}

static bool same_ask(const struct governor_ask *a, const struct governor_ask *b)
{
    return a->speaks == b->speaks && a->mode == b->mode && a->rate == b->rate &&
           a->until_ns == b->until_ns && a->types == b->types;
}

void governor_ask(struct governor *g, enum governor_source source, const struct governor_ask *ask)
{
    if (!same_ask(&g->asked[source].ask, ask))
        g->asked[source] = (struct asked){.ask = *ask};
}

/* ---- what is asked for */

static void note(struct governor *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct governor *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(g->note, sizeof(g->note), fmt, args);
    va_end(args);
}

static const char *source_name(enum governor_source s)
{
    static const char *const names[] = {
        [ASKED_BY_CONFIG] = "the configuration",
        [ASKED_BY_SERVER] = "the server",
        [ASKED_BY_FILE] = "the gate file",
        [ASKED_BY_SIGNAL] = "a signal",
    };
    return names[s];
}

/* Ends what has had its time. */
static bool holds(struct governor *g, struct asked *a, enum governor_source source, int64_t now)
{
    if (!a->ask.speaks || a->is_spent)
        return false;
    if (a->begin_ns == 0)
        a->begin_ns = now;
    bool has_ended = a->ask.until_ns != 0 && now >= a->ask.until_ns;
    bool is_capped = a->ask.mode == MODE_BURST && now - a->begin_ns >= g->limits.burst_max_ns;
    if (!has_ended && !is_capped)
        return true;
    a->is_spent = true;
    note(g, "%s asked for by %s is over", mode_names[a->ask.mode], source_name(source));
    return false;
}

/* The ask that counts, or NULL when nobody says anything: normal. */
static const struct asked *strongest(struct governor *g, int64_t now)
{
    const struct asked *found = NULL, *off = NULL;

    for (unsigned s = GOVERNOR_SOURCES; s-- > 0;) {
        struct asked *a = &g->asked[s];
        if (!holds(g, a, (enum governor_source)s, now))
            continue;
        if (!found)
            found = a;
        if (!off && a->ask.mode == MODE_OFF)
            off = a;
    }
    return off ? off : found;
}

/* ---- heat */

/* True when it turned hot or cool. Above and below weigh alike, so that a value around the
 * threshold is hot when it is above for most of the time. */
static bool feel(struct heat *h, double value, double high, int64_t dt)
{
    if (!(high > 0)) {
        *h = (struct heat){0};
        return false;
    }
    if (value >= high)
        h->above_ns += dt;
    else
        h->above_ns = h->above_ns > dt ? h->above_ns - dt : 0;
    h->below_ns = value < high - COOL_MARGIN ? h->below_ns + dt : 0;

    if (!h->is_hot && h->above_ns >= HOT_NS) {
        *h = (struct heat){.is_hot = true, .since = value};
        return true;
    }
    if (h->above_ns > HOT_NS)
        h->above_ns = HOT_NS;
    if (h->is_hot && h->below_ns >= COOL_NS) {
        *h = (struct heat){0};
        return true;
    }
    return false;
}

static void feel_all(struct governor *g, const struct governor_reading *r, int64_t dt)
{
    const struct governor_limits *l = &g->limits;
    if (feel(&g->host, r->host_cpu, l->host_cpu_high, dt) && !g->host.is_hot)
        note(g, "host CPU %.0f %% is below %.0f %% again", r->host_cpu * 100,
             (l->host_cpu_high - COOL_MARGIN) * 100);
    if (feel(&g->process, r->hottest_process, l->process_cpu_high, dt) && !g->process.is_hot)
        note(g, "no process is over %.0f %% CPU any more",
             (l->process_cpu_high - COOL_MARGIN) * 100);
}

/* ---- memory */

static void watch_memory(struct governor *g, uint64_t memory, int64_t dt)
{
    if (g->limits.memory_max == 0) {
        g->shed = SHED_NOTHING;
        return;
    }
    double full = (double)memory / (double)g->limits.memory_max;
    enum governor_shed level = SHED_WINDOW;

    while (level > SHED_NOTHING && full < shed_above[level])
        level--;
    if (level > g->shed) {
        g->shed = level;
        g->roomy_ns = 0;
        g->memory = memory;
    } else if (g->shed > SHED_NOTHING && full < shed_above[g->shed] - SHED_RETURN_MARGIN) {
        g->roomy_ns += dt;
        if (g->roomy_ns >= SHED_RETURN_NS) {
            g->shed--;
            g->roomy_ns = 0;
            char text[BUDGET_TEXT_MAX];
            note(g, "memory is back to %s", budget_text((size_t)memory, text));
        }
    } else {
        g->roomy_ns = 0;
    }
}

/* ---- own cost */

static double average(double old, double value, int64_t dt, double over_ns)
{
    return old + (value - old) * (1 - exp(-(double)dt / over_ns));
}

/* After a change of rate the averages are what they would be at the new one; they go to the truth
 * from there. Never upwards: part of the cost does not follow the rate. */
static void expect_cost(struct governor *g, double ratio)
{
    if (ratio < 1) {
        g->cost_short *= ratio;
        g->cost_long *= ratio;
    }
}

static void step_down(struct governor *g, bool is_burst, double cost, double budget, int64_t now)
{
    double by = budget / cost;
    by = by > STEP_DOWN ? STEP_DOWN : by < STEP_DOWN_MIN ? STEP_DOWN_MIN : by;

    if (g->raised_ns != 0 && now - g->raised_ns < 2 * g->raise_wait)
        g->raise_wait = 2 * g->raise_wait < RAISE_WAIT_MAX ? 2 * g->raise_wait : RAISE_WAIT_MAX;
    if (g->last.rate == 1 || g->share[is_burst] <= ONLY_CPU_BELOW)
        g->only_cpu[is_burst] = true;
    if (g->last.rate > 1)
        g->share[is_burst] *= by;
    g->raised_ns = 0;
    g->stepped_ns = now;
    g->step_cost = cost;
    g->step_budget = budget;
}

static void step_up(struct governor *g, bool is_burst, double budget, int64_t now)
{
    double up = g->share[is_burst] * STEP_UP;
    g->share[is_burst] = up < 1 ? up : 1;
    if (up >= ALL_TYPES_ABOVE)
        g->only_cpu[is_burst] = false;
    if (up >= 1)
        note(g, "own CPU %.2f %% is within its budget of %.2f %% again", g->cost_short * 100,
             budget * 100);
    if (g->raised_ns != 0 && now - g->raised_ns >= 2 * g->raise_wait)
        g->raise_wait = RAISE_WAIT;
    g->stepped_ns = g->raised_ns = now;
}

/* `may_raise`: nothing else holds the rate down, so that the cost is that of the share. */
static void watch_cost(struct governor *g, const struct governor_reading *r, int64_t dt,
                       bool is_burst, bool may_raise)
{
    double budget = is_burst ? g->limits.burst_cpu_budget : g->limits.cpu_budget;
    if (!(budget > 0) || r->now_ns - g->first_ns < GOVERNOR_WARM_UP_NS)
        return;

    double clipped = r->own_cpu < CLIP * budget ? r->own_cpu : CLIP * budget;
    g->cost_short = average(g->cost_short, clipped, dt, SHORT_NS);
    g->cost_long = average(g->cost_long, r->own_cpu, dt, LONG_NS);

    double cost = g->cost_short > g->cost_long ? g->cost_short : g->cost_long;
    int64_t since = r->now_ns - g->stepped_ns;
    bool is_held = g->share[is_burst] < 1 || g->only_cpu[is_burst];
    if (cost > budget && since >= LOWER_WAIT && g->last.rate > 0)
        step_down(g, is_burst, cost, budget, r->now_ns);
    else if (is_held && may_raise && since >= g->raise_wait &&
             cost * STEP_UP <= ROOM_TO_RAISE * budget)
        step_up(g, is_burst, budget, r->now_ns);
}

/* ---- the ruling */

static uint32_t usual_rate(const struct governor *g, const struct governor_ask *ask,
                           enum agent_mode mode)
{
    uint32_t rate = ask && ask->rate     ? ask->rate
                    : mode == MODE_BURST ? g->limits.burst_rate
                                         : g->limits.rate;
    if (rate > GOVERNOR_RATE_MAX)
        rate = GOVERNOR_RATE_MAX;
    if (mode == MODE_LOW && !(ask && ask->mode == MODE_LOW && ask->rate))
        rate /= BACKOFF_SHARE;
    return rate;
}

static uint32_t granted_rate(const struct governor *g, uint32_t usual, bool is_burst)
{
    double rate = (double)usual * g->share[is_burst];
    if (g->shed >= SHED_RATE)
        rate /= 2;
    return rate >= 1.5 ? (uint32_t)(rate + 0.5) : 1;
}

static void add_why(struct governor_ruling *ruling, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void add_why(struct governor_ruling *ruling, const char *fmt, ...)
{
    size_t len = strlen(ruling->why);
    size_t join = len > 0 ? 2 : 0;
    if (len + join + 1 >= sizeof(ruling->why))
        return;
    memcpy(ruling->why + len, "; ", join);

    va_list args;
    va_start(args, fmt);
    vsnprintf(ruling->why + len + join, sizeof(ruling->why) - len - join, fmt, args);
    va_end(args);
}

static void say_why(const struct governor *g, const struct asked *by,
                    struct governor_ruling *ruling)
{
    const struct governor_limits *l = &g->limits;

    if (by && by != &g->asked[ASKED_BY_CONFIG])
        add_why(ruling, "%s asked for by %s", mode_names[by->ask.mode],
                source_name((enum governor_source)(by - g->asked)));
    if (ruling->mode == MODE_OFF) {
        if (ruling->why[0] == '\0')
            add_why(ruling, "off by configuration");
        return;
    }
    if (ruling->is_backing_off && g->host.is_hot)
        add_why(ruling, "host CPU %.0f %% is over %.0f %%", g->host.since * 100,
                l->host_cpu_high * 100);
    if (ruling->is_backing_off && g->process.is_hot)
        add_why(ruling, "a process with %.0f %% CPU is over %.0f %%", g->process.since * 100,
                l->process_cpu_high * 100);
    if (ruling->is_throttled)
        add_why(ruling, "own CPU was %.2f %%, its budget is %.2f %%", g->step_cost * 100,
                g->step_budget * 100);
    if (ruling->shed > SHED_NOTHING) {
        char used[BUDGET_TEXT_MAX], max[BUDGET_TEXT_MAX];
        add_why(ruling, "memory %s of %s", budget_text((size_t)g->memory, used),
                budget_text((size_t)l->memory_max, max));
    }
    if (g->note[0])
        add_why(ruling, "%s", g->note);
    if (ruling->why[0] == '\0')
        add_why(ruling, "as configured");
}

static void rule(const struct governor *g, const struct asked *by, struct governor_ruling *ret)
{
    const struct governor_ask *ask = by ? &by->ask : NULL;
    enum agent_mode mode = ask ? ask->mode : MODE_NORMAL;
    bool is_burst = mode == MODE_BURST, is_hot = g->host.is_hot || g->process.is_hot;

    *ret = (struct governor_ruling){
        .mode = mode, .types = ask ? ask->types : 0, .shed = g->shed, .changes = g->last.changes};
    if (mode != MODE_OFF) {
        ret->is_backing_off = is_hot && !is_burst;
        if (ret->is_backing_off)
            ret->mode = MODE_LOW;
        ret->is_throttled = g->share[is_burst] < 1 || g->only_cpu[is_burst];
        ret->rate = granted_rate(g, usual_rate(g, ask, ret->mode), is_burst);
        if (g->only_cpu[is_burst])
            ret->types = 1U << AGENT_TYPE_CPU;
    }
    say_why(g, by, ret);
}

static bool differs(const struct governor_ruling *a, const struct governor_ruling *b)
{
    return a->mode != b->mode || a->rate != b->rate || a->types != b->types || a->shed != b->shed ||
           a->is_throttled != b->is_throttled || a->is_backing_off != b->is_backing_off;
}

/* A number that was measured; what is none counts as 0. */
static double sane(double v)
{
    return v >= 0 && v < 1e6 ? v : 0;
}

/* How long the reading covers, or 0 when it is none. */
static int64_t reading_span(struct governor *g, int64_t now)
{
    int64_t dt = now - g->last_ns;
    bool is_first = g->last_ns == 0;

    if (is_first)
        g->first_ns = now;
    else if (dt >= 0 && dt < READING_MIN)
        return 0;
    g->last_ns = now;
    return is_first || dt < 0 || dt > READING_MAX ? 0 : dt;
}

bool governor_feed(struct governor *g, const struct governor_reading *r,
                   struct governor_ruling *ret)
{
    struct governor_reading seen = *r;
    seen.own_cpu = sane(r->own_cpu);
    seen.host_cpu = sane(r->host_cpu);
    seen.hottest_process = sane(r->hottest_process);

    g->note[0] = '\0';
    const struct asked *by = strongest(g, r->now_ns);
    bool is_burst = by && by->ask.mode == MODE_BURST;
    int64_t dt = reading_span(g, r->now_ns);
    if (dt > 0) {
        feel_all(g, &seen, dt);
        watch_memory(g, seen.memory, dt);
        if (is_burst == (g->last.mode == MODE_BURST)) /* else it is the other budget's reading */
            watch_cost(g, &seen, dt, is_burst, !g->last.is_backing_off && g->shed == SHED_NOTHING);
    }
    if (is_burst && g->last.mode != MODE_BURST) {
        g->share[1] = 1;
        g->only_cpu[1] = false;
    }

    struct governor_ruling now;
    rule(g, by, &now);
    bool is_changed = !g->has_ruled || differs(&now, &g->last);
    if (g->has_ruled && (now.mode != g->last.mode || now.rate != g->last.rate))
        now.changes++;
    if (is_changed) {
        if (g->last.rate > 0 && now.rate > 0)
            expect_cost(g, (double)now.rate / (double)g->last.rate);
        if (now.rate > g->last.rate)
            g->stepped_ns = r->now_ns; /* what it costs has to show first */
        g->last = now;
        g->has_ruled = true;
    }
    *ret = g->last;
    return is_changed;
}
