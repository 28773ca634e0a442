/*
 * GHC's profile in JSON (+RTS -pj): a tree of cost centres, each with the ticks, bytes and entries
 * of its own.
 */
#include <errno.h>

#include "base/hash.h"
#include "formats/formats.h"
#include "wire/json.h"

struct centre {
    uint64_t id;
    uint32_t location;
};

enum { COLUMN_SAMPLES, COLUMN_CPU, COLUMN_ENTRIES, COLUMN_ALLOC, N_COLUMNS };

struct reader {
    struct profile *profile;
    struct dict *dict;
    struct budget *budget;
    struct json_reader *json;
    VEC(struct centre) centres;
    struct idset index;
    int64_t tick_us;
    bool has_tree;
};

static int ghc_prof_sniff(struct bytes head)
{
    struct bytes start = bytes_trim(head);
    bool looks_right = start.len > 0 && start.data[0] == '{' &&
                       bytes_find(head, BYTES("\"rts_arguments\"")) &&
                       bytes_find(head, BYTES("\"cost_centres\""));
    return looks_right ? 95 : 0;
}

static uint64_t id_hash(uint64_t id)
{
    return hash_mix(id, 5);
}

/* "src/Main.hs:52:9-31" or "src/Main.hs:(56,1)-(57,42)": the file and where it begins. */
static void read_place(struct dict *d, struct bytes place, struct function *f)
{
    const uint8_t *colon = bytes_find_byte(place, ':');
    if (!colon || (place.len > 0 && place.data[0] == '<'))
        return;
    f->file = dict_string(d, bytes_head(place, (size_t)(colon - place.data)));
    struct bytes rest = bytes_from(place, (size_t)(colon - place.data) + 1);
    if (rest.len > 0 && rest.data[0] == '(')
        rest = bytes_from(rest, 1);
    size_t n = 0;
    while (n < rest.len && rest.data[n] >= '0' && rest.data[n] <= '9')
        n++;
    bytes_to_i64(bytes_head(rest, n), &f->start_line);
}

static void add_centre(struct reader *r, uint64_t id, uint32_t label, uint32_t module,
                       struct function f)
{
    struct dict *d = r->dict;
    CLEANUP(buf_done) struct buf name = {0};

    buf_add_bytes(&name, dict_text(d, module));
    if (module)
        buf_add_byte(&name, '.');
    buf_add_bytes(&name, dict_text(d, label));
    f.name = dict_string(d, buf_bytes(&name));
    struct line line = {.function = dict_function(d, f), .line = f.start_line};
    uint32_t location = dict_location(d, (struct location){0}, &line, 1);
    uint32_t at = (uint32_t)r->centres.len;
    uint32_t known = IDSET_FIND(&r->index, id_hash(id), i, r->centres.data[i].id == id);
    if (known != IDSET_NONE)
        json_fail(r->json, "two cost centres have id %llu", (unsigned long long)id);
    else if (vec_push(r->budget, &r->centres, (struct centre){id, location}))
        idset_add(r->budget, &r->index, id_hash(id), at);
}

static void read_centre(struct reader *r)
{
    struct json_reader *j = r->json;
    uint64_t id = 0;
    uint32_t label = 0, module = 0;
    struct function f = {0};

    json_enter_object(j);
    for (struct bytes key; json_next_key(j, &key);) {
        if (bytes_are(key, "id"))
            id = json_get_u64(j);
        else if (bytes_are(key, "label"))
            label = dict_string(r->dict, json_get_string_or_empty(j));
        else if (bytes_are(key, "module"))
            module = dict_string(r->dict, json_get_string_or_empty(j));
        else if (bytes_are(key, "src_loc"))
            read_place(r->dict, json_get_string_or_empty(j), &f);
        else
            json_skip(j);
    }
    if (!json_failed(j))
        add_centre(r, id, label, module, f);
}

static uint32_t centre_location(struct reader *r, uint64_t id)
{
    uint32_t at = IDSET_FIND(&r->index, id_hash(id), i, r->centres.data[i].id == id);

    if (at != IDSET_NONE)
        return r->centres.data[at].location;
    json_fail(r->json, "there is no cost centre %llu in front of the tree", (unsigned long long)id);
    return 0;
}

/* A node of the tree and those below it. The JSON reader limits how deep this goes. */
static void read_tree(struct reader *r, uint32_t parent)
{
    struct json_reader *j = r->json;
    int64_t values[N_COLUMNS] = {0};
    uint32_t node = 0;

    json_enter_object(j);
    for (struct bytes key; json_next_key(j, &key);) {
        if (bytes_are(key, "id")) {
            node = dict_node(r->dict, parent, centre_location(r, json_get_u64(j)));
        } else if (bytes_are(key, "entries")) {
            values[COLUMN_ENTRIES] = json_get_i64(j);
        } else if (bytes_are(key, "alloc")) {
            values[COLUMN_ALLOC] = json_get_i64(j);
        } else if (bytes_are(key, "ticks")) {
            values[COLUMN_SAMPLES] = json_get_i64(j);
        } else if (bytes_are(key, "children")) {
            if (node == 0)
                json_fail(j, "children in front of the id of their cost centre");
            json_enter_array(j);
            while (json_next_element(j) && !budget_failed(r->budget))
                read_tree(r, node);
        } else {
            json_skip(j);
        }
    }
    if (__builtin_mul_overflow(values[COLUMN_SAMPLES], r->tick_us * 1000, &values[COLUMN_CPU]))
        json_fail(j, "the time of a cost centre is too large");
    bool is_empty = !values[COLUMN_SAMPLES] && !values[COLUMN_ALLOC] && !values[COLUMN_ENTRIES];
    if (!is_empty && !json_failed(j))
        profile_add(r->profile, &(struct sample){.node = node, .values = values});
}

static void read_top(struct reader *r, struct bytes key)
{
    struct json_reader *j = r->json;

    if (bytes_are(key, "program")) {
        uint32_t text = dict_string(r->dict, json_get_string_or_empty(j));
        uint32_t a =
            dict_string_attribute(r->dict, dict_cstring(r->dict, "process.executable.name"), text);
        r->profile->resource_attrs = dict_attrs(r->dict, &a, 1);
    } else if (bytes_are(key, "tick_interval")) {
        r->tick_us = json_get_i64(j);
        if (r->tick_us < 0 || r->tick_us > 1000000000)
            json_fail(j, "a tick interval of %lld microseconds", (long long)r->tick_us);
    } else if (bytes_are(key, "cost_centres")) {
        json_enter_array(j);
        while (json_next_element(j) && !budget_failed(r->budget))
            read_centre(r);
    } else if (bytes_are(key, "profile")) {
        r->has_tree = true;
        read_tree(r, 0);
    } else {
        json_skip(j);
    }
}

static void reader_done(struct reader *r)
{
    json_reader_free(r->json);
    vec_done(r->budget, &r->centres);
    idset_done(r->budget, &r->index);
}

static int ghc_prof_decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct profile *p = profile_set_add(out);
    if (!p)
        return budget_error(out->budget, err);

    CLEANUP(reader_done)
    struct reader r = {.profile = p, .dict = out->dict, .budget = out->budget, .tick_us = 1000};
    r.json = json_reader_new(in, out->budget);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    profile_add_ctype(p, "entries", "count");
    profile_add_ctype(p, "alloc_space", "bytes");
    p->default_type = dict_cstring(out->dict, "cpu");
    json_enter_object(r.json);
    for (struct bytes key; json_next_key(r.json, &key) && !budget_failed(out->budget);)
        read_top(&r, key);
    if (budget_failed(out->budget))
        return budget_error(out->budget, err);
    int result = json_finish(r.json, "GHC profile", err);
    if (result == 0 && !r.has_tree)
        return error_set(err, -EBADMSG, "GHC profile: there is no tree of cost centres");
    p->period = r.tick_us * 1000;
    p->period_type = p->types[COLUMN_CPU];
    return result;
}

const struct format format_ghc_prof = {
    .name = "ghc-prof",
    .title = "GHC profile (JSON)",
    .sniff = ghc_prof_sniff,
    .decode = ghc_prof_decode,
};
