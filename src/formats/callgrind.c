/*
 * Callgrind's text output, as Valgrind, Xdebug and pprof write it; also Cachegrind's, which is the
 * same without calls.
 *
 * The file is a call graph, not stacks. What becomes of it, and what that can and cannot say, is at
 * the top of callgrind_unfold.c: self costs per function and line are exact. Each event is a sample
 * type; a last one, "calls", counts how often a function was called. A summary that says more than
 * the functions have is kept as a sample without a stack.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/hash.h"
#include "formats/callgrind_graph.h"
#include "formats/callgrind_write.h"
#include "formats/formats.h"

#define POSITIONS_MAX 4
#define COMMENTS_MAX  1000

enum name_kind { NAME_FUNCTION, NAME_FILE, NAME_OBJECT, NAME_KINDS };
enum position { POSITION_LINE, POSITION_INSTR, POSITION_OTHER };

/* The names that "(3)" stands for. */
struct names {
    VEC(uint64_t) ids;
    VEC(uint32_t) strings;
    struct idset index;
};

struct reader {
    struct profile_set *out;
    struct dict *dict;
    struct budget *budget;
    struct error *err;
    uint64_t line_number;
    struct names names[NAME_KINDS];
    uint32_t type;    /* frame type string */
    uint32_t unknown; /* "???": a file or an object that callgrind does not know */

    /* The part being read. */
    struct profile *p; /* NULL until its events are known */
    struct callgrind_graph graph;
    int64_t scale[CALLGRIND_EVENTS_MAX];
    int64_t summary[CALLGRIND_EVENTS_MAX];
    bool has_summary, in_body;
    uint64_t thread;
    bool has_thread;
    uint32_t pid_attrs;
    VEC(uint32_t) comments;
    enum position positions[POSITIONS_MAX];
    size_t n_positions;

    /* Where in the body. */
    uint64_t at[POSITIONS_MAX];
    uint32_t object, function_file, file; /* strings; file is that of fl=, fi= or fe= */
    uint32_t function;                    /* graph function, or IDSET_NONE */
    uint32_t called_object, called_file, called;
    bool has_called_object, has_called_file;
    bool is_call, is_jump; /* what the next cost line is */
    uint64_t call_count;
    uint64_t call_at[POSITIONS_MAX];
    int64_t costs[CALLGRIND_EVENTS_MAX]; /* of the last line, for "*" */
};

static int bad(struct reader *r, const char *reason)
{
    return error_set(r->err, -EBADMSG, "callgrind at line %" PRIu64 ": %s", r->line_number, reason);
}

static int spent(struct reader *r)
{
    return budget_error(r->budget, r->err);
}

/* The first word of *rest, taken off; empty at the end. */
static struct bytes next_word(struct bytes *rest)
{
    size_t from = 0, to;

    while (from < rest->len && (rest->data[from] == ' ' || rest->data[from] == '\t'))
        from++;
    for (to = from; to < rest->len && rest->data[to] != ' ' && rest->data[to] != '\t';)
        to++;
    struct bytes word = {rest->data + from, to - from};
    *rest = bytes_from(*rest, to);
    return word;
}

/* A decimal or 0x number. */
static bool to_number(struct bytes w, uint64_t *ret)
{
    if (bytes_start_with(w, BYTES("0x")))
        return bytes_to_hex(w, ret);
    return bytes_to_u64(w, ret);
}

/* "NAME", "(3) NAME", or "(3)" for one that was given before. */
static int read_name(struct reader *r, enum name_kind kind, struct bytes text, uint32_t *ret)
{
    struct names *n = &r->names[kind];
    uint64_t id;
    const uint8_t *close = bytes_find_byte(text, ')');

    if (text.len < 3 || text.data[0] != '(' || !close ||
        !bytes_to_u64((struct bytes){text.data + 1, (size_t)(close - text.data) - 1}, &id)) {
        *ret = dict_string(r->dict, text);
        return 0;
    }
    struct bytes name = bytes_trim(bytes_from(text, (size_t)(close - text.data) + 1));
    uint64_t hash = hash_mix(id, (uint64_t)kind);
    uint32_t at = IDSET_FIND(&n->index, hash, i, n->ids.data[i] == id);
    if (name.len == 0 && at == IDSET_NONE) {
        profile_set_note(r->out, "callgrind: a name such as %.*s is used and never given",
                         (int)(close - text.data) + 1, (const char *)text.data);
        *ret = dict_string(r->dict, text);
        return 0;
    }
    if (name.len > 0) {
        *ret = dict_string(r->dict, name);
        if (at != IDSET_NONE) {
            n->strings.data[at] = *ret;
            return 0;
        }
        at = (uint32_t)n->ids.len;
        if (!vec_push(r->budget, &n->ids, id) || !vec_push(r->budget, &n->strings, *ret) ||
            !idset_add(r->budget, &n->index, hash, at))
            return spent(r);
    }
    *ret = n->strings.data[at];
    return 0;
}

/* A place in the source. Its file may differ from the function's, where code was inlined. */
static uint32_t location_at(struct reader *r, uint32_t name, uint32_t file, uint32_t object,
                            const uint64_t *at)
{
    struct location l = {.type = r->type};
    struct function f = {.name = name, .file = file == r->unknown ? 0 : file};
    struct line line = {.function = dict_function(r->dict, f)};

    for (size_t i = 0; i < r->n_positions; i++) {
        if (r->positions[i] == POSITION_LINE)
            line.line = (int64_t)at[i];
        else if (r->positions[i] == POSITION_INSTR)
            l.address = at[i];
    }
    if (object && object != r->unknown)
        l.mapping = dict_mapping(r->dict, (struct mapping){.file = object,
                                                           .has_functions = true,
                                                           .has_filenames = true,
                                                           .has_line_numbers = true});
    return dict_location(r->dict, l, &line, 1);
}

/*
 * The summary counts all that the program did, and functions may have a little less (what ran
 * before the first call was seen). The rest is a sample without a stack, so that totals are right.
 */
static int add_unattributed(struct reader *r)
{
    int64_t values[CALLGRIND_EVENTS_MAX + 1] = {0};
    bool any = false, less = false;
    size_t n = r->graph.n_events;

    for (size_t i = 0; i < r->graph.selfs.len; i++) {
        for (size_t k = 0; k < n; k++)
            values[k] =
                (int64_t)((uint64_t)values[k] + (uint64_t)r->graph.self_costs.data[i * n + k]);
    }
    for (size_t k = 0; k < n; k++) {
        less |= r->summary[k] < values[k];
        any |= r->summary[k] != values[k];
        values[k] = (int64_t)((uint64_t)r->summary[k] - (uint64_t)values[k]);
    }
    if (!r->has_summary || !any)
        return 0;
    if (less) {
        profile_set_note(r->out, "callgrind: the functions cost more than the summary line says");
        return 0;
    }
    profile_set_note(r->out, "callgrind: the summary line has costs that belong to no function; "
                             "they are a sample without a stack");
    return profile_add(r->p, &(struct sample){.values = values}) ? 0 : spent(r);
}

static int end_part(struct reader *r)
{
    uint32_t attrs = 0;
    bool cut, cycles;

    if (!r->p)
        return 0;
    if (r->has_thread) {
        uint32_t id =
            dict_int_attribute(r->dict, dict_cstring(r->dict, "thread.id"), (int64_t)r->thread, 0);
        attrs = dict_attrs(r->dict, &id, 1);
    }
    if (!callgrind_graph_unfold(&r->graph, r->p, attrs, &cut, &cycles))
        return spent(r);
    if (r->graph.calls.len > 0)
        profile_set_note(r->out,
                         "callgrind: the file holds a call graph and no stacks: self costs, direct "
                         "callers and callees are exact, longer chains of callers are an estimate");
    if (cycles)
        profile_set_note(r->out, "callgrind: recursive calls are folded into the first one");
    if (cut)
        profile_set_note(r->out, "callgrind: chains of callers that carry almost no cost are cut "
                                 "to the direct caller");
    int result = add_unattributed(r);
    if (result < 0)
        return result;
    r->p->resource_attrs = r->pid_attrs;
    for (size_t i = 0; i < r->comments.len; i++)
        vec_push(r->budget, &r->p->comments, r->comments.data[i]);
    callgrind_graph_done(&r->graph);
    r->graph = (struct callgrind_graph){.dict = r->dict, .budget = r->budget};
    r->p = NULL;
    r->has_summary = r->in_body = r->has_thread = false;
    r->function = r->called = IDSET_NONE;
    r->is_call = r->is_jump = false;
    vec_clear(&r->comments);
    return 0;
}

/* "Time_(10ns)", "cpu(ms)" and "Ir" become a type, a unit and a scale. */
static int64_t read_event(struct bytes word, struct bytes *ret_type, const char **ret_unit)
{
    static const struct {
        const char *text, *unit;
        int64_t scale;
    } units[] = {
        {"10ns", "nanoseconds", 10},
        {"ns", "nanoseconds", 1},
        {"us", "microseconds", 1},
        {"ms", "milliseconds", 1},
        {"s", "seconds", 1},
        {"nanoseconds", "nanoseconds", 1},
        {"bytes", "bytes", 1},
        {"B", "bytes", 1},
        {"microseconds", "microseconds", 1},
        {"milliseconds", "milliseconds", 1},
        {"count", "count", 1},
    };
    const uint8_t *open = bytes_find_byte(word, '(');

    *ret_type = word;
    *ret_unit = "count";
    if (!open || open == word.data || word.data[word.len - 1] != ')')
        return 1;
    struct bytes unit = {open + 1, (size_t)(word.data + word.len - open) - 2};
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (!bytes_are(unit, units[i].text))
            continue;
        size_t len = (size_t)(open - word.data);
        ret_type->len = len > 1 && word.data[len - 1] == '_' ? len - 1 : len;
        *ret_unit = units[i].unit;
        return units[i].scale;
    }
    return 1;
}

static int read_events(struct reader *r, struct bytes rest)
{
    size_t n = 0;

    if (r->p)
        return bad(r, "a second \"events:\" line in one part");
    r->p = profile_set_add(r->out);
    if (!r->p)
        return spent(r);
    for (struct bytes word; (word = next_word(&rest)).len > 0; n++) {
        if (n == CALLGRIND_EVENTS_MAX)
            return error_set(r->err, -EBADMSG, "callgrind at line %" PRIu64 ": more than %d events",
                             r->line_number, CALLGRIND_EVENTS_MAX);
        struct bytes type;
        const char *unit;
        r->scale[n] = read_event(word, &type, &unit);
        uint32_t column =
            profile_add_type(r->p, dict_string(r->dict, type), dict_cstring(r->dict, unit));
        if (budget_failed(r->budget))
            return spent(r);
        if (column != n)
            return bad(r, "an event is listed twice");
    }
    if (n == 0)
        return bad(r, "no event is listed");
    r->graph.n_events = n;
    r->p->default_type = r->p->types[0].type;
    if (profile_add_ctype(r->p, "calls", "count") != n && !budget_failed(r->budget))
        return bad(r, "an event is called \"calls\"");
    return 0;
}

static int read_positions(struct reader *r, struct bytes rest)
{
    r->n_positions = 0;
    for (struct bytes word; (word = next_word(&rest)).len > 0;) {
        if (r->n_positions == POSITIONS_MAX)
            return bad(r, "more than 4 positions");
        r->positions[r->n_positions++] = bytes_are(word, "line")    ? POSITION_LINE
                                         : bytes_are(word, "instr") ? POSITION_INSTR
                                         : bytes_are(word, "addr")  ? POSITION_INSTR
                                                                    : POSITION_OTHER;
    }
    return r->n_positions > 0 ? 0 : bad(r, "no position is listed");
}

static int read_summary(struct reader *r, struct bytes rest)
{
    size_t k = 0;

    if (!r->p)
        return 0; /* old files put it before the events; the functions know better anyway */
    int64_t values[CALLGRIND_EVENTS_MAX] = {0};
    for (struct bytes word; (word = next_word(&rest)).len > 0 && k < r->graph.n_events; k++) {
        if (!bytes_to_i64(word, &values[k]) ||
            __builtin_mul_overflow(values[k], r->scale[k], &values[k]))
            return bad(r, "the summary is not a list of numbers");
    }
    /* "summary" counts the whole program, "totals" only what was written. */
    if (!r->has_summary)
        memcpy(r->summary, values, sizeof(values));
    r->has_summary = true;
    return 0;
}

static void add_comment(struct reader *r, struct bytes line)
{
    if (r->comments.len < COMMENTS_MAX)
        vec_push(r->budget, &r->comments, dict_string(r->dict, bytes_trim(line)));
}

/* "key: value" lines. Those after a body begin the next part. */
static int read_header(struct reader *r, struct bytes key, struct bytes value, struct bytes line)
{
    if (bytes_are(key, "summary") || bytes_are(key, "totals"))
        return read_summary(r, value);
    if (r->in_body) {
        int result = end_part(r);
        if (result < 0)
            return result;
    }
    struct bytes text = bytes_trim(value);
    uint64_t number;
    if (bytes_are(key, "events"))
        return read_events(r, value);
    if (bytes_are(key, "positions"))
        return read_positions(r, text);
    if (bytes_are(key, "version") && bytes_to_u64(text, &number) && number > 1)
        return bad(r, "only version 1 of the format is known");
    if (bytes_are(key, "pid") && bytes_to_u64(text, &number) && number <= INT64_MAX) {
        uint32_t id =
            dict_int_attribute(r->dict, dict_cstring(r->dict, "process.pid"), (int64_t)number, 0);
        r->pid_attrs = dict_attrs(r->dict, &id, 1);
    } else if (bytes_are(key, "thread")) {
        r->has_thread = bytes_to_u64(text, &r->thread) && r->thread <= INT64_MAX;
    } else if (bytes_are(key, "creator")) {
        r->type = dict_cstring(r->dict, bytes_start_with(text, BYTES("xdebug")) ? "php" : "native");
        add_comment(r, line);
    } else if (bytes_are(key, "cmd") || bytes_are(key, "desc") || bytes_are(key, "part")) {
        add_comment(r, line);
    }
    return 0;
}

/* One position: absolute, "+n" and "-n" from the last one, or "*" for the same. */
static bool read_position(struct bytes word, uint64_t last, uint64_t *ret)
{
    uint64_t n;

    if (bytes_are(word, "*")) {
        *ret = last;
        return true;
    }
    if (word.len > 1 && (word.data[0] == '+' || word.data[0] == '-')) {
        if (!to_number(bytes_from(word, 1), &n))
            return false;
        *ret = word.data[0] == '+' ? last + n : last - n;
        return true;
    }
    return to_number(word, ret);
}

/* Positions may be left out at the end of a calls= or jump= line. */
static int read_positions_of(struct reader *r, struct bytes *rest, bool all, uint64_t *to)
{
    for (size_t i = 0; i < r->n_positions; i++) {
        struct bytes word = next_word(rest);
        if (word.len == 0 && !all)
            to[i] = r->at[i];
        else if (!read_position(word, r->at[i], &to[i]))
            return bad(r, "a position is not a number");
    }
    return 0;
}

static int read_costs(struct reader *r, struct bytes rest)
{
    size_t k = 0;

    for (struct bytes word; (word = next_word(&rest)).len > 0; k++) {
        if (k == r->graph.n_events)
            return bad(r, "more costs than events");
        if (bytes_are(word, "*"))
            continue; /* not callgrind's, but understood: the cost of the line before */
        struct bytes number = word.data[0] == '+' ? bytes_from(word, 1) : word;
        int64_t cost;
        if (!bytes_to_i64(number, &cost) || __builtin_mul_overflow(cost, r->scale[k], &r->costs[k]))
            return bad(r, "a cost is not a number");
    }
    for (; k < r->graph.n_events; k++)
        r->costs[k] = 0;
    return 0;
}

static int add_call(struct reader *r)
{
    const struct callgrind_function *caller = &r->graph.functions.data[r->function];
    const struct callgrind_function *callee = &r->graph.functions.data[r->called];
    struct callgrind_call c = {
        .caller = r->function,
        .callee = r->called,
        .site = location_at(r, caller->name, r->file, caller->object, r->at),
        .entry = location_at(r, callee->name, callee->file, callee->object, r->call_at),
        .count = r->call_count,
    };
    r->is_call = r->has_called_object = r->has_called_file = false;
    r->called = IDSET_NONE;
    return callgrind_graph_add_call(&r->graph, c, r->costs) ? 0 : spent(r);
}

static int read_cost_line(struct reader *r, struct bytes line)
{
    int result;

    if (!r->p)
        return bad(r, "costs before the \"events:\" line");
    r->in_body = true;
    if (r->is_jump) {
        /* The jump's own place, which is where we are. */
        r->is_jump = false;
        return 0;
    }
    if ((result = read_positions_of(r, &line, true, r->at)) < 0 ||
        (result = read_costs(r, line)) < 0)
        return result;
    if (r->function == IDSET_NONE)
        return bad(r, "costs before the first \"fn=\" line");
    if (r->is_call)
        return add_call(r);
    const struct callgrind_function *f = &r->graph.functions.data[r->function];
    struct callgrind_self s = {r->function, location_at(r, f->name, r->file, f->object, r->at)};
    return callgrind_graph_add_self(&r->graph, s, r->costs) ? 0 : spent(r);
}

static int read_calls(struct reader *r, struct bytes rest)
{
    struct bytes count = next_word(&rest);

    if (!r->p)
        return bad(r, "calls before the \"events:\" line");
    if (r->called == IDSET_NONE)
        return bad(r, "\"calls=\" without a \"cfn=\" line");
    if (!to_number(count, &r->call_count) || r->call_count > INT64_MAX)
        return bad(r, "the number of calls is not a number");
    r->is_call = true;
    return read_positions_of(r, &rest, false, r->call_at);
}

static int set_function(struct reader *r, struct bytes value, bool is_called)
{
    struct callgrind_function f = {.file = r->function_file, .object = r->object};

    if (is_called) {
        f.file = r->has_called_file ? r->called_file : r->file;
        f.object = r->has_called_object ? r->called_object : r->object;
    }
    int result = read_name(r, NAME_FUNCTION, value, &f.name);
    if (result < 0)
        return result;
    uint32_t id = callgrind_graph_function(&r->graph, f);
    if (id == IDSET_NONE)
        return spent(r);
    if (is_called) {
        r->called = id;
        return 0;
    }
    r->function = id;
    r->file = r->function_file;
    return 0;
}

/* "key=value" lines. */
static int read_assignment(struct reader *r, struct bytes key, struct bytes value)
{
    static const struct {
        const char *key;
        enum name_kind kind;
        size_t offset;
    } names[] = {
        {"fi", NAME_FILE, offsetof(struct reader, file)},
        {"fe", NAME_FILE, offsetof(struct reader, file)},
        {"ob", NAME_OBJECT, offsetof(struct reader, object)},
        {"cob", NAME_OBJECT, offsetof(struct reader, called_object)},
        {"cfi", NAME_FILE, offsetof(struct reader, called_file)},
        {"cfl", NAME_FILE, offsetof(struct reader, called_file)},
    };
    uint32_t ignored;

    r->in_body = true;
    value = bytes_trim(value);
    r->has_called_object |= bytes_are(key, "cob");
    r->has_called_file |= bytes_are(key, "cfi") || bytes_are(key, "cfl");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (bytes_are(key, names[i].key))
            return read_name(r, names[i].kind, value, (void *)((char *)r + names[i].offset));
    }
    if (bytes_are(key, "fl")) {
        int result = read_name(r, NAME_FILE, value, &r->function_file);
        r->file = r->function_file;
        return result;
    }
    if (bytes_are(key, "fn") || bytes_are(key, "cfn"))
        return set_function(r, value, key.len == 3);
    if (bytes_are(key, "calls"))
        return read_calls(r, value);
    if (bytes_are(key, "jump") || bytes_are(key, "jcnd")) {
        r->is_jump = true;
        return 0;
    }
    /* Where a jump goes: not kept, but a name may be given here first. */
    if (bytes_are(key, "jfi"))
        return read_name(r, NAME_FILE, value, &ignored);
    if (bytes_are(key, "jfn"))
        return read_name(r, NAME_FUNCTION, value, &ignored);
    return bad(r, "not a line of this format");
}

static bool is_cost_line(struct bytes line)
{
    uint8_t c = line.data[0];
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '*';
}

static int read_line(struct reader *r, struct bytes line)
{
    struct bytes text = bytes_trim(line);

    if (text.len == 0 || text.data[0] == '#')
        return 0;
    if (is_cost_line(text))
        return read_cost_line(r, text);
    size_t n = 0;
    while (n < text.len && ((text.data[n] | 0x20) >= 'a' && (text.data[n] | 0x20) <= 'z'))
        n++;
    if (n > 0 && n < text.len && text.data[n] == '=')
        return read_assignment(r, bytes_head(text, n), bytes_from(text, n + 1));
    if (n > 0 && n < text.len && text.data[n] == ':')
        return read_header(r, bytes_head(text, n), bytes_from(text, n + 1), text);
    return bad(r, "not a line of this format");
}

static int read_all(struct reader *r, struct bytes rest)
{
    bool any = false;

    for (struct bytes line; bytes_next_line(&rest, &line);) {
        r->line_number++;
        int result = read_line(r, line);
        if (result < 0)
            return result;
        any |= r->p != NULL;
        if (budget_failed(r->budget))
            return spent(r);
    }
    if (!any)
        return bad(r, "the file ends without an \"events:\" line");
    return end_part(r);
}

static int decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct bytes content;
    int result = input_all(in, &content, err);
    if (result < 0)
        return error_prefix(err, result, "callgrind");

    struct reader r = {
        .out = out,
        .dict = out->dict,
        .budget = out->budget,
        .err = err,
        .graph = {.dict = out->dict, .budget = out->budget},
        .positions = {POSITION_LINE},
        .n_positions = 1,
        .function = IDSET_NONE,
        .called = IDSET_NONE,
    };
    r.type = dict_cstring(r.dict, "native");
    r.unknown = dict_cstring(r.dict, "???");
    result = read_all(&r, content);
    callgrind_graph_done(&r.graph);
    vec_done(r.budget, &r.comments);
    for (size_t i = 0; i < NAME_KINDS; i++) {
        vec_done(r.budget, &r.names[i].ids);
        vec_done(r.budget, &r.names[i].strings);
        idset_done(r.budget, &r.names[i].index);
    }
    return result;
}

/* The magic comment is optional; then the header, whose "events:" line no other format has. */
static int sniff(struct bytes head)
{
    static const char *const keys[] = {"version:", "creator:", "pid:",   "cmd:",    "part:",
                                       "desc:",    "events:",  "event:", "thread:", "positions:"};
    struct bytes line;

    if (bytes_start_with(head, BYTES("# callgrind format")))
        return 100;
    while (bytes_next_line(&head, &line)) {
        bool known = false;
        if (bytes_start_with(line, BYTES("events:")))
            return 90;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            known |= bytes_start_with(line, bytes_of(keys[i]));
        line = bytes_trim(line);
        if (!known && line.len > 0 && line.data[0] != '#')
            return 0;
    }
    return 0;
}

const struct format format_callgrind = {
    .name = "callgrind",
    .title = "callgrind",
    .extension = ".callgrind",
    .sniff = sniff,
    .decode = decode,
    .encode = callgrind_encode,
};
