#include <string.h>

#include "agent/agent_internal.h"
#include "agent/publish.h"
#include "agent/window_lines.h"
#include "base/clock.h"
#include "formats/formats.h"

#define SECOND_NS     ((int64_t)1000000000)
#define NAMES_WAIT_NS (3 * SECOND_NS)

static size_t window_memory(const struct agent *a)
{
    return (size_t)a->config->memory_max / 4;
}

static void let_go(struct agent *a, struct window *w)
{
    for (size_t i = 0; i < w->rows.len; i++)
        process_let_go(a->processes, w->rows.data[i].sample.process);
    window_free(w);
}

void agent_close_window(struct agent *a)
{
    int64_t wall = clock_wall_ns(clock_real());

    if (a->window) {
        waits_end_window(a->waits, (uint64_t)clock_monotonic_ns(clock_real()));
        a->window->end_unix_ns =
            wall > a->window->start_unix_ns ? wall : a->window->start_unix_ns + 1;
        /* One waits for names at a time: whatever the last one still waits for, it goes now. */
        if (a->closing)
            (void)agent_try_publish(a, INT64_MAX);
        a->closing = a->window;
        if (a->inside)
            inside_end(a->inside, clock_monotonic_ns(clock_real()));
        a->closed_ns = loop_now_ns(a->loop);
    }
    a->window = a->is_finishing ? NULL : window_new(window_memory(a), wall);
}

static void hand_over(struct agent *a, const struct profile_set *set)
{
    CLEANUP(buf_done) struct buf out = {0}, losses = {0};
    struct error err = {""};

    a->counts.windows++;
    if (a->o.window) {
        a->o.window(a->o.arg, set);
        return;
    }
    if (set->profiles.len == 0)
        return;
    int r = format_otlp.encode(set, &out, &losses, &err);
    if (r < 0)
        agent_log(a, 3, "a window cannot be encoded: %s", err.text);
    else
        relay_send(a->relay, RELAY_PROFILES, buf_bytes(&out), -1);
}

static void publish(struct agent *a, struct window *w)
{
    struct publish_options o = {
        .naming = a->naming,
        .period_ns = a->period_ns,
        .mode = agent_mode_name(a->ruling.mode),
        .rate_reason = a->ruling.is_throttled || a->ruling.is_backing_off ? a->ruling.why : "",
        .rate = a->rate,
        .kernel_frames = a->config->kernel_frames,
        .with_pid = true,
        .kinds = UINT32_MAX,
        .host = a->host};

    naming_renew(a->naming, false);
    for (int attempt = 0; attempt < 2; attempt++) {
        struct dict *d = naming_dict(a->naming);
        struct profile_set set = {.budget = d->budget, .dict = d};
        publish_window(w, &o, &set);
        if (a->inside)
            inside_publish(a->inside, w, &o, &set);
        bool is_full = budget_failed(d->budget);
        /* A dictionary that is full is begun anew; what does not fit an empty one goes as it is. */
        if (!is_full || attempt == 1)
            hand_over(a, &set);
        profile_set_truncate(&set, 0);
        vec_done(d->budget, &set.profiles);
        if (!is_full)
            return;
        naming_renew(a->naming, true);
    }
    agent_log(a, 2, "a window did not fit in memory and lost names or stacks (memory_max)");
}

static bool is_ready(struct agent *a, int64_t now_ns)
{
    struct code_files_stats stats;

    if (now_ns == INT64_MAX || now_ns - a->closed_ns > NAMES_WAIT_NS)
        return true;
    code_files_stats(a->files, &stats);
    return stats.asked == 0 && process_table_asking(a->processes) == 0;
}

bool agent_try_publish(struct agent *a, int64_t now_ns)
{
    struct window *w = a->closing;

    if (!w)
        return true;
    if (!is_ready(a, now_ns))
        return false;
    if (strcmp(a->config->symbols, "lines") == 0 && !lines_are_ready(a, now_ns))
        return false;
    a->closing = NULL;
    a->left_out += w->left_out;
    publish(a, w);
    if (a->inside)
        inside_begin(a->inside);
    let_go(a, w);
    return true;
}
