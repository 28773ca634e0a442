/*
 * Events that have a duration, made a profile: one row per event with the time that was its own and
 * not that of events within it.
 *
 * Events may come in any order, begins may lack their ends and ends their begins. Begins are taken
 * in order of time, those of one time as they came (complete events: the longest first, for a
 * longer one cannot lie within a shorter); likewise ends. At one time ends go first, unless the
 * next begin and the next end are the same event, which then has no duration. An end closes the
 * innermost open event when that has its name; among ends of one time, one with the same arguments
 * is preferred, then one with the same name. An end that fits nothing is passed over.
 */
#include <stdlib.h>

#include "formats/chrome_internal.h"

/* Arguments are part of what a frame is, up to this length; longer ones differ from event to event.
 */
#define ARGS_MAX ((size_t)1024)

/* How many ends of one time are searched for the one that fits; bounds the work on odd input. */
#define ENDS_SEARCHED_MAX 64

/* The text without the white space between tokens. */
static struct bytes compact(struct chrome_trace *t, struct bytes json)
{
    bool in_string = false;

    buf_clear(&t->scratch);
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.data[i];
        if (in_string && c == '\\') {
            buf_add_byte(&t->scratch, c);
            c = json.data[++i];
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
            continue;
        }
        buf_add_byte(&t->scratch, c);
    }
    return buf_bytes(&t->scratch);
}

/* What Hermes says of its functions in the arguments of their events. */
static void read_hermes_args(struct chrome_trace *t, const struct chrome_event *e,
                             struct chrome_span *s)
{
    struct json_reader *r = t->args;

    json_reader_set_text(r, (struct bytes){t->args_text.data, t->args_text.len}, e->args_at);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "url"))
            s->url = dict_string(t->texts, json_get_string_or_empty(r));
        else if (bytes_are(key, "line") && json_peek(r) != JSON_NULL)
            s->line = json_get_i64(r);
        else if (bytes_are(key, "column") && json_peek(r) != JSON_NULL)
            s->column = json_get_i64(r);
        else
            json_skip(r);
    }
}

static void read_span_args(struct chrome_trace *t, const struct chrome_event *e,
                           struct chrome_span *s)
{
    struct bytes text = {t->args_text.data, t->args_text.len};

    if (bytes_find(text, BYTES("\"allocatedName\""))) {
        read_hermes_args(t, e, s);
        return;
    }
    if (text.len <= 4 * ARGS_MAX)
        text = compact(t, text);
    if (text.len > ARGS_MAX)
        t->n_long_args++;
    else if (text.len > 2)
        s->args = dict_string(t->texts, text);
}

void chrome_add_span(struct chrome_trace *t, const struct chrome_event *e)
{
    int64_t duration = e->has_dur ? e->dur : e->has_tdur ? e->tdur : 0;
    struct chrome_span s = {
        .start_ns = e->ts,
        .duration_ns = e->phase == 'X' && duration > 0 ? duration : 0,
        .offset = e->offset,
        .thread = chrome_add_thread(t, e->pid, e->tid, false),
        .name = e->name,
        .phase = e->phase,
    };
    t->n_spans++;
    /* Once there is a CPU profile, spans are only counted. */
    if (t->profiles.len > 0 || budget_failed(t->budget))
        return;
    if (e->tid_name && !t->threads.data[s.thread].name)
        t->threads.data[s.thread].name = e->tid_name;
    if (e->has_args)
        read_span_args(t, e, &s);
    vec_push(t->budget, &t->spans, s);
}

static bool is_same(const struct chrome_span *a, const struct chrome_span *b)
{
    return a->name == b->name && a->args == b->args && a->url == b->url && a->line == b->line &&
           a->column == b->column;
}

/* The frame of a span. Its arguments are an attribute: told apart, but of one function. */
static uint32_t add_location(struct chrome_trace *t, const struct chrome_span *s)
{
    struct dict *d = t->dict;
    struct location l = {0};
    struct function f = {.name = s->name ? dict_string(d, dict_text(t->texts, s->name))
                                         : dict_cstring(d, "(unnamed)"),
                         .file = dict_string(d, dict_text(t->texts, s->url))};

    if (s->args) {
        uint32_t text = dict_string(d, dict_text(t->texts, s->args));
        uint32_t id = dict_string_attribute(d, dict_cstring(d, "args"), text);
        l.attrs = dict_attrs(d, &id, 1);
    }
    return dict_location(d, l, &(struct line){dict_function(d, f), s->line, s->column}, 1);
}

/* A begin or an end. */
struct mark {
    int64_t time_ns;
    uint64_t order; /* of marks of one time */
    uint32_t span;
};

struct queue {
    VEC(struct mark) marks;
    size_t next;
};

struct open_span {
    uint32_t span;
    uint32_t node;
    int64_t self_ns;
};

/* One thread being replayed. */
struct replay {
    struct chrome_trace *trace;
    struct profile *profile;
    uint32_t attrs;
    struct queue begins, ends;
    VEC(struct open_span) open;
    int64_t now_ns;
};

/* By thread; within it complete events behind the others, sorted as their begins are to be. */
static int compare_spans(const void *a, const void *b, void *trace)
{
    const struct chrome_span *x = a, *y = b;
    int order = chrome_compare_threads(trace, x->thread, y->thread);
    bool is_complete = x->phase == 'X';

    if (order != 0)
        return order;
    if (is_complete != (y->phase == 'X'))
        return is_complete ? 1 : -1;
    if (is_complete && x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (is_complete && x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    return x->offset < y->offset ? -1 : 1;
}

static int compare_marks(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static const struct chrome_span *span_of(const struct replay *p, const struct mark *m)
{
    return &p->trace->spans.data[m->span];
}

static struct mark *front(struct queue *q)
{
    return q->next < q->marks.len ? &q->marks.data[q->next] : NULL;
}

static void pass_time(struct replay *p, int64_t until_ns)
{
    if (p->open.len > 0)
        vec_last(&p->open).self_ns += until_ns - p->now_ns;
    p->now_ns = until_ns;
}

static void open_span(struct replay *p)
{
    const struct mark *m = &p->begins.marks.data[p->begins.next++];
    uint32_t parent = p->open.len > 0 ? vec_last(&p->open).node : 0;

    pass_time(p, m->time_ns);
    vec_push(p->trace->budget, &p->open,
             (struct open_span){
                 .span = m->span,
                 .node = dict_node(p->trace->dict, parent, add_location(p->trace, span_of(p, m)))});
}

static void close_innermost(struct replay *p, int64_t time_ns)
{
    pass_time(p, time_ns);
    struct open_span o = vec_last(&p->open);
    int64_t start = p->trace->spans.data[o.span].start_ns, values[] = {1, o.self_ns};
    p->open.len--;
    profile_add(p->profile, &(struct sample){.node = o.node,
                                             .attrs = p->attrs,
                                             .time_ns = start > 0 ? (uint64_t)start : 0,
                                             .values = values});
}

/* Brings the end that fits the innermost open event best to the front of its time. */
static void choose_end(struct replay *p)
{
    struct queue *q = &p->ends;
    const struct chrome_span *top = &p->trace->spans.data[vec_last(&p->open).span];
    size_t best = q->next, last = q->next + ENDS_SEARCHED_MAX;
    bool fits_name = false;

    for (size_t i = q->next; i < q->marks.len && i < last; i++) {
        const struct mark *m = &q->marks.data[i];
        if (m->time_ns != q->marks.data[q->next].time_ns)
            break;
        if (is_same(span_of(p, m), top)) {
            best = i;
            break;
        }
        if (!fits_name && span_of(p, m)->name == top->name) {
            best = i;
            fits_name = true;
        }
    }
    struct mark m = q->marks.data[best];
    q->marks.data[best] = q->marks.data[q->next];
    q->marks.data[q->next] = m;
}

static void take_end(struct replay *p)
{
    if (p->open.len > 0)
        choose_end(p);
    const struct mark *m = &p->ends.marks.data[p->ends.next++];
    bool fits = p->open.len > 0 &&
                span_of(p, m)->name == p->trace->spans.data[vec_last(&p->open).span].name;
    if (fits)
        close_innermost(p, m->time_ns);
    else
        p->trace->n_lost_ends++;
}

static bool begin_is_next(struct replay *p)
{
    const struct mark *begin = front(&p->begins), *end = front(&p->ends);

    if (!begin || !end)
        return begin != NULL;
    if (begin->time_ns != end->time_ns)
        return begin->time_ns < end->time_ns;
    return is_same(span_of(p, begin), span_of(p, end));
}

static void sort_marks(struct queue *q)
{
    if (q->marks.len > 0)
        qsort(q->marks.data, q->marks.len, sizeof(struct mark), compare_marks);
}

static void fill_queues(struct replay *p, size_t first, size_t end)
{
    struct budget *b = p->trace->budget;

    for (size_t i = first; i < end; i++) {
        const struct chrome_span *s = &p->trace->spans.data[i];
        if (s->phase != 'E')
            vec_push(b, &p->begins.marks, (struct mark){s->start_ns, i, (uint32_t)i});
        if (s->phase != 'B')
            vec_push(b, &p->ends.marks,
                     (struct mark){s->start_ns + s->duration_ns, i, (uint32_t)i});
    }
    sort_marks(&p->begins);
    sort_marks(&p->ends);
}

/* The spans [first, end) are those of one thread. */
static void replay_thread(struct chrome_trace *t, size_t first, size_t end)
{
    struct replay p = {.trace = t, .profile = profile_set_add(t->out)};

    if (!p.profile)
        return;
    profile_add_ctype(p.profile, "calls", "count");
    profile_add_ctype(p.profile, "wall", "nanoseconds");
    p.profile->profile_attrs = p.attrs = chrome_thread_attrs(t, t->spans.data[first].thread);
    fill_queues(&p, first, end);
    if (!budget_failed(t->budget)) {
        int64_t start = INT64_MAX;
        for (size_t i = first; i < end; i++)
            start = t->spans.data[i].start_ns < start ? t->spans.data[i].start_ns : start;
        p.now_ns = start;
        while ((front(&p.begins) || front(&p.ends)) && !budget_failed(t->budget)) {
            if (begin_is_next(&p))
                open_span(&p);
            else
                take_end(&p);
        }
        t->n_open += p.open.len;
        while (p.open.len > 0 && !budget_failed(t->budget))
            close_innermost(&p, p.now_ns);
        p.profile->time_unix_ns = v8_calendar_time(start, t->out);
        p.profile->duration_ns = p.now_ns - start;
    }
    vec_done(t->budget, &p.begins.marks);
    vec_done(t->budget, &p.ends.marks);
    vec_done(t->budget, &p.open);
}

void chrome_finish_spans(struct chrome_trace *t)
{
    size_t n = t->spans.len;

    if (n == 0)
        profile_set_note(t->out, "the trace has no events with a duration and no samples");
    if (n > 0)
        qsort_r(t->spans.data, n, sizeof(struct chrome_span), compare_spans, t);
    for (size_t i = 0, end; i < n && !budget_failed(t->budget); i = end) {
        end = i + 1;
        while (end < n && t->spans.data[end].thread == t->spans.data[i].thread)
            end++;
        replay_thread(t, i, end);
    }
}
