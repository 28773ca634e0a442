#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/selection.h"
#include "cli/store_files.h"
#include "cli/terminal.h"
#include "query/json_answers.h"
#include "query/time_range.h"
#include "store_local/local.h"
#include "wire/json.h"

/* `vesta store VERB --data DIR`: what an operator does with a data directory. */
struct store_verb {
    const char *name, *arguments, *summary;
    int (*run)(const struct command *self, struct options *o);
};

static void add_size(struct buf *out, const char *name, uint64_t bytes)
{
    char text[BUDGET_TEXT_MAX];
    buf_addf(out, "%-16s %s\n", name, budget_text((size_t)bytes, text));
}

static void stat_text(const struct store_stat *s, struct buf *out)
{
    char first[TIME_TEXT_MAX], last[TIME_TEXT_MAX];
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"tenants", s->tenants}, {"series", s->series},        {"profiles", s->profiles},
                  {"samples", s->samples}, {"spans", s->spans},          {"segments", s->segments},
                  {"epochs", s->epochs},   {"tombstones", s->tombstones}};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        buf_addf(out, "%-16s %llu\n", counts[i].name, (unsigned long long)counts[i].value);
    if (s->profiles > 0)
        buf_addf(out, "%-16s %s .. %s\n", "range", time_text(s->first_ns, first),
                 time_text(s->last_ns, last));
    add_size(out, "on disk", s->disk_bytes);
    add_size(out, "  segments", s->segment_bytes);
    add_size(out, "  dictionaries", s->dict_bytes);
    add_size(out, "  log", s->wal_bytes);
    add_size(out, "limit", s->limit_bytes);
    add_size(out, "free", s->free_bytes);
    if (s->samples > 0)
        buf_addf(out, "%-16s %.2f\n", "bytes per sample",
                 (double)s->disk_bytes / (double)s->samples);
    if (s->trouble[0])
        buf_addf(out, "%-16s %s\n", "trouble", s->trouble);
}

static void stat_json(const struct store_stat *s, struct buf *out)
{
    struct json_writer w = {.out = out};
    json_store_stat(&w, s);
    buf_add_byte(out, '\n');
}

static int run_stat(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    struct store_stat s = {0};
    (void)self;
    int r = data_open(o, DATA_READ, &store, &err);
    if (r < 0)
        return command_fail(r, &err);
    store_stat(store, &s);
    if (o->json)
        stat_json(&s, &out);
    else
        stat_text(&s, &out);
    return command_write(o, buf_bytes(&out), false);
}

struct findings {
    struct options *o;
    size_t n_bad;
};

static void on_finding(void *ctx, bool is_bad, const char *text)
{
    struct findings *f = ctx;
    f->n_bad += is_bad;
    if (!is_bad && f->o->quiet)
        return;
    terminal_say(bytes_of(is_bad ? "bad: " : ""));
    terminal_say(bytes_of(text));
    fputc('\n', stderr);
}

static int verdict(const struct findings *f, int r, const struct error *err)
{
    if (r < 0 && r != -EUCLEAN)
        return command_fail(r, err);
    if (f->n_bad == 0 && r == 0) {
        puts("sound: every checksum and reference holds");
        return VESTA_EXIT_OK;
    }
    printf("damaged: %zu finding%s; \"vesta store repair\" keeps what is sound\n", f->n_bad,
           f->n_bad == 1 ? "" : "s");
    return VESTA_EXIT_ERROR;
}

static int run_verify(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    struct error err = {""};
    struct findings f = {.o = o};
    (void)self;
    int r = data_open(o, DATA_READ, &store, &err);
    if (r < 0)
        return command_fail(r, &err);
    r = store_verify(store, on_finding, &f, &err);
    return verdict(&f, r, &err);
}

static int run_repair(const struct command *self, struct options *o)
{
    struct error err = {""};
    struct findings f = {.o = o};
    (void)self;
    int r = data_mend(o, local_repair, on_finding, &f, &err);
    if (r < 0)
        return command_fail(r, &err);
    printf("repaired: %zu thing%s put aside\n", f.n_bad, f.n_bad == 1 ? "" : "s");
    return VESTA_EXIT_OK;
}

static int run_upgrade(const struct command *self, struct options *o)
{
    struct error err = {""};
    struct findings f = {.o = o};
    (void)self;
    int r = data_mend(o, local_upgrade, on_finding, &f, &err);
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

static int parse_age(const char *name, const char *text, int64_t *ret, struct error *err)
{
    int r = text ? duration_parse(bytes_of(text), ret, err) : 0;
    return r < 0 ? error_prefix(err, r, "--%s", name) : 0;
}

static void add_age(struct buf *out, const char *name, int64_t own, int64_t other)
{
    char text[DURATION_TEXT_MAX];
    buf_addf(out, "%-16s %s%s\n", name, duration_text(own > 0 ? own : other, text),
             own > 0 ? "" : " (default)");
}

static void policy_text(struct store *store, const struct store_policy *p, struct buf *out)
{
    struct store_stat s = {0};
    char text[BUDGET_TEXT_MAX];
    store_stat(store, &s);
    add_age(out, "max-age", p->max_age_ns, LOCAL_MAX_AGE_NS);
    add_age(out, "max-span-age", p->max_span_age_ns, LOCAL_MAX_SPAN_AGE_NS);
    buf_addf(out, "%-16s %s%s\n", "max-size",
             budget_text((size_t)(p->max_bytes > 0 ? p->max_bytes : s.limit_bytes), text),
             p->max_bytes > 0 ? "" : " (default: of all tenants together)");
}

/* Changes what was named and shows the whole. */
static int run_policy(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    struct store_policy policy;
    struct bytes tenant = bytes_of(o->tenant ? o->tenant : STORE_DEFAULT_TENANT);
    bool is_change = o->max_age || o->max_span_age || o->max_size > 0;
    (void)self;
    int r = data_open(o, is_change ? DATA_WRITE : DATA_READ, &store, &err);
    if (r < 0)
        return command_fail(r, &err);
    store_get_policy(store, tenant, &policy);
    r = parse_age("max-age", o->max_age, &policy.max_age_ns, &err);
    if (r == 0)
        r = parse_age("max-span-age", o->max_span_age, &policy.max_span_age_ns, &err);
    if (o->max_size > 0)
        policy.max_bytes = o->max_size;
    if (r == 0 && is_change)
        r = store_set_policy(store, tenant, &policy, &err);
    if (r < 0)
        return command_fail(r, &err);
    policy_text(store, &policy, &out);
    return command_write(o, buf_bytes(&out), false);
}

/* Runs upkeep until nothing is due, telling how far it is. */
static int upkeep(struct options *o, enum store_upkeep what, const char *doing)
{
    CLEANUP(store_closep) struct store *store = NULL;
    struct error err = {""};
    struct store_stat s = {0};
    int r = data_open(o, DATA_WRITE, &store, &err);
    for (int steps = 0; r >= 0; steps++) {
        r = store_upkeep(store, what, &err);
        if (r == 0)
            break;
        if (r > 0 && !o->quiet) {
            store_stat(store, &s);
            fprintf(stderr, "\r%s: %llu segments, %.1f MB ", doing, (unsigned long long)s.segments,
                    (double)s.disk_bytes / 1e6);
        }
    }
    if (r < 0)
        return command_fail(r, &err);
    if (!o->quiet) {
        store_stat(store, &s);
        fprintf(stderr, "\r%s: done; %llu segments, %.1f MB on disk\n", doing,
                (unsigned long long)s.segments, (double)s.disk_bytes / 1e6);
    }
    return VESTA_EXIT_OK;
}

static int run_compact(const struct command *self, struct options *o)
{
    (void)self;
    return upkeep(o, UPKEEP_SETTLE, "compacting");
}

static int run_gc(const struct command *self, struct options *o)
{
    (void)self;
    return upkeep(o, UPKEEP_EXPIRE, "removing what has expired");
}

static void tell_range(const char *what, const struct selection *s)
{
    CLEANUP(buf_done) struct buf text = {0};
    char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
    buf_addf(&text, "%s: \"%.*s\" from %s to %s\n", what, (int)s->selector->text.len,
             (const char *)s->selector->text.data, time_text(s->query.from_ns, from),
             time_text(s->query.to_ns, to));
    terminal_say(buf_bytes(&text));
}

static int run_erase(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(selection_done) struct selection s = {0};
    struct error err = {""};
    if (o->n_args != 1 || o->args[0][strspn(o->args[0], " ")] == '\0')
        return command_usage(self, "store erase needs one selection; {} is everything");
    int r = data_open(o, DATA_WRITE, &store, &err);
    if (r == 0)
        r = selection_parse(o, store, o->args[0], &s, &err);
    if (r == 0 && !s.has_range)
        r = error_set(&err, -EINVAL, "store erase needs a range: --from 0 is since ever");
    struct store_scope scope = {s.query.tenant, s.selector, s.query.from_ns, s.query.to_ns};
    if (r == 0)
        r = store_erase(store, &scope, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (!o->quiet)
        tell_range("erased", &s);
    return VESTA_EXIT_OK;
}

/* A whole copy of the store, when it could be opened. */
static int copy(const struct options *o, int r, struct store *store, const char *to,
                struct error *err)
{
    struct store_stat s = {0};
    if (r == 0)
        r = store_backup(store, to, err);
    if (r < 0)
        return command_fail(r, err);
    store_stat(store, &s);
    if (!o->quiet)
        fprintf(stderr, "%s holds %llu profiles now, %.1f MB\n", to, (unsigned long long)s.profiles,
                (double)s.disk_bytes / 1e6);
    return VESTA_EXIT_OK;
}

static int run_backup(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    struct error err = {""};
    if (o->n_args != 1)
        return command_usage(self, "store backup needs a directory that is not there yet");
    int r = data_open(o, DATA_READ, &store, &err);
    return copy(o, r, store, o->args[0], &err);
}

static int run_restore(const struct command *self, struct options *o)
{
    struct error err = {""};
    if (o->n_args != 1)
        return command_usage(self, "store restore needs the directory of a backup");
    struct options from = *o;
    from.data = o->args[0];
    CLEANUP(store_closep) struct store *store = NULL;
    if (!o->data)
        return command_usage(self, "store restore needs --data DIR, a directory not there yet");
    int r = data_open(&from, DATA_READ, &store, &err);
    return copy(o, r, store, o->data, &err);
}

static const struct store_verb verbs[] = {
    {"stat", "", "what is kept, and what it takes", run_stat},
    {"verify", "", "check every checksum and reference, and give a verdict", run_verify},
    {"repair", "", "put aside what is damaged, so that the rest can be used", run_repair},
    {"upgrade", "", "make a directory of an older format one of this", run_upgrade},
    {"policy", "", "show or set how long data is kept: --max-age, --max-span-age, --max-size",
     run_policy},
    {"compact", "", "flush, compact and roll up everything now", run_compact},
    {"gc", "", "remove what retention says", run_gc},
    {"import", "FILE...", "profiles of any format into the store; --label, --max-age",
     store_import},
    {"export", "[SELECTION] -o DIR",
     "each profile as a file of its own, of all times unless --from; --to (otlp)", store_export},
    {"erase", "SELECTION", "hide at once and for good what matches from --from to --until",
     run_erase},
    {"backup", "TO", "a consistent copy, also while a server is writing", run_backup},
    {"restore", "FROM", "a data directory from a backup", run_restore},
};

void store_verbs_help(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(out, "  %-10s %-18s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
}

int cmd_store(const struct command *self, struct options *o)
{
    if (o->n_args == 0)
        return command_usage(self, "store needs a verb: stat, verify, import...");
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (strcmp(verbs[i].name, o->args[0]) != 0)
            continue;
        o->args++, o->n_args--;
        int code = verbs[i].run(self, o);
        o->args--, o->n_args++;
        return code;
    }
    return command_usage(self, "there is no \"store %s\"", o->args[0]);
}
