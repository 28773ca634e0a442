#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "scrape/scrape_internal.h"
#include "wire/json.h"

/* What scraping tells about itself. */

static const char *const state_names[ENTRY_STATES] = {
    [ENTRY_NEW] = "new", [ENTRY_UP] = "up", [ENTRY_BUSY] = "busy", [ENTRY_DOWN] = "down"};

static const char *const outcome_names[OUTCOMES] = {
    [OUTCOME_OK] = "ok",       [OUTCOME_BUSY] = "busy", [OUTCOME_TIMEOUT] = "timeout",
    [OUTCOME_LARGE] = "large", [OUTCOME_BAD] = "bad",   [OUTCOME_DOWN] = "down"};

/* A target is up when anything of it was read the last time: not every one has all kinds. */
static enum entry_state health(const struct target *t)
{
    enum entry_state best = t->n_entries ? t->entries[0].state : ENTRY_NEW;

    for (size_t i = 0; i < t->n_entries; i++) {
        enum entry_state state = t->entries[i].state;
        if (state == ENTRY_UP)
            return ENTRY_UP;
        if (state == ENTRY_BUSY || (state == ENTRY_DOWN && best == ENTRY_NEW))
            best = state;
    }
    return best;
}

static void write_entry(struct json_writer *w, const struct entry *e)
{
    json_begin_object(w);
    json_key(w, "profile");
    json_cstring(w, e->kind->name);
    json_key(w, "state");
    json_cstring(w, state_names[e->state]);
    json_key(w, "scrapes");
    json_u64(w, e->n_ok);
    json_key(w, "failures");
    json_u64(w, e->n_failed);
    if (e->scraped_ns > 0) {
        json_key(w, "last_unix_ns");
        json_i64_string(w, e->scraped_ns);
        json_key(w, "took_ms");
        json_i64(w, e->took_ns / 1000000);
        json_key(w, "bytes");
        json_u64(w, e->bytes);
    }
    if (e->error[0]) {
        json_key(w, "error");
        json_cstring(w, e->error);
    }
    json_end_object(w);
}

static void write_target(struct json_writer *w, const struct target *t)
{
    json_begin_object(w);
    json_key(w, "job");
    json_cstring(w, t->job->name);
    json_key(w, "url");
    json_cstring(w, t->base);
    json_key(w, "health");
    json_cstring(w, state_names[health(t)]);
    json_key(w, "labels");
    json_begin_object(w);
    for (size_t i = 0; i < t->tags.n; i++) {
        json_key(w, t->tags.items[i].name);
        json_cstring(w, t->tags.items[i].value);
    }
    json_end_object(w);
    json_key(w, "profiles");
    json_begin_array(w);
    for (size_t i = 0; i < t->n_entries; i++)
        write_entry(w, &t->entries[i]);
    json_end_array(w);
    json_end_object(w);
}

void scrape_status(struct scrape *s, struct buf *json)
{
    struct json_writer w = {.out = json};

    pthread_mutex_lock(&s->lock);
    json_begin_object(&w);
    json_key(&w, "targets");
    json_begin_array(&w);
    for (size_t i = 0; i < s->n_targets; i++)
        write_target(&w, s->targets[i]);
    json_end_array(&w);
    json_end_object(&w);
    pthread_mutex_unlock(&s->lock);
}

/* ---- /metrics */

/* The value of a label: what would end it is escaped. */
static void add_label(struct buf *out, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_add_byte(out, '\\');
        if (*p == '\n')
            buf_add_str(out, "\\n");
        else
            buf_add_byte(out, (uint8_t)*p);
    }
}

static void add_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_job_value(struct buf *out, const char *name, const struct scrape_job *job,
                          const char *more, uint64_t value)
{
    buf_addf(out, "%s{job=\"", name);
    add_label(out, job->name);
    buf_addf(out, "\"%s} %llu\n", more, (unsigned long long)value);
}

static void add_targets(struct scrape *s, struct buf *out)
{
    static const char name[] = "vesta_agent_scrape_targets";
    char more[32];

    add_head(out, name, "gauge", "Targets of pprof scraping, by how they fare.");
    for (size_t i = 0; i < s->n_states; i++) {
        uint64_t n[ENTRY_STATES] = {0};
        for (size_t k = 0; k < s->n_targets; k++) {
            if (s->targets[k]->job == s->states[i].job)
                n[health(s->targets[k])]++;
        }
        for (size_t k = 0; k < ENTRY_STATES; k++) {
            snprintf(more, sizeof(more), ",health=\"%s\"", state_names[k]);
            if (n[k] > 0)
                add_job_value(out, name, s->states[i].job, more, n[k]);
        }
    }
}

static void add_outcomes(struct scrape *s, struct buf *out)
{
    static const char name[] = "vesta_agent_scrapes_total";

    add_head(out, name, "counter", "Profiles that were asked for, by what came of it.");
    for (size_t i = 0; i < s->n_states; i++) {
        const struct scrape_job *job = s->states[i].job;
        for (size_t k = 0; k < job->n_kinds * OUTCOMES; k++) {
            CLEANUP(buf_done) struct buf more = {0};
            uint64_t n = s->states[i].counts.outcomes[k / OUTCOMES][k % OUTCOMES];
            buf_add_str(&more, ",profile=\"");
            add_label(&more, job->kinds[k / OUTCOMES].name);
            buf_addf(&more, "\",result=\"%s\"", outcome_names[k % OUTCOMES]);
            if (n > 0)
                add_job_value(out, name, job, buf_cstr(&more), n);
        }
    }
}

static void add_count(struct scrape *s, struct buf *out, const char *name, const char *help,
                      size_t offset)
{
    add_head(out, name, "counter", help);
    for (size_t i = 0; i < s->n_states; i++) {
        uint64_t n;
        memcpy(&n, (const char *)&s->states[i].counts + offset, sizeof(n));
        if (n > 0)
            add_job_value(out, name, s->states[i].job, "", n);
    }
}

void scrape_metrics(struct scrape *s, struct buf *text)
{
    pthread_mutex_lock(&s->lock);
    add_targets(s, text);
    add_outcomes(s, text);
    add_count(s, text, "vesta_agent_scrape_bytes_total", "Bytes of profiles as they came.",
              offsetof(struct job_counts, bytes));
    add_count(s, text, "vesta_agent_scrape_samples_total", "Samples that were made of them.",
              offsetof(struct job_counts, samples));
    add_count(s, text, "vesta_agent_scrape_resets_total",
              "Cumulative profiles that began anew, as a process was restarted.",
              offsetof(struct job_counts, resets));
    add_count(s, text, "vesta_agent_scrape_late_total",
              "Profiles that were asked for later than half an interval: too many targets.",
              offsetof(struct job_counts, late));
    pthread_mutex_unlock(&s->lock);
}
