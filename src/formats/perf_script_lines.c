#include "formats/perf_script_lines.h"

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Takes the next word off *rest; an empty one at the end. */
static struct bytes next_word(struct bytes *rest)
{
    size_t from = 0, to;

    while (from < rest->len && is_blank(rest->data[from]))
        from++;
    for (to = from; to < rest->len && !is_blank(rest->data[to]); to++)
        continue;
    struct bytes word = bytes_head(bytes_from(*rest, from), to - from);
    *rest = bytes_from(*rest, to);
    return word;
}

static bool is_number(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.data[i]))
            return false;
    }
    return s.len > 0;
}

/* "12", "-1", "12/34". */
static bool parse_ids(struct bytes s, int64_t *ret_pid, int64_t *ret_tid)
{
    const uint8_t *slash = bytes_find_byte(s, '/');
    int64_t pid = -1, tid;

    if (slash && !bytes_to_i64(bytes_head(s, (size_t)(slash - s.data)), &pid))
        return false;
    if (!bytes_to_i64(slash ? bytes_from(s, (size_t)(slash - s.data) + 1) : s, &tid))
        return false;
    *ret_pid = pid;
    *ret_tid = tid;
    return true;
}

/* "[012]" */
static bool parse_cpu(struct bytes s, int64_t *ret)
{
    if (s.len < 3 || s.data[0] != '[' || s.data[s.len - 1] != ']')
        return false;
    return bytes_to_i64(bytes_head(bytes_from(s, 1), s.len - 2), ret);
}

/* "123.456789:" with any number of digits behind the point. */
static bool parse_time(struct bytes s, uint64_t *ret)
{
    uint64_t seconds, ns = 0;

    if (s.len < 4 || s.data[s.len - 1] != ':')
        return false;
    s.len--;
    const uint8_t *point = bytes_find_byte(s, '.');
    if (!point || !bytes_to_u64(bytes_head(s, (size_t)(point - s.data)), &seconds))
        return false;
    struct bytes fraction = bytes_from(s, (size_t)(point - s.data) + 1);
    if (!is_number(fraction))
        return false;
    for (size_t i = 0; i < 9; i++)
        ns = ns * 10 + (i < fraction.len ? fraction.data[i] - (uint64_t)'0' : 0);
    return !__builtin_mul_overflow(seconds, 1000000000u, &seconds) &&
           !__builtin_add_overflow(seconds, ns, ret);
}

static bool is_event(struct bytes s)
{
    return s.len > 1 && s.data[s.len - 1] == ':' && !is_digit(s.data[0]);
}

static struct bytes span(const uint8_t *from, const uint8_t *to)
{
    return (struct bytes){from, (size_t)(to - from)};
}

/* "comm pid", where a comm may have blanks and digits: the last word is the pid. */
static void parse_who(struct bytes who, struct perf_header *h)
{
    struct bytes s = bytes_trim(who);
    size_t at = s.len;

    while (at > 0 && !is_blank(s.data[at - 1]))
        at--;
    if (at > 0 && parse_ids(bytes_from(s, at), &h->pid, &h->tid))
        s = bytes_trim(bytes_head(s, at));
    h->comm = s;
}

/* What follows the time, or the pid where there is neither time nor cpu: "period event: rest". */
static void parse_event(struct bytes rest, struct perf_header *h)
{
    struct bytes after = rest, word = next_word(&after);

    if (is_number(word) && bytes_to_i64(word, &h->period)) {
        h->has_period = true;
        rest = after;
        word = next_word(&after);
    }
    if (is_event(word)) {
        h->event = bytes_head(word, word.len - 1);
        rest = after;
    }
    h->rest = bytes_trim(rest);
}

/* A line with a cpu or a time: whatever is in front of the first of them is comm and pid. */
static bool parse_anchored(struct bytes line, struct perf_header *h)
{
    struct bytes rest = line, word;

    next_word(&rest); /* the comm, at least its first word */
    while ((word = next_word(&rest)).len > 0) {
        bool is_cpu = parse_cpu(word, &h->cpu);
        if (!is_cpu && !parse_time(word, &h->time_ns))
            continue;
        parse_who(span(line.data, word.data), h);
        struct bytes after = rest;
        h->has_time = !is_cpu || parse_time(next_word(&after), &h->time_ns);
        if (is_cpu && h->tid < 0 && !h->has_time) {
            h->cpu = -1; /* "[1]" of a comm: nothing around it is a column */
            continue;
        }
        h->who = span(line.data, is_cpu ? word.data + word.len : word.data);
        parse_event(is_cpu && h->has_time ? after : rest, h);
        return true;
    }
    return false;
}

/* "comm pid event:" or "comm pid period event:". */
static bool parse_unanchored(struct bytes line, struct perf_header *h)
{
    struct bytes rest = line, word;

    next_word(&rest);
    while ((word = next_word(&rest)).len > 0) {
        if (!parse_ids(word, &h->pid, &h->tid))
            continue;
        h->comm = bytes_trim(span(line.data, word.data));
        h->who = span(line.data, word.data + word.len);
        parse_event(rest, h);
        if (h->event.len > 0)
            return true;
        h->has_period = false;
    }
    return false;
}

bool perf_parse_header(struct bytes line, struct perf_header *ret)
{
    struct perf_header h = {.pid = -1, .tid = -1, .cpu = -1};
    struct perf_header again = h;

    if (parse_anchored(line, &h)) {
        *ret = h;
        return true;
    }
    if (parse_unanchored(line, &again)) {
        *ret = again;
        return true;
    }
    return false;
}

/* Takes " (dso)" off the end of *s. A symbol may hold " (" too, so the dso must look like one. */
static void take_dso(struct bytes *s, struct bytes *ret)
{
    if (s->len < 2 || s->data[s->len - 1] != ')')
        return;
    size_t plain = s->len;
    for (size_t i = s->len - 1; i-- > 0;) {
        if (s->data[i] != '(' || (i > 0 && !is_blank(s->data[i - 1])))
            continue;
        uint8_t c = s->data[i + 1];
        bool is_path = c == '/' || c == '[';
        if (is_path || plain == s->len)
            plain = i;
        if (is_path)
            break;
    }
    if (plain == s->len)
        return;
    struct bytes dso = bytes_head(bytes_from(*s, plain + 1), s->len - plain - 2);
    bool is_path = dso.len > 0 && (dso.data[0] == '/' || dso.data[0] == '[');
    if (!is_path && bytes_find_byte(dso, ')'))
        return; /* the end of a C++ signature */
    *ret = dso;
    *s = bytes_trim(bytes_head(*s, plain));
}

static void drop_offset(struct bytes *symbol)
{
    uint64_t offset;

    for (size_t i = symbol->len; i-- > 1;) {
        if (symbol->data[i] != '+')
            continue;
        struct bytes tail = bytes_from(*symbol, i + 1);
        if (bytes_start_with(tail, BYTES("0x")) && bytes_to_hex(tail, &offset))
            symbol->len = i;
        return;
    }
}

bool perf_parse_frame(struct bytes line, struct perf_frame *ret)
{
    struct bytes rest = line;
    struct bytes address = next_word(&rest);
    struct perf_frame f = {0};

    if (!bytes_to_hex(address, &f.address))
        return false;
    f.symbol = bytes_trim(rest);
    take_dso(&f.symbol, &f.dso);
    drop_offset(&f.symbol);
    f.is_inlined = bytes_are(f.dso, "inlined");
    if (f.is_inlined || bytes_are(f.dso, "[unknown]"))
        f.dso.len = 0;
    if (bytes_are(f.symbol, "[unknown]"))
        f.symbol.len = 0;
    *ret = f;
    return true;
}

bool perf_parse_source(struct bytes line, struct bytes *ret_file, int64_t *ret_line)
{
    struct bytes s = bytes_trim(line);
    size_t at = s.len;
    int64_t n;

    while (at > 0 && is_digit(s.data[at - 1]))
        at--;
    if (at < 2 || s.data[at - 1] != ':' || !bytes_to_i64(bytes_from(s, at), &n))
        return false;
    *ret_file = bytes_head(s, at - 1);
    *ret_line = n;
    return true;
}
