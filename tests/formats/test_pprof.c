#include "lib/decode.h"
#include "wire/inflate.h"
#include "wire/protobuf.h"

/*
 * Messages are written here by hand, section by section, so that tests can order and damage them.
 * The strings of the small profile below, by index:
 */
static const char *const strings[] = {"",       "samples",   "count",     "cpu",    "nanoseconds",
                                      "main",   "main.c",    "inner",     "/bin/p", "build-id-1",
                                      "thread", "worker",    "size",      "bytes",  "drop",
                                      "keep",   "a comment", "http://doc"};
enum {
    S_SAMPLES = 1,
    S_COUNT,
    S_CPU,
    S_NANOSECONDS,
    S_MAIN,
    S_MAIN_C,
    S_INNER,
    S_BIN,
    S_BUILD_ID,
    S_THREAD,
    S_WORKER,
    S_SIZE,
    S_BYTES,
    S_DROP,
    S_KEEP,
    S_COMMENT,
    S_DOC
};

/* A message of number fields: {field, value} pairs up to field 0. */
struct pair {
    uint32_t field;
    uint64_t value;
};

static void put_message(struct buf *b, uint32_t field, const struct pair *pairs)
{
    size_t at = pb_begin(b, field);
    for (; pairs->field; pairs++)
        pb_put_u64(b, pairs->field, pairs->value);
    pb_end(b, at);
}
#define MESSAGE(b, field, ...) put_message((b), (field), (const struct pair[]){__VA_ARGS__, {0, 0}})

static void put_packed(struct buf *b, uint32_t field, const uint64_t *values, size_t n)
{
    size_t at = pb_begin(b, field);
    for (size_t i = 0; i < n; i++)
        pb_put_varint(b, values[i]);
    pb_end(b, at);
}

/* A sample with its numbers packed, without labels. */
static void put_sample(struct buf *b, const uint64_t *locations, size_t n, uint64_t v0, uint64_t v1)
{
    size_t at = pb_begin(b, 2);
    put_packed(b, 1, locations, n);
    put_packed(b, 2, (const uint64_t[]){v0, v1}, 2);
    pb_end(b, at);
}

enum { TYPES, SAMPLES, MAPPINGS, LOCATIONS, FUNCTIONS, STRINGS, HEADER, SECTIONS };

/* A profile with something in every field pprof has, one buffer per section. */
static void make_sections(struct buf *s)
{
    MESSAGE(&s[TYPES], 1, {1, S_SAMPLES}, {2, S_COUNT});
    MESSAGE(&s[TYPES], 1, {1, S_CPU}, {2, S_NANOSECONDS});

    put_sample(&s[SAMPLES], (const uint64_t[]){2, 1}, 2, 3, 30);
    size_t at = pb_begin(&s[SAMPLES], 2);
    pb_put_u64(&s[SAMPLES], 1, 2); /* not packed */
    pb_put_u64(&s[SAMPLES], 1, 2);
    pb_put_u64(&s[SAMPLES], 2, 1);
    pb_put_u64(&s[SAMPLES], 2, (uint64_t)-10);
    MESSAGE(&s[SAMPLES], 3, {1, S_THREAD}, {2, S_WORKER});
    MESSAGE(&s[SAMPLES], 3, {1, S_SIZE}, {3, 64}, {4, S_BYTES});
    MESSAGE(&s[SAMPLES], 3, {1, S_SIZE}, {3, 128}, {4, S_BYTES});
    pb_end(&s[SAMPLES], at);

    MESSAGE(&s[MAPPINGS], 3, {1, 1}, {2, 0x1000}, {3, 0x9000}, {4, 0x10}, {5, S_BIN},
            {6, S_BUILD_ID}, {7, 1}, {8, 1}, {9, 1}, {10, 1});
    MESSAGE(&s[MAPPINGS], 3, {1, 7}, {2, 0xa000}, {3, 0xb000});

    at = pb_begin(&s[LOCATIONS], 4);
    pb_put_u64(&s[LOCATIONS], 1, 1);
    pb_put_u64(&s[LOCATIONS], 2, 1);
    pb_put_u64(&s[LOCATIONS], 3, 0x1234);
    MESSAGE(&s[LOCATIONS], 4, {1, 2}, {2, 11}, {3, 5});
    MESSAGE(&s[LOCATIONS], 4, {1, 1}, {2, 20});
    pb_put_u64(&s[LOCATIONS], 5, 1);
    pb_end(&s[LOCATIONS], at);
    MESSAGE(&s[LOCATIONS], 4, {1, 2}, {2, 7}, {3, 0xa010});

    MESSAGE(&s[FUNCTIONS], 5, {1, 1}, {2, S_MAIN}, {3, S_MAIN}, {4, S_MAIN_C}, {5, 18});
    MESSAGE(&s[FUNCTIONS], 5, {1, 2}, {2, S_INNER});

    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        pb_put_bytes(&s[STRINGS], 6, bytes_of(strings[i]));

    pb_put_u64(&s[HEADER], 7, S_DROP);
    pb_put_u64(&s[HEADER], 8, S_KEEP);
    pb_put_u64(&s[HEADER], 9, 1700000000000000000u);
    pb_put_u64(&s[HEADER], 10, 1000000000);
    MESSAGE(&s[HEADER], 11, {1, S_CPU}, {2, S_NANOSECONDS});
    pb_put_u64(&s[HEADER], 12, 10);
    put_packed(&s[HEADER], 13, (const uint64_t[]){S_COMMENT, S_MAIN}, 2);
    pb_put_u64(&s[HEADER], 14, S_SAMPLES);
    pb_put_u64(&s[HEADER], 15, S_DOC);
}

static void free_sections(struct buf *s)
{
    for (size_t i = 0; i < SECTIONS; i++)
        buf_done(&s[i]);
}

static struct buf join(struct buf *s, const int *order)
{
    struct buf all = {0};
    for (size_t i = 0; i < SECTIONS; i++)
        buf_add_bytes(&all, buf_bytes(&s[order[i]]));
    return all;
}

static const int usual_order[] = {TYPES, SAMPLES, MAPPINGS, LOCATIONS, FUNCTIONS, STRINGS, HEADER};

static struct buf make_profile(void)
{
    struct buf s[SECTIONS] = {0};
    make_sections(s);
    struct buf all = join(s, usual_order);
    free_sections(s);
    return all;
}

static void check_profile(struct test *t, const struct decoded *d)
{
    const struct profile *p = d->set->profiles.data[0];
    const struct dict *dict = d->set->dict;

    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, profile_total(p, 0), 4);
    CHECK_INT(t, profile_total(p, 1), 20);
    CHECK_STACK(t, dict, p->node[0], "main;inner;0xa010");
    CHECK_STACK(t, dict, p->node[1], "0xa010;0xa010");
    CHECK_STR(t, dict_cstr(dict, p->types[1].type), "cpu");
    CHECK_STR(t, dict_cstr(dict, p->types[1].unit), "nanoseconds");
    CHECK_INT(t, p->time_unix_ns, 1700000000000000000);
    CHECK_INT(t, p->duration_ns, 1000000000);
    CHECK_INT(t, p->period, 10);
    CHECK_STR(t, dict_cstr(dict, p->period_type.type), "cpu");
    CHECK_STR(t, dict_cstr(dict, p->drop_frames), "drop");
    CHECK_STR(t, dict_cstr(dict, p->keep_frames), "keep");
    CHECK_STR(t, dict_cstr(dict, p->doc_url), "http://doc");
    CHECK_STR(t, dict_cstr(dict, p->default_type), "samples");
    CHECK_INT(t, p->comments.len, 2);
    CHECK_STR(t, dict_cstr(dict, p->comments.data[0]), "a comment");
    CHECK_INT(t, p->mappings.len, 2);
    CHECK_INT(t, p->default_mapping, p->mappings.data[0]);

    const struct mapping *m = &dict->mappings.data[p->mappings.data[0]];
    CHECK_INT(t, m->start, 0x1000);
    CHECK_INT(t, m->limit, 0x9000);
    CHECK_INT(t, m->offset, 0x10);
    CHECK_STR(t, dict_cstr(dict, m->file), "/bin/p");
    CHECK_STR(t, dict_cstr(dict, m->build_id), "build-id-1");
    CHECK(t, m->has_functions && m->has_filenames && m->has_line_numbers && m->has_inline_frames);
    const struct location *l =
        &dict->locations.data[dict->node_location.data[dict->node_parent.data[p->node[0]]]];
    CHECK_INT(t, l->address, 0x1234);
    CHECK(t, l->is_folded);
    CHECK_INT(t, l->n_lines, 2);
    CHECK_INT(t, dict->lines.data[l->first_line].line, 11);
    CHECK_INT(t, dict->lines.data[l->first_line].column, 5);
    CHECK_INT(t, dict->functions.data[dict->lines.data[l->first_line + 1].function].start_line, 18);

    CHECK_INT(t, profile_attrs(p, 0), 0);
    struct attrs set = dict->attr_sets.data[profile_attrs(p, 1)];
    CHECK_INT(t, set.n, 3);
    const struct attribute *a = &dict->attributes.data[dict->attr_ids.data[set.first]];
    CHECK_STR(t, dict_cstr(dict, a->key), "thread");
    CHECK_STR(t, dict_cstr(dict, a->text), "worker");
    a = &dict->attributes.data[dict->attr_ids.data[set.first + 2]];
    CHECK_INT(t, a->kind, ATTRIBUTE_INT);
    CHECK_INT(t, a->number, 128);
    CHECK_STR(t, dict_cstr(dict, a->unit), "bytes");
}

static void reads_every_field(struct test *t)
{
    struct buf all = make_profile();
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
    CHECK_INT(t, d.r, 0);
    CHECK(t, d.format == &format_pprof);
    if (d.r == 0)
        check_profile(t, &d);
    CHECK_INT(t, d.set->notes.len, 0);
    decoded_done(t, &d);
    buf_done(&all);
}

static void reads_sections_in_any_order(struct test *t)
{
    static const int orders[][SECTIONS] = {
        {HEADER, STRINGS, FUNCTIONS, LOCATIONS, MAPPINGS, SAMPLES, TYPES},
        {SAMPLES, STRINGS, TYPES, HEADER, LOCATIONS, FUNCTIONS, MAPPINGS},
        {STRINGS, LOCATIONS, SAMPLES, HEADER, MAPPINGS, TYPES, FUNCTIONS},
    };
    struct buf s[SECTIONS] = {0};
    make_sections(s);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct buf all = join(s, orders[i]);
        struct decoded d;
        decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
        CHECK_INT(t, d.r, 0);
        CHECK(t, d.format == &format_pprof);
        if (d.r == 0)
            check_profile(t, &d);
        decoded_done(t, &d);
        buf_done(&all);
    }
    free_sections(s);
}

static void reads_several_gzip_members_as_one(struct test *t)
{
    struct buf all = make_profile(), packed = {0};
    gzip_pack(bytes_head(buf_bytes(&all), all.len / 2), 6, &packed);
    gzip_pack(bytes_from(buf_bytes(&all), all.len / 2), 6, &packed);
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&packed), 1 << 24);
    CHECK_INT(t, d.r, 0);
    if (d.r == 0)
        check_profile(t, &d);
    decoded_done(t, &d);
    buf_done(&all);
    buf_done(&packed);
}

static void ignores_fields_it_does_not_know(struct test *t)
{
    struct buf all = make_profile();
    pb_put_u64(&all, 99, 1);
    pb_put_fixed64(&all, 100, 2);
    pb_put_bytes(&all, 101, BYTES("new"));
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
    CHECK_INT(t, d.r, 0);
    if (d.r == 0)
        check_profile(t, &d);
    decoded_done(t, &d);
    buf_done(&all);
}

/* Writes the set and reads it again; the caller frees all three. */
static void round_trip(struct test *t, const struct decoded *from, struct decoded *to,
                       struct buf *encoded, struct buf *losses)
{
    struct error err;
    CHECK_INT(t, format_pprof.encode(from->set, encoded, losses, &err), 0);
    decode_bytes(to, NULL, buf_bytes(encoded), 1 << 24);
    CHECK_INT(t, to->r, 0);
}

static void what_is_written_reads_the_same(struct test *t)
{
    struct buf all = make_profile(), first = {0}, second = {0}, losses = {0};
    struct decoded a, b, c;
    decode_bytes(&a, NULL, buf_bytes(&all), 1 << 24);
    round_trip(t, &a, &b, &first, &losses);
    if (b.r == 0)
        check_profile(t, &b);
    CHECK_INT(t, losses.len, 0);
    round_trip(t, &b, &c, &second, &losses);
    CHECK(t, bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    decoded_done(t, &a);
    decoded_done(t, &b);
    decoded_done(t, &c);
    buf_done(&all);
    buf_done(&first);
    buf_done(&second);
}

static void set_up_lossy(struct profile_set *set)
{
    struct dict *d = set->dict;
    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "samples", "count");
    uint32_t key = dict_cstring(d, "key"), list = dict_cstring(d, "list");
    double pi = 3.25;
    struct attribute a[] = {
        {.key = key, .kind = ATTRIBUTE_STRING, .text = list, .unit = key},
        {.key = key, .kind = ATTRIBUTE_STRING},
        {.key = key, .kind = ATTRIBUTE_INT},
        {.key = key, .kind = ATTRIBUTE_BOOL, .number = 1},
        {.key = key, .kind = ATTRIBUTE_DOUBLE},
        {.key = key, .kind = ATTRIBUTE_BYTES, .text = dict_cstring(d, "\x01\xfe")},
        {.key = list, .kind = ATTRIBUTE_OTHER, .text = list},
    };
    memcpy(&a[4].number, &pi, sizeof(pi));
    uint32_t ids[7], one;
    for (size_t i = 0; i < 7; i++)
        ids[i] = dict_attribute(d, a[i]);
    one = ids[3];
    uint32_t some = dict_attrs(d, &one, 1);
    uint32_t mapping = dict_mapping(d, (struct mapping){.start = 1, .limit = 2, .attrs = some});
    uint32_t loc = dict_location(
        d, (struct location){.mapping = mapping, .type = dict_cstring(d, "go"), .attrs = some},
        &(struct line){0}, 1);
    int64_t v = 5;
    struct link link = {{0x4b, 1}, {2}};
    profile_add(p, &(struct sample){.node = dict_node(d, 0, loc),
                                    .attrs = dict_attrs(d, ids, 7),
                                    .link = dict_link(d, link),
                                    .time_ns = 9,
                                    .values = &v});
    p->resource_attrs = p->profile_attrs = some;
    p->scope_name = key;
    p->profile_id[3] = 1;
    p->original_payload = key;
}

static void says_what_it_could_not_write(struct test *t)
{
    struct decoded a = {.r = 0}, b;
    struct buf encoded = {0}, losses = {0};
    budget_init(&a.budget, 1 << 24);
    a.set = profile_set_new(&a.budget);
    set_up_lossy(a.set);
    round_trip(t, &a, &b, &encoded, &losses);
    CHECK_STR(t, buf_cstr(&losses),
              "trace links became the labels trace_id and span_id\n"
              "the time of each sample is left out\n"
              "frame types are left out\n"
              "attributes of locations are left out\n"
              "attributes of mappings are left out\n"
              "resource attributes are left out\n"
              "the instrumentation scope is left out\n"
              "attributes of the profile are left out\n"
              "the profile id is left out\n"
              "the original payload is left out\n"
              "labels that are neither text nor whole numbers became text\n"
              "labels holding lists are left out\n"
              "labels with an empty text, or 0 without a unit, are left out\n"
              "units of text labels are left out\n");

    const struct profile *p = b.set->profiles.data[0];
    const struct dict *d = b.set->dict;
    struct buf labels = {0};
    struct attrs set = d->attr_sets.data[profile_attrs(p, 0)];
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *at = &d->attributes.data[d->attr_ids.data[set.first + i]];
        buf_addf(&labels, "%s=%s ", dict_cstr(d, at->key), dict_cstr(d, at->text));
    }
    CHECK_STR(t, buf_cstr(&labels),
              "key=list key=true key=3.25 key=01fe "
              "trace_id=4b010000000000000000000000000000 span_id=0200000000000000 ");
    CHECK_STACK(t, d, p->node[0], "");
    CHECK(t, p->node[0] != 0); /* a frame without a name is still a frame */
    buf_done(&labels);
    buf_done(&encoded);
    buf_done(&losses);
    decoded_done(t, &a);
    decoded_done(t, &b);
}

static void refuses_to_write_several_profiles(struct test *t)
{
    struct budget budget;
    budget_init(&budget, 1 << 20);
    struct profile_set *set = profile_set_new(&budget);
    struct buf out = {0}, losses = {0};
    struct error err;
    CHECK_INT(t, format_pprof.encode(set, &out, &losses, &err), -EOPNOTSUPP);
    CHECK_STR(t, err.text, "pprof holds one profile, not 0");
    profile_set_free(set);
}

/* The small profile with `more` put in front of a section. */
static void check_refused(struct test *t, int section, struct buf *more, const char *why)
{
    struct buf s[SECTIONS] = {0};
    make_sections(s);
    buf_add_bytes(more, buf_bytes(&s[section]));
    buf_clear(&s[section]);
    buf_add_bytes(&s[section], buf_bytes(more));
    struct buf all = join(s, usual_order);
    struct decoded d;
    decode_bytes(&d, &format_pprof, buf_bytes(&all), 1 << 24);
    CHECK_INT(t, d.r, -EBADMSG);
    const char *found = strstr(d.err.text, ": ");
    CHECK(t, strncmp(d.err.text, "test: pprof at byte ", 20) == 0);
    found = found ? strstr(found + 2, ": ") : NULL;
    CHECK_STR(t, found ? found + 2 : d.err.text, why);
    decoded_done(t, &d);
    buf_done(&all);
    buf_clear(more);
    free_sections(s);
}

static void refuses_tables_that_contradict_themselves(struct test *t)
{
    struct buf b = {0};
    MESSAGE(&b, 3, {1, 0});
    check_refused(t, MAPPINGS, &b, "a mapping has the id 0, which is reserved");
    MESSAGE(&b, 3, {1, 7});
    check_refused(t, MAPPINGS, &b, "a second mapping has the id 7");
    MESSAGE(&b, 3, {1, 3}, {5, 99});
    check_refused(t, MAPPINGS, &b, "string 99 is not in the table of 18");
    MESSAGE(&b, 3, {1, 3}, {6, (uint64_t)-1});
    check_refused(t, MAPPINGS, &b, "string -1 is not in the table of 18");
    MESSAGE(&b, 5, {1, 2});
    check_refused(t, FUNCTIONS, &b, "a second function has the id 2");
    MESSAGE(&b, 5, {2, 1});
    check_refused(t, FUNCTIONS, &b, "a function has the id 0, which is reserved");
    for (uint32_t field = 2; field <= 4; field++) {
        MESSAGE(&b, 5, {1, 9}, {field, 18});
        check_refused(t, FUNCTIONS, &b, "string 18 is not in the table of 18");
    }
    MESSAGE(&b, 4, {1, 2});
    check_refused(t, LOCATIONS, &b, "a second location has the id 2");
    MESSAGE(&b, 4, {3, 2});
    check_refused(t, LOCATIONS, &b, "a location has the id 0, which is reserved");
    for (uint64_t function = 0; function <= 3; function += 3) {
        size_t at = pb_begin(&b, 4);
        pb_put_u64(&b, 1, 1);
        MESSAGE(&b, 4, {1, function});
        pb_end(&b, at);
        check_refused(t, LOCATIONS, &b,
                      function ? "a line names function 3, which is not there"
                               : "a line names function 0, which is not there");
    }
    pb_put_bytes(&b, 6, BYTES("x"));
    check_refused(t, STRINGS, &b, "the first string of the table is not empty");
    MESSAGE(&b, 1, {1, 18});
    check_refused(t, TYPES, &b, "string 18 is not in the table of 18");
    MESSAGE(&b, 1, {2, 18});
    check_refused(t, TYPES, &b, "string 18 is not in the table of 18");
    for (int i = 0; i < 70; i++)
        MESSAGE(&b, 1, {1, 1});
    check_refused(t, TYPES, &b, "more than 64 sample types");
    buf_done(&b);
}

static void refuses_headers_that_point_nowhere(struct test *t)
{
    static const uint32_t fields[] = {7, 8, 13, 14, 15};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        /* The last of several fields counts, so these come behind. */
        struct buf all = make_profile();
        pb_put_u64(&all, fields[i], 500);
        struct decoded d;
        decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
        CHECK_INT(t, d.r, -EBADMSG);
        CHECK(t, strstr(d.err.text, "string 500 is not in the table of 18") != NULL);
        decoded_done(t, &d);
        buf_done(&all);
    }
    struct buf b = {0};
    pb_put_u64(&b, 9, 5);
    check_refused(t, HEADER, &b,
                  "a second profile begins here: files with several joined together are not one "
                  "profile");
    pb_put_u64(&b, 1, 5);
    check_refused(t, HEADER, &b, "field 1 has the wrong wire type");
    pb_put_bytes(&b, 9, BYTES("x"));
    check_refused(t, HEADER, &b, "field 9 has the wrong wire type");
    pb_put_fixed64(&b, 13, 1);
    check_refused(t, HEADER, &b, "field 13 has the wrong wire type");
    pb_put_bytes(&b, 13, BYTES("\x80"));
    check_refused(t, HEADER, &b, "a packed number is cut short or too long");
    struct buf all = make_profile();
    MESSAGE(&all, 11, {1, 40});
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
    CHECK(t, strstr(d.err.text, "string 40 is not in the table of 18") != NULL);
    decoded_done(t, &d);
    buf_done(&all);
    buf_done(&b);
}

static void put_raw_sample(struct buf *b, struct bytes packed, struct bytes values)
{
    size_t at = pb_begin(b, 2);
    pb_put_bytes(b, 1, packed);
    pb_put_bytes(b, 2, values);
    pb_end(b, at);
}

static void refuses_samples_that_do_not_fit(struct test *t)
{
    struct buf b = {0};
    put_raw_sample(&b, BYTES("\x01"), BYTES("\x01"));
    check_refused(t, SAMPLES, &b, "a sample has 1 values and there are 2 sample types");
    put_raw_sample(&b, BYTES("\x01"), BYTES("\x01\x02\x03"));
    check_refused(t, SAMPLES, &b, "a sample has 3 values and there are 2 sample types");
    put_raw_sample(&b, BYTES("\x01\x09"), BYTES("\x01\x02"));
    check_refused(t, SAMPLES, &b, "a sample names location 9, which is not there");
    put_raw_sample(&b, (struct bytes){(const uint8_t *)"\x01\x00", 2}, BYTES("\x01\x02"));
    check_refused(t, SAMPLES, &b, "a sample names location 0, which is not there");
    put_raw_sample(&b, BYTES("\x01\x81"), BYTES("\x01\x02"));
    check_refused(t, SAMPLES, &b, "a packed number is cut short or too long");
    put_raw_sample(&b, BYTES("\x01"), BYTES("\x01\x81"));
    check_refused(t, SAMPLES, &b, "a packed number is cut short or too long");
    MESSAGE(&b, 2, {1, 5}, {2, 1}, {2, 1});
    check_refused(t, SAMPLES, &b, "a sample names location 5, which is not there");
    MESSAGE(&b, 2, {1, 1}, {2, 1});
    check_refused(t, SAMPLES, &b, "a sample has 1 values and there are 2 sample types");
    size_t at = pb_begin(&b, 2);
    pb_put_fixed64(&b, 1, 1);
    pb_end(&b, at);
    check_refused(t, SAMPLES, &b, "a packed list of numbers was expected");
    at = pb_begin(&b, 2);
    pb_put_u64(&b, 3, 1);
    pb_end(&b, at);
    check_refused(t, SAMPLES, &b, "bytes were expected and a number was found");
    pb_put_bytes(&b, 2, BYTES("\x0a\x7f"));
    check_refused(t, SAMPLES, &b, "a length runs past the end of its message");
    buf_done(&b);
}

static void refuses_labels_that_point_nowhere(struct test *t)
{
    struct buf b = {0};
    for (uint32_t field = 1; field <= 4; field++) {
        if (field == 3)
            continue;
        size_t at = pb_begin(&b, 2);
        pb_put_bytes(&b, 1, BYTES("\x01"));
        pb_put_bytes(&b, 2, BYTES("\x01\x02"));
        MESSAGE(&b, 3, {field, 77});
        pb_end(&b, at);
        check_refused(t, SAMPLES, &b, "string 77 is not in the table of 18");
    }
    size_t at = pb_begin(&b, 2);
    pb_put_bytes(&b, 1, BYTES("\x01"));
    pb_put_bytes(&b, 2, BYTES("\x01\x02"));
    pb_put_bytes(&b, 3, BYTES("\x08"));
    pb_end(&b, at);
    check_refused(t, SAMPLES, &b, "a varint is cut short or too long");
    buf_done(&b);
}

static void refuses_what_lacks_its_tables(struct test *t)
{
    struct buf s[SECTIONS] = {0};
    struct decoded d;
    make_sections(s);
    buf_clear(&s[STRINGS]);
    struct buf all = join(s, usual_order);
    decode_bytes(&d, &format_pprof, buf_bytes(&all), 1 << 24);
    CHECK_INT(t, d.r, -EBADMSG);
    CHECK(t, strstr(d.err.text, "there is no string table") != NULL);
    decoded_done(t, &d);
    buf_done(&all);
    free_sections(s);

    struct buf again[SECTIONS] = {0};
    make_sections(again);
    buf_clear(&again[TYPES]);
    all = join(again, usual_order);
    decode_bytes(&d, &format_pprof, buf_bytes(&all), 1 << 24);
    CHECK_STR(t, d.err.text, "test: pprof at byte 0: there are samples but no sample types");
    decoded_done(t, &d);
    buf_done(&all);
    free_sections(again);
}

static void notes_what_it_leaves_out(struct test *t)
{
    struct buf s[SECTIONS] = {0};
    make_sections(s);
    size_t at = pb_begin(&s[SAMPLES], 2);
    pb_put_bytes(&s[SAMPLES], 1, BYTES("\x05"));
    MESSAGE(&s[SAMPLES], 3, {1, S_THREAD});
    pb_put_bytes(&s[SAMPLES], 2, BYTES("\x01\x02"));
    MESSAGE(&s[SAMPLES], 3, {1, S_THREAD}, {2, S_MAIN});
    MESSAGE(&s[SAMPLES], 3, {1, S_THREAD}, {2, S_INNER});
    MESSAGE(&s[SAMPLES], 7, {1, 1});
    MESSAGE(&s[SAMPLES], 3, {1, S_THREAD}, {2, S_WORKER});
    pb_end(&s[SAMPLES], at);
    MESSAGE(&s[LOCATIONS], 4, {1, 5}, {2, 3}, {3, 0x77});
    struct buf all = join(s, usual_order);
    struct decoded d;
    decode_bytes(&d, NULL, buf_bytes(&all), 1 << 24);
    CHECK_INT(t, d.r, 0);
    CHECK(t, has_note(&d, "labels without a value were left out"));
    CHECK(t, has_note(&d, "1 locations name a mapping that is not in the file"));
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, d.set->dict->attr_sets.data[profile_attrs(p, 2)].n, 3);
    CHECK_STACK(t, d.set->dict, p->node[2], "0x77");
    decoded_done(t, &d);
    buf_done(&all);
    free_sections(s);
}

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 20) % n);
}

#define N_PLACES 300
#define N_MANY   6000

/* Ids are spread out, so that they take one to nine bytes, and half are beyond any array. */
static uint64_t id_of(uint32_t place)
{
    return place < 150 ? place + 1 : (uint64_t)place << (place % 50 + 2);
}

struct many {
    struct buf message;
    uint32_t stacks[N_MANY][24];
    uint32_t depth[N_MANY];
};

static void make_many(struct many *m)
{
    struct buf *b = &m->message;
    MESSAGE(b, 1, {1, 1}, {2, 2});
    for (uint32_t i = 0; i < N_MANY; i++) {
        /* Half go on from an earlier stack's root, some are earlier stacks. */
        uint32_t depth = below(24), shared = 0;
        if (i > 0 && below(4) > 0) {
            uint32_t other = below(i);
            shared = below(m->depth[other] + 1);
            if (below(5) == 0)
                shared = depth = m->depth[other];
            shared = shared < depth ? shared : depth;
            memcpy(m->stacks[i], m->stacks[other], shared * sizeof(uint32_t));
        }
        for (uint32_t k = shared; k < depth; k++)
            m->stacks[i][k] = below(N_PLACES);
        m->depth[i] = depth;
        size_t at = pb_begin(b, 2), packed = pb_begin(b, 1);
        for (uint32_t k = depth; k-- > 0;) {
            uint64_t id = id_of(m->stacks[i][k]);
            pb_put_varint(b, id);
            if (below(50) == 0 && id < 128) { /* the same number in two bytes */
                b->data[b->len - 1] |= 0x80;
                buf_add_byte(b, 0);
            }
        }
        pb_end(b, packed);
        pb_put_bytes(b, 2, BYTES("\x01"));
        pb_end(b, at);
    }
    for (uint32_t i = 0; i < N_PLACES; i++)
        MESSAGE(b, 4, {1, id_of(i)}, {3, 0x1000 + i});
    for (size_t i = 0; i < 3; i++)
        pb_put_bytes(b, 6, bytes_of(strings[i]));
}

static void finds_every_stack_among_many(struct test *t)
{
    struct many *m = calloc(1, sizeof(*m));
    struct decoded d;
    make_many(m);
    decode_bytes(&d, NULL, buf_bytes(&m->message), 1 << 26);
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = d.set->dict;
    size_t wrong = 0;
    for (uint32_t i = 0; d.r == 0 && i < N_MANY; i++) {
        uint32_t node = p->node[i], k = m->depth[i];
        for (; node != 0 && k > 0; node = dict->node_parent.data[node], k--)
            wrong += dict->locations.data[dict->node_location.data[node]].address !=
                     0x1000 + m->stacks[i][k - 1];
        wrong += node != 0 || k != 0;
    }
    CHECK_INT(t, wrong, 0);
    /* Equal stacks are one node: no two children of a node are at one place. */
    size_t doubled = 0;
    for (uint32_t a = 1; a < dict_n_nodes(dict); a++)
        doubled +=
            dict_node(d.set->dict, dict->node_parent.data[a], dict->node_location.data[a]) != a;
    CHECK_INT(t, doubled, 0);
    decoded_done(t, &d);

    /* With little memory the shortcuts are not taken, and the result is the same. */
    for (size_t limit = 1 << 18; limit < 1 << 22; limit += limit / 8) {
        decode_bytes(&d, NULL, buf_bytes(&m->message), limit);
        if (d.r == 0)
            CHECK_INT(t, profile_total(d.set->profiles.data[0], 0), N_MANY);
        else
            CHECK_INT(t, d.r, -ENOBUFS);
        decoded_done(t, &d);
    }
    buf_done(&m->message);
    free(m);
}

static void is_not_taken_for_anything_else(struct test *t)
{
    static const char *const others[] = {
        "main;foo 1\n",
        "{\"version\":1}",
        "heap profile: 1: 2 [1: 2] @ heap/2\n",
        "goroutine profile: total 1\n",
        "2: 32 [2: 32] @ 0x123 0x456 0x789 0xabc\n",
        "\n\n\n\nmain;foo 3\n",
        "*",
        "\"text\"",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_INT(t, format_pprof.sniff(bytes_of(others[i])), 0);

    /* OTLP, dictionary first and last: its strings stand where a sample has no field. */
    struct buf b = {0}, dictionary = {0};
    size_t at = pb_begin(&dictionary, 2);
    pb_put_bytes(&dictionary, 5, BYTES("name"));
    pb_put_bytes(&dictionary, 7, BYTES("\x0a\x01\x01"));
    pb_end(&dictionary, at);
    at = pb_begin(&b, 1);
    pb_put_bytes(&b, 1, BYTES(""));
    pb_put_bytes(&b, 2, BYTES("\x12\x02\x12\x00"));
    pb_end(&b, at);
    buf_add_bytes(&dictionary, buf_bytes(&b));
    CHECK_INT(t, format_pprof.sniff(buf_bytes(&dictionary)), 0);
    CHECK_INT(t, format_pprof.sniff(buf_bytes(&b)), 0);
    buf_done(&b);
    buf_done(&dictionary);

    struct buf all = make_profile();
    CHECK_INT(t, format_pprof.sniff(buf_bytes(&all)), 60);
    CHECK(t, format_pprof.sniff(bytes_head(buf_bytes(&all), 60)) > 0);
    buf_done(&all);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    struct buf all = make_profile();
    check_budget_sweep(t, &format_pprof, buf_bytes(&all), 61);
    buf_done(&all);
}

static void survives_being_cut_anywhere(struct test *t)
{
    struct buf all = make_profile();
    check_truncation(t, &format_pprof, buf_bytes(&all));
    check_truncation(t, NULL, buf_bytes(&all));
    buf_done(&all);
}

static const struct test_case cases[] = {
    TEST(reads_every_field),
    TEST(reads_sections_in_any_order),
    TEST(reads_several_gzip_members_as_one),
    TEST(ignores_fields_it_does_not_know),
    TEST(what_is_written_reads_the_same),
    TEST(says_what_it_could_not_write),
    TEST(refuses_to_write_several_profiles),
    TEST(refuses_tables_that_contradict_themselves),
    TEST(refuses_headers_that_point_nowhere),
    TEST(refuses_samples_that_do_not_fit),
    TEST(refuses_labels_that_point_nowhere),
    TEST(refuses_what_lacks_its_tables),
    TEST(notes_what_it_leaves_out),
    TEST(finds_every_stack_among_many),
    TEST(is_not_taken_for_anything_else),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)
