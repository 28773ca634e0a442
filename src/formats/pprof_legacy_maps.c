/*
 * Memory maps at the end of older profiles: lines of /proc/PID/maps, or the briefer
 * "start-limit file (@offset) build-id" of other tools, with "name=value" lines between them that
 * define $name for those that follow.
 */
#include "formats/pprof_legacy_internal.h"

#define VARIABLES_MAX 16
#define EXPANDED_MAX  ((size_t)64 << 10) /* bytes of a line with its variables replaced */

struct variable {
    struct bytes name, value;
};

struct map_reader {
    struct legacy *l;
    struct variable variables[VARIABLES_MAX];
    size_t n_variables;
    struct buf expanded;
};

bool legacy_is_map_start(struct bytes line)
{
    return bytes_find(line, BYTES("--- Memory map: ---")) ||
           bytes_find(line, BYTES("MAPPED_LIBRARIES:"));
}

void legacy_skip_to_maps(struct legacy *l)
{
    struct bytes line;

    while (legacy_next_line(l, &line)) {
        if (legacy_is_map_start(line)) {
            legacy_read_maps(l);
            return;
        }
    }
}

/* Without what a logger wrote in front: anything, ":", digits, "] ". */
static struct bytes without_log_prefix(struct bytes line)
{
    size_t at = 0;

    while (at < line.len && line.data[at] != ']' && line.data[at] != '[')
        at++;
    if (at + 1 >= line.len || line.data[at] != ']' || !is_space(line.data[at + 1]))
        return line;
    size_t digits = at;
    while (digits > 0 && is_digit(line.data[digits - 1]))
        digits--;
    if (digits == at || digits < 2 || line.data[digits - 1] != ':')
        return line;
    return bytes_from(line, at + 2);
}

static const struct variable *find_variable(const struct map_reader *m, struct bytes text)
{
    for (size_t i = 0; i < m->n_variables; i++) {
        if (bytes_start_with(text, m->variables[i].name))
            return &m->variables[i];
    }
    return NULL;
}

/* A line with $names replaced. */
static struct bytes expand(struct map_reader *m, struct bytes line)
{
    if (m->n_variables == 0 || !bytes_find_byte(line, '$'))
        return line;
    buf_clear(&m->expanded);
    for (size_t i = 0; i < line.len && m->expanded.len < EXPANDED_MAX; i++) {
        const struct variable *v = NULL;
        if (line.data[i] == '$')
            v = find_variable(m, bytes_from(line, i + 1));
        if (v) {
            buf_add_bytes(&m->expanded, v->value);
            i += v->name.len;
        } else {
            buf_add_byte(&m->expanded, line.data[i]);
        }
    }
    return buf_bytes(&m->expanded);
}

static void add_variable(struct map_reader *m, struct bytes line)
{
    const uint8_t *equals = bytes_find_byte(line, '=');

    if (!equals || m->n_variables == VARIABLES_MAX)
        return;
    size_t at = (size_t)(equals - line.data);
    struct variable v = {bytes_trim(bytes_head(line, at)), bytes_trim(bytes_from(line, at + 1))};
    if (v.name.len > 0)
        m->variables[m->n_variables++] = v;
}

/* What follows the addresses of a line. */
struct map_details {
    struct bytes perms, file, build_id;
    uint64_t offset;
};

static bool is_perms(struct bytes word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (!bytes_find_byte(BYTES("-rwxp"), word.data[i]))
            return false;
    }
    return word.len > 0;
}

/* " [perms] [offset] major:minor inode [file]", as the kernel writes it. */
static bool take_proc_details(struct bytes s, struct map_details *ret)
{
    struct map_details d = {0};
    struct bytes word, rest = s;
    uint64_t number;

    if (take_spaces(&rest) && take_word(&rest, &word) && is_perms(word)) {
        d.perms = word;
        s = rest;
    }
    rest = s;
    if (take_spaces(&rest) && take_hex(&rest, &d.offset) && rest.len > 0 && is_space(rest.data[0]))
        s = rest;
    else
        d.offset = 0;
    if (!take_spaces(&s) || !take_hex(&s, &number) || !take_text(&s, ":") ||
        !take_hex(&s, &number) || !take_spaces(&s) || !take_u64(&s, &number))
        return false;
    if (take_spaces(&s))
        (void)take_word(&s, &d.file);
    *ret = d;
    return true;
}

/* " [perms] [file] [(@offset)] [build id]". */
static void take_brief_details(struct bytes s, struct map_details *ret)
{
    struct map_details d = {0};
    struct bytes word, rest = s;

    if (take_spaces(&rest) && take_word(&rest, &word) && is_perms(word)) {
        d.perms = word;
        s = rest;
    }
    if (take_spaces(&s))
        (void)take_word(&s, &d.file);
    rest = s;
    uint64_t offset;
    if (take_spaces(&rest) && take_text(&rest, "(@") && take_hex(&rest, &offset) &&
        take_text(&rest, ")")) {
        d.offset = offset;
        s = rest;
    }
    if (take_spaces(&s)) {
        size_t n = 0;
        while (n < s.len && bytes_find_byte(BYTES("0123456789abcdefABCDEF"), s.data[n]))
            n++;
        d.build_id = bytes_head(s, n);
    }
    *ret = d;
}

/* False when the line is not a mapping at all. */
static bool read_map_line(struct map_reader *m, struct bytes line)
{
    struct mapping map = {0};
    struct map_details d;

    (void)take_spaces(&line);
    if (!take_hex(&line, &map.start))
        return false;
    if (!take_text(&line, "-") && !(line.len > 0 && is_space(line.data[0])))
        return false;
    (void)take_spaces(&line);
    if (!take_hex(&line, &map.limit))
        return false;
    (void)take_text(&line, ":");
    if (!take_proc_details(line, &d))
        take_brief_details(line, &d);
    if (d.perms.len > 0 && !bytes_find_byte(d.perms, 'x'))
        return true; /* nothing runs there */
    map.offset = d.offset;
    map.file = dict_string(m->l->dict, d.file);
    map.build_id = dict_string(m->l->dict, d.build_id);
    vec_push(m->l->budget, &m->l->maps, map);
    return true;
}

void legacy_read_maps(struct legacy *l)
{
    struct map_reader m = {.l = l};

    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        line = without_log_prefix(line);
        if (!read_map_line(&m, expand(&m, line)))
            add_variable(&m, line);
    }
    buf_done(&m.expanded);
}
