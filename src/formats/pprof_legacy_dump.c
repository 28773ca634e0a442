/*
 * Dumps of all goroutines, as Go prints them for debug=2, on SIGQUIT and in a panic: one sample per
 * goroutine. What is around them (the panic's text, registers) is not a profile and is skipped.
 *
 *     goroutine 25 [chan receive, 5 minutes]:
 *     main.worker({0x5275a0, 0xc000014060})
 *             /src/main.go:233 +0x1f
 *     created by main.main in goroutine 1
 *             /src/main.go:232 +0x3bb
 */
#include <errno.h>

#include "formats/pprof_legacy_internal.h"

#define SNIFFED_LINES 200

struct goroutine {
    int64_t id;
    struct bytes state;
    int64_t minutes; /* waited so far; 0 is less than one */
    bool is_locked;  /* to its thread */
};

/* "goroutine N [state, M minutes, locked to thread]:", newer ones with more words before "[". */
static bool take_goroutine(struct bytes line, struct goroutine *ret)
{
    struct goroutine g = {0};

    line = bytes_trim(line);
    if (!take_text(&line, "goroutine ") || !take_i64(&line, &g.id) || g.id < 0)
        return false;
    const uint8_t *open = bytes_find_byte(line, '[');
    if (!open || line.len < 2 || !bytes_are(bytes_from(line, line.len - 2), "]:"))
        return false;
    struct bytes inner = {open + 1, (size_t)(line.data + line.len - 2 - (open + 1))};
    for (size_t part = 0; inner.len > 0; part++) {
        const uint8_t *comma = bytes_find_byte(inner, ',');
        size_t n = comma ? (size_t)(comma - inner.data) : inner.len;
        struct bytes word = bytes_trim(bytes_head(inner, n));
        int64_t minutes;
        if (part == 0)
            g.state = word;
        else if (bytes_are(word, "locked to thread"))
            g.is_locked = true;
        else if (take_i64(&word, &minutes) && take_text(&word, " minutes"))
            g.minutes = minutes;
        inner = bytes_from(inner, n + 1);
    }
    *ret = g;
    return true;
}

int legacy_sniff_dump(struct bytes head)
{
    struct goroutine g;

    for (int i = 0; i < SNIFFED_LINES; i++) {
        struct bytes line;
        if (!bytes_next_line(&head, &line))
            return 0;
        if (take_goroutine(line, &g))
            return 70;
    }
    return 0;
}

/* The name of "package.(*Type).Method(0x1, {0x2, 0x3})": all before the arguments. */
static struct bytes function_name(struct bytes call)
{
    size_t depth = 0;

    if (call.len == 0 || call.data[call.len - 1] != ')')
        return call;
    for (size_t i = call.len; i-- > 0;) {
        depth += call.data[i] == ')';
        if (call.data[i] == '(' && --depth == 0)
            return bytes_head(call, i);
    }
    return call;
}

/* "\t/path/file.go:123 +0x1f" */
static bool take_position(struct bytes line, struct bytes *ret_file, int64_t *ret_line)
{
    if (line.len == 0 || line.data[0] != '\t')
        return false;
    line = bytes_trim(line);
    const uint8_t *colon = line.len ? memrchr(line.data, ':', line.len) : NULL;
    if (!colon)
        return false;
    struct bytes after = bytes_from(line, (size_t)(colon - line.data) + 1);
    *ret_file = bytes_head(line, (size_t)(colon - line.data));
    return take_i64(&after, ret_line);
}

struct dump {
    struct legacy *l;
    uint32_t goroutine_key, state_key, minutes_key, locked_key, creator_key;
    uint32_t minutes_unit, go_type;
    VEC(uint32_t) stack; /* locations, leaf first */
    VEC(uint32_t) attrs;
    bool has_elided;
};

/* The function of a frame and where it was, on the next line if it is there. */
static void read_frame(struct dump *u, struct bytes call)
{
    struct legacy *l = u->l;
    struct bytes rest = l->rest, position, file = {0};
    struct line line = {0};

    if (bytes_next_line(&rest, &position) && take_position(position, &file, &line.line))
        (void)legacy_next_line(l, &position);
    line.function = dict_function(
        l->dict, (struct function){.name = dict_string(l->dict, function_name(call)),
                                   .system_name = dict_string(l->dict, function_name(call)),
                                   .file = dict_string(l->dict, file)});
    uint32_t location = dict_location(l->dict, (struct location){.type = u->go_type}, &line, 1);
    vec_push(l->budget, &u->stack, location);
}

/* "created by NAME in goroutine N": who started it is not on its stack. */
static void read_creator(struct dump *u, struct bytes name)
{
    const uint8_t *in = bytes_find(name, BYTES(" in goroutine "));
    uint32_t text;

    if (in)
        name = bytes_head(name, (size_t)(in - name.data));
    text = dict_string(u->l->dict, bytes_trim(name));
    vec_push(u->l->budget, &u->attrs, dict_string_attribute(u->l->dict, u->creator_key, text));
}

static void set_attrs(struct dump *u, const struct goroutine *g)
{
    struct dict *d = u->l->dict;

    vec_clear(&u->attrs);
    vec_push(u->l->budget, &u->attrs, dict_int_attribute(d, u->goroutine_key, g->id, 0));
    vec_push(u->l->budget, &u->attrs,
             dict_string_attribute(d, u->state_key, dict_string(d, g->state)));
    if (g->minutes > 0)
        vec_push(u->l->budget, &u->attrs,
                 dict_int_attribute(d, u->minutes_key, g->minutes, u->minutes_unit));
    if (g->is_locked)
        vec_push(u->l->budget, &u->attrs,
                 dict_string_attribute(d, u->locked_key, dict_cstring(d, "thread")));
}

/* The frames below a goroutine's line, up to an empty line. */
static void read_goroutine(struct dump *u, const struct goroutine *g)
{
    struct legacy *l = u->l;
    int64_t one = 1;

    vec_clear(&u->stack);
    set_attrs(u, g);
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        line = bytes_trim(line);
        if (line.len == 0)
            break;
        if (take_text(&line, "created by "))
            read_creator(u, line);
        else if (bytes_start_with(line, BYTES("...")) && bytes_find(line, BYTES("elided")))
            u->has_elided = true;
        else if (bytes_find_byte(line, '('))
            read_frame(u, line);
    }
    profile_add(l->profile,
                &(struct sample){.node = dict_stack(l->dict, u->stack.data, u->stack.len),
                                 .attrs = dict_attrs(l->dict, u->attrs.data, u->attrs.len),
                                 .values = &one});
}

int legacy_read_dump(struct legacy *l)
{
    struct dict *d = l->dict;
    struct dump u = {.l = l,
                     .goroutine_key = dict_cstring(d, "goroutine"),
                     .state_key = dict_cstring(d, "state"),
                     .minutes_key = dict_cstring(d, "waiting"),
                     .locked_key = dict_cstring(d, "locked_to"),
                     .creator_key = dict_cstring(d, "created_by"),
                     .minutes_unit = dict_cstring(d, "minutes"),
                     .go_type = dict_cstring(d, "go")};
    struct goroutine g;

    profile_add_ctype(l->profile, "goroutine", "count");
    l->profile->period_type = l->profile->types[0];
    l->profile->period = 1;
    for (struct bytes line; legacy_next_line(l, &line) && !budget_failed(l->budget);) {
        if (take_goroutine(line, &g))
            read_goroutine(&u, &g);
    }
    if (u.has_elided)
        profile_set_note(l->out, "some goroutines have more frames than the dump shows");
    vec_done(l->budget, &u.stack);
    vec_done(l->budget, &u.attrs);
    if (l->profile->n_samples == 0 && !budget_failed(l->budget))
        return legacy_fail(l, "there is no profile and no goroutine in it");
    return 0;
}
