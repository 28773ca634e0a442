#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "symbols/binary.h"
#include "symbols/demangle.h"
#include "symbols/symbolizer.h"
#include "wire/json.h"

/* `vesta symbolize BINARY ADDRESS...`: what the code at these addresses is called. */

struct request {
    struct lookup *lookups; /* ascending */
    size_t n;
    size_t *order; /* the place in `lookups` of the i-th address that was asked for */
};

static void request_done(struct request *r)
{
    free(r->lookups);
    free(r->order);
}

static int compare_lookups(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static int parse_addresses(const struct options *o, struct request *ret, struct error *err)
{
    size_t n = o->n_args - 1;

    *ret = (struct request){.lookups = calloc(n + 1, sizeof(struct lookup)),
                            .order = calloc(n + 1, sizeof(size_t)),
                            .n = n};
    if (!ret->lookups || !ret->order)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        if (!bytes_to_hex(bytes_of(o->args[i + 1]), &ret->lookups[i].va))
            return error_set(err, -EINVAL, "\"%s\" is not an address in hex", o->args[i + 1]);
    }
    if (n > 1)
        qsort(ret->lookups, n, sizeof(struct lookup), compare_lookups);
    for (size_t i = 0; i < n; i++) {
        struct lookup key = {0};
        bytes_to_hex(bytes_of(o->args[i + 1]), &key.va);
        const struct lookup *at =
            bsearch(&key, ret->lookups, n, sizeof(struct lookup), compare_lookups);
        ret->order[i] = (size_t)(at - ret->lookups);
    }
    return 0;
}

static void print_text(const struct lookup *l, enum demangle_mode mode, struct buf *out)
{
    struct buf name = {0};

    if (!l->innermost)
        buf_addf(out, "0x%jx  ??\n", (uintmax_t)l->va);
    for (const struct code_frame *f = l->innermost; f; f = f->outer) {
        demangle(f->name ? f->name : "??", mode, &name);
        buf_addf(out, "0x%jx  ", (uintmax_t)l->va);
        buf_add_bytes(out, buf_bytes(&name));
        if (f->file)
            buf_addf(out, "  %s:%u:%u", f->file, f->line, f->column);
        buf_add_str(out, f->outer ? "  (inlined)\n" : "\n");
    }
    buf_done(&name);
}

static void print_json(const struct lookup *l, enum demangle_mode mode, struct json_writer *w)
{
    struct buf name = {0};
    char address[24];

    snprintf(address, sizeof(address), "0x%jx", (uintmax_t)l->va);
    json_begin_object(w);
    json_key(w, "address");
    json_cstring(w, address);
    json_key(w, "frames");
    json_begin_array(w);
    for (const struct code_frame *f = l->innermost; f; f = f->outer) {
        demangle(f->name ? f->name : "", mode, &name);
        json_begin_object(w);
        json_key(w, "function");
        json_string(w, buf_bytes(&name));
        json_key(w, "system_name");
        json_cstring(w, f->name ? f->name : "");
        json_key(w, "file");
        json_cstring(w, f->file ? f->file : "");
        json_key(w, "line");
        json_u64(w, f->line);
        json_key(w, "column");
        json_u64(w, f->column);
        json_key(w, "start_line");
        json_u64(w, f->start_line);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    buf_done(&name);
}

static void print_all(const struct request *r, const struct options *o, enum demangle_mode mode,
                      struct buf *out)
{
    struct json_writer w = {.out = out};

    if (o->json)
        json_begin_array(&w);
    for (size_t i = 0; i < r->n; i++) {
        const struct lookup *l = &r->lookups[r->order[i]];
        if (o->json)
            print_json(l, mode, &w);
        else
            print_text(l, mode, out);
    }
    if (o->json) {
        json_end_array(&w);
        buf_add_byte(out, '\n');
    }
}

int cmd_symbolize(const struct command *self, struct options *o)
{
    CLEANUP(request_done) struct request request = {0};
    CLEANUP(binary_closep) struct binary *b = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct symbolizer_options symbols = {0};
    struct error err;

    if (o->n_args < 2)
        return command_usage(self, "a binary and at least one address are needed");
    int r = symbolizer_options_parse(&symbols, o->symbolize, &err);
    if (r >= 0)
        r = parse_addresses(o, &request, &err);
    if (r < 0)
        return command_fail(r, &err);
    struct binary_options options = {.max_memory = o->max_memory,
                                     .debug_dirs = o->binary_path ? &o->binary_path : NULL,
                                     .n_debug_dirs = o->binary_path ? 1 : 0};
    r = binary_open(o->args[0], &options, &b, &err);
    if (r < 0)
        return command_fail(r == -EINVAL ? -EIO : r, &err);
    binary_lookup(b, request.lookups, request.n);
    if (binary_notes(b)[0]) {
        fprintf(stderr, "vesta: %s: ", o->args[0]);
        terminal_say(bytes_of(binary_notes(b)));
    }
    print_all(&request, o, symbols.demangle, &out);
    return command_write(o, buf_bytes(&out), false);
}
