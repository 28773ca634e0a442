#include <stddef.h>

#include "base/cleanup.h"
#include "relay/export_internal.h"
#include "wire/json.h"

/* What is told of each exporter, in /metrics and in JSON alike. */
struct shown {
    struct export_counts counts;
    struct spool_counts spooled;
    size_t queue_bytes, n_queued;
    bool is_failing;
};

static struct shown show(struct exporter *x)
{
    pthread_mutex_lock(&x->lock);
    struct shown s = {x->counts, x->spooled, x->queue_bytes, x->n_queued, x->failures > 0};
    pthread_mutex_unlock(&x->lock);
    return s;
}

static const struct {
    const char *name;
    const char *help;
    size_t offset;
    bool is_gauge;
} rows[] = {
    {"sent_requests", "Requests that the exporter took", offsetof(struct shown, counts.sent),
     false},
    {"sent_bytes", "Bytes of these, as sent", offsetof(struct shown, counts.sent_bytes), false},
    {"retries", "Tries that failed for now", offsetof(struct shown, counts.retries), false},
    {"refused_requests", "Requests refused for good", offsetof(struct shown, counts.refused),
     false},
    {"rejected_profiles", "Profiles left out of requests that were taken",
     offsetof(struct shown, counts.rejected), false},
    {"dropped_requests", "Requests dropped from memory", offsetof(struct shown, counts.dropped),
     false},
    {"spooled_requests", "Requests kept on disk", offsetof(struct shown, spooled.kept), false},
    {"spool_dropped_requests", "Requests dropped from the disk, oldest first",
     offsetof(struct shown, spooled.dropped), false},
    {"spool_damaged_files", "Kept files that could not be read",
     offsetof(struct shown, spooled.damaged), false},
    {"spool_failures", "Times the disk took nothing", offsetof(struct shown, counts.disk_failures),
     false},
    {"spool_files", "Requests on disk now", offsetof(struct shown, spooled.files), true},
    {"spool_bytes", "Bytes on disk now", offsetof(struct shown, spooled.bytes), true},
    {"queue_bytes", "Bytes in memory now", offsetof(struct shown, queue_bytes), true},
};

static uint64_t value_of(const struct shown *s, size_t row)
{
    return *(const uint64_t *)(const void *)((const char *)s + rows[row].offset);
}

/* As a label's value has it. */
static void add_label(const char *text, struct buf *out)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_add_byte(out, '\\');
        buf_add_byte(out, (uint8_t)*text);
    }
}

void exporters_metrics(void *part, struct buf *text)
{
    struct exporters *e = part;
    struct shown shown[EXPORT_TARGETS_MAX];

    for (size_t i = 0; i < e->n; i++)
        shown[i] = show(&e->list[i]);
    for (size_t row = 0; e->n > 0 && row < ARRAY_SIZE(rows); row++) {
        const char *end = rows[row].is_gauge ? "" : "_total";
        buf_addf(text, "# HELP vesta_agent_export_%s%s %s.\n# TYPE vesta_agent_export_%s%s %s\n",
                 rows[row].name, end, rows[row].help, rows[row].name, end,
                 rows[row].is_gauge ? "gauge" : "counter");
        for (size_t i = 0; i < e->n; i++) {
            buf_addf(text, "vesta_agent_export_%s%s{exporter=\"", rows[row].name, end);
            add_label(e->list[i].target->name, text);
            buf_addf(text, "\"} %llu\n", (unsigned long long)value_of(&shown[i], row));
        }
    }
}

/* The sums of all exporters, for whoever wants a line rather than a table. */
static void add_sums(struct exporters *e, struct buf *json)
{
    unsigned long long exported = 0, refused = 0, dropped = 0, spooled = 0;

    for (size_t i = 0; i < e->n; i++) {
        struct shown s = show(&e->list[i]);
        exported += s.counts.sent;
        refused += s.counts.refused;
        dropped += s.counts.dropped + s.spooled.dropped + s.spooled.damaged;
        spooled += s.spooled.files;
    }
    buf_addf(json, "\"exported\":%llu,\"refused\":%llu,\"dropped\":%llu,\"spooled\":%llu,",
             exported, refused, dropped, spooled);
}

void exporters_status(void *part, struct buf *json)
{
    struct exporters *e = part;
    struct json_writer w = {.out = json};

    add_sums(e, json);
    buf_add_str(json, "\"exporters\":");
    json_begin_array(&w);
    for (size_t i = 0; i < e->n; i++) {
        struct shown s = show(&e->list[i]);
        json_begin_object(&w);
        json_key(&w, "exporter");
        json_cstring(&w, e->list[i].target->name);
        json_key(&w, "answers");
        json_bool(&w, !s.is_failing);
        for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
            json_key(&w, rows[row].name);
            json_u64(&w, value_of(&s, row));
        }
        json_end_object(&w);
    }
    json_end_array(&w);
}
