#include "otlp_helpers.h"

#define EXAMPLE_HEAD                                                                               \
    "resource 0 service.name=\"shop\" schema/resource dropped 4 entities 11\n"                     \
    "scope 0 profiler 1.2 level=\"high\" schema/scope dropped 5\n"                                 \
    "profile 09090909090909090909090909090909 thread.name=\"t1\" dropped 3 cumulative 0\n"         \
    "type samples/count\n"                                                                         \
    "default  time 1000 for 500 period 50 cpu/nanoseconds\n"                                       \
    "frames   doc  payload pprof 3\n"
#define EXAMPLE_STACK(folded, flags)                                                               \
    "  77 " folded " | work  a.c:20:3 s=5 | main  a.c:11:0 s=5\n"                                  \
    "  1100 native in 1000-2000+100 /bin/x (abc) " flags " | main  a.c:10:0 s=5\n"
#define NO_LINK "000000000000000000000000000000000000000000000000"
#define EXAMPLE_SAMPLES(stack)                                                                     \
    "sample 5 at 1000 thread.name=\"t1\" " NO_LINK "\n" stack                                      \
    "sample 6 at 1001 thread.name=\"t1\" " NO_LINK "\n" stack                                      \
    "sample 7 at 1002 size=2:96bytes 0102030405060708090a0b0c0d0e0f100101010102020202\n" stack
#define EXAMPLE_TEXT_10 EXAMPLE_HEAD "mapping /bin/x\n" EXAMPLE_SAMPLES(EXAMPLE_STACK("", "0000"))

static void reads_each_layout(struct test *t)
{
    static const struct {
        int layout;
        const char *text;
    } cases[] = {
        {V7, EXAMPLE_HEAD
         "comment work\nmapping /bin/x\n" EXAMPLE_SAMPLES(EXAMPLE_STACK(" folded", "1000"))},
        {V8,
         EXAMPLE_HEAD "comment work\nmapping /bin/x\n" EXAMPLE_SAMPLES(EXAMPLE_STACK("", "0000"))},
        {V9, EXAMPLE_TEXT_10},
        {V10, EXAMPLE_TEXT_10},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf b = example(cases[i].layout);
        CHECK_SAME_TEXT(t, read_as_text(NULL, buf_bytes(&b)), strdup(cases[i].text));
        buf_done(&b);
    }
}

/* A message with its fields by descending number, as the Collector writes them, or unpacked. */
static void rewrite(struct buf *out, const struct otlp_schema *s, struct bytes message,
                    bool reverse, bool unpack);

static void rewrite_field(struct buf *out, const struct otlp_schema_field *f, struct pb_reader *r,
                          bool reverse, bool unpack)
{
    if (f && f->kind == OTLP_MESSAGE) {
        size_t at = pb_begin(out, r->field);
        rewrite(out, f->message, r->data, reverse, unpack);
        pb_end(out, at);
    } else if (f && f->repeated && f->kind == OTLP_FIXED64 && unpack) {
        for (size_t i = 0; i + 8 <= r->data.len; i += 8) {
            uint64_t v;
            memcpy(&v, r->data.data + i, 8);
            pb_put_fixed64(out, r->field, v);
        }
    } else if (f && f->repeated && f->kind != OTLP_STRING && unpack) {
        struct bytes list = r->data;
        for (uint64_t v; pb_packed_next(r, &list, &v);)
            pb_put_u64(out, r->field, v);
    } else if (r->wire == PB_BYTES) {
        pb_put_bytes(out, r->field, r->data);
    } else if (r->wire == PB_FIXED64) {
        pb_put_fixed64(out, r->field, r->value);
    } else {
        pb_put_u64(out, r->field, r->value);
    }
}

static void rewrite(struct buf *out, const struct otlp_schema *s, struct bytes message,
                    bool reverse, bool unpack)
{
    for (uint32_t wanted = 15; wanted > 0; wanted--) {
        for (struct pb_reader r = pb_reader(message); pb_next(&r);) {
            if (reverse ? r.field == wanted : wanted == 15)
                rewrite_field(out, otlp_schema_by_number(s, r.field), &r, reverse, unpack);
        }
    }
}

static void reads_fields_in_any_order_packed_or_not(struct test *t)
{
    struct buf b = example(V10);

    for (int way = 1; way <= 3; way++) {
        struct buf other = {0};
        rewrite(&other, &otlp_schema_root, buf_bytes(&b), way & 1, way & 2);
        CHECK_SAME_TEXT(t, read_as_text(NULL, buf_bytes(&other)), strdup(EXAMPLE_TEXT_10));
        buf_done(&other);
    }
    buf_done(&b);
}

static void put_frame(struct buf *b, struct bytes content)
{
    uint8_t head[4] = {(uint8_t)(content.len >> 24), (uint8_t)(content.len >> 16),
                       (uint8_t)(content.len >> 8), (uint8_t)content.len};
    buf_add(b, head, 4);
    buf_add_bytes(b, content);
}

static void reads_the_frames_of_the_collectors_file_exporter(struct test *t)
{
    struct buf one = example(V8), two = example(V10), framed = {0}, packed = {0};
    struct reading r;

    gzip_pack(buf_bytes(&two), 6, &packed);
    put_frame(&framed, buf_bytes(&one));
    put_frame(&framed, buf_bytes(&packed));
    put_frame(&framed, BYTES("{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{}]}]}]}"));
    read_into(&r, NULL, buf_bytes(&framed), BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    CHECK_INT(t, r.set->profiles.len, 3);
    if (r.set->profiles.len == 3) {
        CHECK_INT(t, r.set->profiles.data[1]->n_samples, 3);
        CHECK_INT(t, r.set->profiles.data[1]->resource_index, 1);
        CHECK_INT(t, r.set->profiles.data[2]->resource_index, 2);
    }
    reading_done(&r);

    size_t frame = 4 + one.len;
    CHECK_REFUSED(t, &format_otlp, ((struct bytes){framed.data, frame + 2}), ({
                      static char text[200];
                      snprintf(text, sizeof(text),
                               "test: otlp at byte %zu: the length of a message is cut short",
                               frame);
                      text;
                  }));
    CHECK_REFUSED(t, &format_otlp, ((struct bytes){framed.data, frame - 1}), ({
                      static char text[200];
                      snprintf(text, sizeof(text),
                               "test: otlp at byte 0: a message of %zu bytes is cut short: %zu are "
                               "left",
                               one.len, one.len - 1);
                      text;
                  }));
    buf_done(&one);
    buf_done(&two);
    buf_done(&framed);
    buf_done(&packed);
}

static void refuses_a_damaged_packed_frame(struct test *t)
{
    struct buf framed = {0};
    put_frame(&framed, BYTES("\x1f\x8b\x08\x00junk-that-is-no-gzip"));
    struct reading r;
    read_into(&r, &format_otlp, buf_bytes(&framed), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.result, -EBADMSG);
    CHECK(t, strncmp(r.err.text, "test: otlp at byte 4: ", 22) == 0);
    reading_done(&r);
    buf_done(&framed);
}

/* A message around a few samples (and a dictionary of one table), for telling layouts apart. */
struct small {
    struct buf samples, profile, dictionary;
};

static struct buf small_message(struct small *s)
{
    struct buf b = {0};
    size_t resource = pb_begin(&b, 1), scope = pb_begin(&b, 2), profile = pb_begin(&b, 2);
    buf_add_bytes(&b, buf_bytes(&s->samples));
    buf_add_bytes(&b, buf_bytes(&s->profile));
    pb_end(&b, profile);
    pb_end(&b, scope);
    pb_end(&b, resource);
    pb_put_bytes(&b, 2, buf_bytes(&s->dictionary));
    buf_done(&s->samples);
    buf_done(&s->profile);
    buf_done(&s->dictionary);
    *s = (struct small){0};
    return b;
}

static void add_sample(struct small *s, void (*fill)(struct buf *b))
{
    size_t at = pb_begin(&s->samples, 2);
    fill(&s->samples);
    pb_end(&s->samples, at);
}

/* n empty elements of a table, the strings all different. */
static void add_elements(struct small *s, uint32_t table, int n)
{
    for (int i = 0; i < n; i++) {
        char text[16];
        snprintf(text, sizeof(text), "s%d", i);
        pb_put_bytes(&s->dictionary, table,
                     table == DICTIONARY_STRINGS && i > 0 ? bytes_of(text) : BYTES(""));
    }
}

static const char *layout_of(struct small *s)
{
    struct buf b = small_message(s);
    struct budget budget;
    struct error err = {0};
    static char text[600];

    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    struct profile_set *set = profile_set_new(&budget);
    struct otlp o = {.set = set,
                     .dict = set->dict,
                     .budget = &budget,
                     .err = &err,
                     .format = "otlp",
                     .origin = b.data,
                     .message = buf_bytes(&b)};
    otlp_index_tables(&o);
    const struct otlp_layout *l = o.status == 0 ? otlp_tell_layout(&o) : NULL;
    snprintf(text, sizeof(text), "%s", l ? l->name : err.text);
    otlp_tables_done(&o);
    profile_set_free(set);
    buf_done(&b);
    return text;
}

static void fill_packed_3(struct buf *b)
{
    pb_put_u64(b, 1, 1);
    PACKED(b, 3, 1);
}
static void fill_packed_4(struct buf *b)
{
    pb_put_u64(b, 1, 1);
    PACKED(b, 4, 1);
}
static void fill_number_3(struct buf *b)
{
    pb_put_u64(b, 1, 1);
    pb_put_u64(b, 3, 1);
}
static void fill_only_2(struct buf *b)
{
    pb_put_u64(b, 1, 1);
    PACKED(b, 2, 1);
}
static void fill_only_4(struct buf *b)
{
    pb_put_u64(b, 1, 1);
    pb_put_u64(b, 4, 1);
}
static void fill_link(struct buf *b)
{
    PACKED(b, 2, 5);
    pb_put_u64(b, 4, 1);
}
static void fill_value_not_packed(struct buf *b)
{
    PACKED(b, 2, 1);
    pb_put_u64(b, 4, 9);
}
static void fill_values_not_packed(struct buf *b)
{
    PACKED(b, 2, 1);
    pb_put_u64(b, 4, 1);
    pb_put_u64(b, 4, 1);
}
static void fill_attributes_not_packed(struct buf *b)
{
    PACKED(b, 2, 1);
    pb_put_u64(b, 3, 1);
    pb_put_u64(b, 3, 2);
}
static void fill_one_and_time(struct buf *b)
{
    PACKED(b, 2, 1);
    TIMES(b, 5, 7);
}
static void fill_two_and_time(struct buf *b)
{
    PACKED(b, 2, 1, 2);
    TIMES(b, 5, 7);
}
static void fill_same_and_times(struct buf *b)
{
    PACKED(b, 2, 1, 1);
    TIMES(b, 5, 7, 8);
}
static void fill_big_and_time(struct buf *b)
{
    PACKED(b, 2, 100);
    TIMES(b, 5, 7);
}
static void fill_time_not_packed(struct buf *b)
{
    PACKED(b, 2, 1);
    pb_put_fixed64(b, 5, 7);
}
static void fill_field_6(struct buf *b)
{
    PACKED(b, 6, 1);
}
static void fill_length(struct buf *b)
{
    pb_put_u64(b, 1, 0);
    pb_put_u64(b, 2, 1);
}
static void fill_link_5(struct buf *b)
{
    pb_put_u64(b, 5, 1);
}

static void tells_the_order_of_a_samples_fields(struct test *t)
{
    static const struct {
        void (*fill)(struct buf *b);
        const char *layout;
    } cases[] = {
        {fill_packed_3, "1.9"},
        {fill_packed_4, "1.10"},
        {fill_number_3, "1.10"},
        {fill_only_2, "1.9"},
        {fill_only_4, "1.10"},
        {fill_link, "1.9"},
        {fill_value_not_packed, "1.10"},
        {fill_values_not_packed, "1.10"},
        {fill_attributes_not_packed, "1.9"},
        {fill_one_and_time, "1.10"},
        {fill_two_and_time, "1.10"},
        {fill_same_and_times, "1.9"},
        {fill_big_and_time, "1.9"},
        {fill_time_not_packed, "1.10"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct small s = {0};
        add_elements(&s, DICTIONARY_LINKS, 3);
        add_elements(&s, DICTIONARY_ATTRIBUTES, 4);
        pb_put_fixed64(&s.profile, 3, 1);
        add_sample(&s, cases[i].fill);
        const char *layout = layout_of(&s);
        if (strcmp(layout, cases[i].layout) != 0)
            printf("# case %zu\n", i);
        CHECK_STR(t, layout, cases[i].layout);
    }
}

static void fill_three_and_times(struct buf *b)
{
    PACKED(b, 2, 1, 2, 3);
    TIMES(b, 5, 7, 8, 9);
}

static void looks_at_keys_when_nothing_else_tells(struct test *t)
{
    for (int same = 0; same < 2; same++) {
        struct small s = {0};
        add_elements(&s, DICTIONARY_STRINGS, 5);
        add_elements(&s, DICTIONARY_ATTRIBUTES, 1);
        for (uint32_t key = 1; key <= 3; key++)
            put_text_attribute(&s.dictionary, V10, same && key == 3 ? 1 : key, "x");
        pb_put_fixed64(&s.profile, 3, 1);
        add_sample(&s, fill_three_and_times);
        CHECK_STR(t, layout_of(&s), same ? "1.9" : "1.10");
    }
}

static void one_sample_decides_for_all(struct test *t)
{
    struct small s = {0};
    add_elements(&s, DICTIONARY_ATTRIBUTES, 4);
    pb_put_fixed64(&s.profile, 3, 1);
    add_sample(&s, fill_big_and_time);
    add_sample(&s, fill_one_and_time);
    add_sample(&s, fill_packed_4);
    CHECK_STR(t, layout_of(&s), "1.10");
    add_sample(&s, fill_packed_3);
    add_sample(&s, fill_packed_4);
    CHECK_STR(t, layout_of(&s),
              "otlp at byte 0: the message has samples of layout 1.9 and of layout 1.10");
}

static void tells_1_7_by_its_tables_profiles_and_samples(struct test *t)
{
    struct small s = {0};

    put_text_attribute(&s.dictionary, V7, S_THREAD, "t");
    CHECK_STR(t, layout_of(&s), "1.7");
    put_text_attribute(&s.dictionary, V10, S_THREAD, "t");
    CHECK_STR(t, layout_of(&s), "1.10");
    pb_put_bytes(&s.dictionary, 7, BYTES("\x08\x01\x10\x02"));
    CHECK_STR(t, layout_of(&s), "1.7");
    pb_put_bytes(&s.dictionary, 7, BYTES("\x08\x01"));
    CHECK_STR(t, layout_of(&s), "1.7");
    pb_put_bytes(&s.dictionary, 7, BYTES("\x08\x01"));
    pb_put_fixed64(&s.profile, 3, 1);
    CHECK_STR(t, layout_of(&s), "1.10");
    pb_put_bytes(&s.dictionary, 7, BYTES("\x0a\x01\x01"));
    CHECK_STR(t, layout_of(&s), "1.10");

    PACKED(&s.profile, 3, 1);
    CHECK_STR(t, layout_of(&s), "1.7");
    pb_put_u64(&s.profile, 5, 1);
    CHECK_STR(t, layout_of(&s), "1.7");
    put_value_type(&s.profile, 6, 1, 2);
    CHECK_STR(t, layout_of(&s), "1.7");
    pb_put_u64(&s.profile, 7, 1);
    CHECK_STR(t, layout_of(&s), "1.7");
    put_value_type(&s.profile, 1, 1, 2);
    put_value_type(&s.profile, 1, 3, 4);
    CHECK_STR(t, layout_of(&s), "1.7");
    add_sample(&s, fill_field_6);
    CHECK_STR(t, layout_of(&s), "1.7");
    add_sample(&s, fill_length);
    CHECK_STR(t, layout_of(&s), "1.7");
    add_sample(&s, fill_link_5);
    CHECK_STR(t, layout_of(&s), "1.7");
    PACKED(&s.profile, 3, 1);
    pb_put_u64(&s.profile, 6, 1);
    CHECK_STR(t, layout_of(&s),
              "otlp at byte 0: the message has fields of layout 1.7 and of later ones");
}

static void tells_1_8_by_its_profiles(struct test *t)
{
    struct small s = {0};

    pb_put_bytes(&s.profile, 8, BYTES(""));
    CHECK_STR(t, layout_of(&s), "1.8");
    pb_put_fixed64(&s.profile, 3, 1);
    pb_put_u64(&s.profile, 9, 1);
    CHECK_STR(t, layout_of(&s), "1.8");
    PACKED(&s.profile, 7, 1, 2, 3);
    CHECK_STR(t, layout_of(&s), "1.8");
    PACKED(&s.profile, 12, 1);
    CHECK_STR(t, layout_of(&s), "1.8");
    PACKED(&s.profile, 12, 1);
    add_sample(&s, fill_packed_4);
    CHECK_STR(t, layout_of(&s), "1.10");
    pb_put_bytes(&s.profile, 7, BYTES(""));
    pb_put_u64(&s.profile, 8, 1);
    add_sample(&s, fill_packed_3);
    CHECK_STR(t, layout_of(&s), "1.9");
}

static void refuses_layouts_before_1_7_by_name(struct test *t)
{
    struct small s = {0};

    pb_put_bytes(&s.profile, 4, BYTES(""));
    CHECK_STR(t, layout_of(&s),
              "otlp at byte 0: layout 1.4 or 1.5 of OTLP profiles is not supported: 1.7 and later "
              "are");
    pb_put_fixed64(&s.profile, 2, 1);
    CHECK_STR(t, layout_of(&s),
              "otlp at byte 0: layout 1.3 of OTLP profiles is not supported: 1.7 and later are");
    struct buf b = {0};
    pb_put_bytes(&b, 2, BYTES(""));
    pb_put_bytes(&b, 6, BYTES("cpu"));
    CHECK_REFUSED(t, &format_otlp, buf_bytes(&b),
                  "test: otlp at byte 0: layout 1.6 of OTLP profiles is not supported: 1.7 and "
                  "later are");
    buf_done(&b);
}

static void names_the_table_the_index_and_the_length(struct test *t)
{
    static const struct {
        uint32_t table;   /* the element goes there... */
        const char *body; /* ...after an empty one */
        size_t len;
        const char *why;
    } cases[] = {
        {1, "\x20\x05", 2, "element 5 of the string table does not exist: it has 2"},
        {1, "\x2a\x01\x07", 3, "element 7 of the attribute table does not exist: it has 1"},
        {2, "\x08\x03", 2, "element 3 of the mapping table does not exist: it has 1"},
        {2, "\x22\x01\x06", 3, "element 6 of the attribute table does not exist: it has 1"},
        {2, "\x1a\x02\x08\x04", 4, "element 4 of the function table does not exist: it has 1"},
        {3, "\x08\x02", 2, "element 2 of the string table does not exist: it has 2"},
        {6, "\x08\x09", 2, "element 9 of the string table does not exist: it has 2"},
        {6, "\x12\x02\x40\x09", 4, "element 9 of the string table does not exist: it has 2"},
        {7, "\x0a\x01\x08", 3, "element 8 of the location table does not exist: it has 1"},
        {7, "\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12,
         "element -1 of the location table does not exist: it has 1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct small s = {0};
        char text[300];
        add_elements(&s, DICTIONARY_STRINGS, 2);
        for (uint32_t table = 1; table <= 7; table++)
            add_elements(&s, table, table != DICTIONARY_STRINGS && table != cases[i].table);
        add_elements(&s, cases[i].table, 1);
        pb_put_bytes(&s.dictionary, cases[i].table,
                     (struct bytes){(const uint8_t *)cases[i].body, cases[i].len});
        struct buf b = small_message(&s);
        struct reading r;
        read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
        CHECK_INT(t, r.result, -EBADMSG);
        const char *why = strstr(r.err.text, ": element");
        snprintf(text, sizeof(text), ": %s", cases[i].why);
        CHECK_STR(t, why ? why : r.err.text, text);
        CHECK(t, strncmp(r.err.text, "test: otlp at byte ", 19) == 0);
        reading_done(&r);
        buf_done(&b);
    }
}

static void fill_stack_9(struct buf *b)
{
    pb_put_u64(b, 1, 9);
    PACKED(b, 4, 1);
}
static void fill_link_9(struct buf *b)
{
    pb_put_u64(b, 3, 9);
    PACKED(b, 4, 1);
}
static void fill_label_9(struct buf *b)
{
    PACKED(b, 2, 9);
    PACKED(b, 4, 1);
}

static void checks_the_indices_of_samples_and_profiles(struct test *t)
{
    static const struct {
        void (*fill)(struct buf *b);
        const char *why;
    } cases[] = {
        {fill_stack_9, "element 9 of the stack table does not exist: it has 1"},
        {fill_link_9, "element 9 of the link table does not exist: it has 1"},
        {fill_label_9, "element 9 of the attribute table does not exist: it has 1"},
        {NULL, "element 9 of the attribute table does not exist: it has 1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct small s = {0};
        for (uint32_t table = 1; table <= 7; table++)
            add_elements(&s, table, 1);
        pb_put_fixed64(&s.profile, 3, 1);
        if (cases[i].fill)
            add_sample(&s, cases[i].fill);
        else
            PACKED(&s.profile, 11, 9);
        struct buf b = small_message(&s);
        struct reading r;
        read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
        CHECK_INT(t, r.result, -EBADMSG);
        const char *why = strstr(r.err.text, "element");
        CHECK_STR(t, why ? why : r.err.text, cases[i].why);
        reading_done(&r);
        buf_done(&b);
    }
}

static void fill_odd_sum(struct buf *b)
{
    PACKED(b, 4, 1, 2, 3);
}
static void fill_odd_times(struct buf *b)
{
    PACKED(b, 4, 4);
    TIMES(b, 5, 1, 2);
}
static void fill_nothing(struct buf *b)
{
    pb_put_u64(b, 1, 0);
}
static void fill_times(struct buf *b)
{
    TIMES(b, 5, 11, 12, 13);
}

static void makes_sense_of_samples_in_odd_shapes(struct test *t)
{
    struct small s = {0};
    struct reading r;

    pb_put_fixed64(&s.profile, 3, 1);
    add_sample(&s, fill_odd_sum);
    add_sample(&s, fill_odd_times);
    add_sample(&s, fill_nothing);
    add_sample(&s, fill_times);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    CHECK_INT(t, r.set->profiles.len, 1);
    struct profile *p = r.set->profiles.data[0];
    static const int64_t values[] = {6, 4, 1, 1, 1};
    static const uint64_t times[] = {0, 0, 11, 12, 13};
    CHECK_INT(t, p->n_samples, 5);
    for (size_t i = 0; i < 5 && p->n_samples == 5; i++) {
        CHECK_INT(t, p->values[0][i], values[i]);
        CHECK_INT(t, profile_time_ns(p, i), times[i]);
    }
    CHECK_INT(t, r.set->notes.len, 3);
    CHECK_STR(t, r.set->notes.data[0],
              "samples of several values without as many times were summed up");
    CHECK_STR(t, r.set->notes.data[2], "samples without a value or a time were left out");
    reading_done(&r);
    buf_done(&b);
}

static void notes_what_cannot_be_kept(struct test *t)
{
    struct small s = {0};
    struct reading r;

    pb_put_bytes(&s.dictionary, 4, BYTES(""));
    pb_put_bytes(&s.dictionary, 4, BYTES("\x0a\x02xx"));
    pb_put_bytes(&s.dictionary, 2, BYTES("\x10\x05"));
    pb_put_bytes(&s.dictionary, 5, BYTES("first"));
    pb_put_bytes(&s.profile, 7, BYTES(""));
    pb_put_fixed64(&s.profile, 3, 1);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.result, 0);
    CHECK_INT(t, r.set->notes.len, 3);
    if (r.set->notes.len == 3) {
        CHECK_STR(t, r.set->notes.data[0],
                  "element 0 of the string table is not empty; it was read as none");
        CHECK_STR(t, r.set->notes.data[1], "a trace or span id of 2 bytes was read as none");
        CHECK_STR(t, r.set->notes.data[2],
                  "element 0 of the location table is not empty; it was read as none");
    }
    reading_done(&r);
    buf_done(&b);
}

static void reads_pprofs_attributes_into_their_fields(struct test *t)
{
    static const char *const strings[] = {"",
                                          "pprof.profile.comment",
                                          "pprof.profile.comment.1",
                                          "pprof.profile.drop_frames",
                                          "pprof.profile.keep_frames",
                                          "pprof.profile.doc_url",
                                          "pprof.location.is_folded",
                                          "pprof.mapping.has_functions",
                                          "pprof.mapping.has_filenames",
                                          "pprof.mapping.has_line_numbers",
                                          "pprof.mapping.has_inline_frames"};
    struct small s = {0};
    struct reading r;

    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        pb_put_bytes(&s.dictionary, 5, bytes_of(strings[i]));
    for (uint64_t i = 0; i < ARRAY_SIZE(strings); i++) {
        size_t at = pb_begin(&s.dictionary, 6);
        pb_put_u64_opt(&s.dictionary, 1, i);
        if (i == 1)
            pb_put_bytes(&s.dictionary, 2, BYTES("\x2a\x0a\x0a\x03\x0a\x01x\x0a\x03\x0a\x01y"));
        else if (i > 1 && i < 6)
            put_string_value(&s.dictionary, 2, strings[i] + 14);
        else if (i > 0)
            pb_put_bytes(&s.dictionary, 2, BYTES("\x10\x01"));
        pb_end(&s.dictionary, at);
    }
    pb_put_bytes(&s.dictionary, 1, BYTES(""));
    pb_put_bytes(&s.dictionary, 1, BYTES("\x10\x09\x2a\x04\x07\x08\x09\x0a"));
    pb_put_bytes(&s.dictionary, 2, BYTES(""));
    pb_put_bytes(&s.dictionary, 2, BYTES("\x08\x01\x22\x01\x06"));
    pb_put_bytes(&s.dictionary, 7, BYTES(""));
    pb_put_bytes(&s.dictionary, 7, BYTES("\x0a\x02\x01\x00"));
    pb_put_fixed64(&s.profile, 3, 1);
    PACKED(&s.profile, 11, 1, 2, 3, 4, 5);
    add_sample(&s, fill_packed_4);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    CHECK_SAME_TEXT(t, r.result == 0 ? dump_set(r.set) : strdup(""),
                    strdup("resource 0  dropped 0 entities 0\n"
                           "scope 0    dropped 0\n"
                           "profile 00000000000000000000000000000000 dropped 0 cumulative 0\n"
                           "type /\n"
                           "default  time 1 for 0 period 0 /\n"
                           "frames drop_frames keep_frames doc doc_url payload  0\n"
                           "comment x\ncomment y\ncomment comment.1\n"
                           "mapping \n"
                           "sample 1 at 0 " NO_LINK "\n"
                           "  0  folded in 0-9+0  () 1111\n"
                           "  0 \n"));
    reading_done(&r);
    buf_done(&b);
}

static void limits_the_depth_of_values(struct test *t)
{
    struct buf value = {0};

    for (int depth = 0; depth < 40; depth++) {
        struct buf array = {0}, outer = {0};
        pb_put_bytes(&array, 1, buf_bytes(&value));
        pb_put_bytes(&outer, 5, buf_bytes(&array));
        buf_done(&array);
        buf_done(&value);
        value = outer;
    }
    struct small s = {0};
    pb_put_bytes(&s.dictionary, 6, BYTES(""));
    size_t at = pb_begin(&s.dictionary, 6);
    pb_put_bytes(&s.dictionary, 2, buf_bytes(&value));
    pb_end(&s.dictionary, at);
    struct buf b = small_message(&s);
    struct reading r;
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.result, -EBADMSG);
    CHECK(t, strstr(r.err.text, "an attribute value is nested more than 32 deep") != NULL);
    reading_done(&r);
    buf_done(&b);
    buf_done(&value);
}

static void resolves_strings_inside_lists(struct test *t)
{
    struct small s = {0};
    struct reading r;

    add_elements(&s, DICTIONARY_STRINGS, 3);
    pb_put_bytes(&s.dictionary, 6, BYTES(""));
    /* s1 = {s2: [s1, 1, true, 0.5, bytes]} */
    pb_put_bytes(&s.dictionary, 6,
                 BYTES("\x08\x01\x12\x25\x32\x23\x0a\x21\x18\x02\x12\x1d\x2a\x1b"
                       "\x0a\x02\x40\x01\x0a\x02\x18\x01\x0a\x02\x10\x01"
                       "\x0a\x09\x21\x00\x00\x00\x00\x00\x00\xe0\x3f\x0a\x02\x3a\x00"));
    PACKED(&s.profile, 11, 1);
    pb_put_fixed64(&s.profile, 3, 1);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    if (r.result == 0) {
        struct buf text = {0};
        dump_attrs(&text, r.set->dict, r.set->profiles.data[0]->profile_attrs);
        CHECK_STR(t, buf_cstr(&text),
                  " s1=3227"
                  "0a250a02733212"
                  "1f2a1d0a040a0273310a0218010a0210010a0921000000000000e03f0a023a00");
        buf_done(&text);
    }
    reading_done(&r);
    buf_done(&b);
}

static void survives_being_cut_at_every_byte(struct test *t)
{
    for (int layout = V7; layout <= V10; layout++) {
        struct buf b = example(layout);
        for (size_t n = 1; n < b.len; n++) {
            struct reading r;
            uint8_t *copy = malloc(n);
            memcpy(copy, b.data, n);
            read_into(&r, &format_otlp, (struct bytes){copy, n}, BUDGET_DEFAULT_BYTES);
            CHECK(t, r.result == 0 || r.result == -EBADMSG);
            CHECK_INT(t, r.result == 0, r.err.text[0] == '\0');
            reading_done(&r);
            CHECK_INT(t, r.budget.used, 0);
            free(copy);
        }
        buf_done(&b);
    }
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (int layout = V7; layout <= V10; layout++) {
        struct buf b = example(layout);
        int result = -ENOBUFS;
        for (size_t limit = 0; result == -ENOBUFS && limit < 1 << 20; limit += 61) {
            struct reading r;
            read_into(&r, &format_otlp, buf_bytes(&b), limit);
            result = r.result;
            CHECK(t, result == 0 || result == -ENOBUFS);
            CHECK(t, result == 0 || strstr(r.err.text, "limit") != NULL);
            reading_done(&r);
        }
        CHECK_INT(t, result, 0);
        buf_done(&b);
    }
}

static void survives_any_byte_being_wrong(struct test *t)
{
    for (int layout = V7; layout <= V10; layout++) {
        struct buf b = example(layout);
        for (size_t i = 0; i < b.len; i++) {
            uint8_t was = b.data[i];
            for (int k = 0; k < 3; k++) {
                struct reading r;
                b.data[i] = (uint8_t)(k == 0 ? was + 1 : k == 1 ? 0xff : was ^ 0x80);
                read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
                CHECK(t, r.result == 0 || r.result == -EBADMSG);
                reading_done(&r);
                b.data[i] = was;
            }
        }
        buf_done(&b);
    }
}

static void bounds_the_frames_of_1_7(struct test *t)
{
    struct small s = {0};
    struct reading r;
    enum { N = 40000 };

    add_elements(&s, DICTIONARY_LOCATIONS, 1);
    size_t at = pb_begin(&s.profile, 3);
    for (int i = 0; i < N; i++)
        pb_put_varint(&s.profile, 0);
    pb_end(&s.profile, at);
    for (int i = 0; i < N; i++) {
        at = pb_begin(&s.samples, 2);
        pb_put_u64(&s.samples, 2, N);
        PACKED(&s.samples, 3, 1);
        pb_end(&s.samples, at);
    }
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_INT(t, r.result, -EBADMSG);
    CHECK(t, strstr(r.err.text, "its stacks have more than 268435456 frames together") != NULL);
    reading_done(&r);
    buf_done(&b);
}

static void refuses_slices_and_types_that_do_not_exist(struct test *t)
{
    struct small s = {0};
    struct reading r;

    add_elements(&s, DICTIONARY_LOCATIONS, 1);
    PACKED(&s.profile, 3, 0, 0);
    size_t at = pb_begin(&s.samples, 2);
    pb_put_u64(&s.samples, 1, 1);
    pb_put_u64(&s.samples, 2, 5);
    PACKED(&s.samples, 3, 1);
    pb_end(&s.samples, at);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK(t, strstr(r.err.text, "locations 1 to 6 of the profile do not exist: it has 2") != NULL);
    reading_done(&r);
    buf_done(&b);

    PACKED(&s.profile, 3, 0);
    pb_put_u64(&s.profile, 9, 4);
    b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK(t, strstr(r.err.text, "sample type 4 does not exist: the profile has 1") != NULL);
    reading_done(&r);
    buf_done(&b);

    add_elements(&s, DICTIONARY_STRINGS, 3);
    for (int i = 0; i < 2; i++)
        put_value_type(&s.profile, 1, 1, 2);
    b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK(t, strstr(r.err.text, "a profile has the sample type s1/s2 twice") != NULL);
    reading_done(&r);
    buf_done(&b);

    add_elements(&s, DICTIONARY_STRINGS, 100);
    for (uint32_t i = 0; i < 65; i++)
        put_value_type(&s.profile, 1, i, 2);
    b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK(t, strstr(r.err.text, "a profile has more than 64 sample types") != NULL);
    reading_done(&r);
    buf_done(&b);
}

static void reads_several_types_of_1_7(struct test *t)
{
    struct small s = {0};
    struct reading r;

    add_elements(&s, DICTIONARY_STRINGS, 5);
    put_value_type(&s.profile, 1, 1, 2);
    put_value_type(&s.profile, 1, 3, 4);
    pb_put_u64(&s.profile, 9, 0);
    size_t at = pb_begin(&s.samples, 2);
    PACKED(&s.samples, 3, 10, 20);
    pb_end(&s.samples, at);
    struct buf b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK_STR(t, r.err.text, "");
    struct profile *p = r.set->profiles.data[0];
    CHECK_INT(t, p->n_types, 2);
    CHECK_INT(t, p->values[1][0], 20);
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "s1");
    reading_done(&r);
    buf_done(&b);

    add_elements(&s, DICTIONARY_STRINGS, 5);
    put_value_type(&s.profile, 1, 1, 2);
    put_value_type(&s.profile, 1, 3, 4);
    at = pb_begin(&s.samples, 2);
    PACKED(&s.samples, 3, 10, 20, 30);
    pb_end(&s.samples, at);
    b = small_message(&s);
    read_into(&r, &format_otlp, buf_bytes(&b), BUDGET_DEFAULT_BYTES);
    CHECK(t, strstr(r.err.text, "a sample has 3 values and its profile 2 sample types") != NULL);
    reading_done(&r);
    buf_done(&b);
}

static void knows_otlp_when_it_sees_it(struct test *t)
{
    for (int layout = V7; layout <= V10; layout++) {
        struct buf b = example(layout), other = {0}, framed = {0};
        CHECK(t, format_detect(buf_bytes(&b)) == &format_otlp);
        CHECK(t, format_detect((struct bytes){b.data, b.len / 2}) == &format_otlp);
        rewrite(&other, &otlp_schema_root, buf_bytes(&b), true, false);
        CHECK(t, format_detect(buf_bytes(&other)) == &format_otlp);
        put_frame(&framed, buf_bytes(&b));
        CHECK(t, format_detect(buf_bytes(&framed)) == &format_otlp);
        buf_done(&b);
        buf_done(&other);
        buf_done(&framed);
    }
    /* A pprof sample type, a pprof sample, and things that are no messages at all. */
    CHECK_INT(t, format_otlp.sniff(BYTES("\x0a\x04\x08\x01\x10\x02")), 0);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x12\x04\x08\x01\x10\x02")), 0);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x0a")), 0);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x1a\x00")), 0);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x00\x00\x00\x09short")), 0);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x00\x00\x00\x04\x1f\x8b\x08\x00")), 50);
    CHECK_INT(t, format_otlp.sniff(BYTES("\x00\x00\x00\x02{}")), 50);
}

static const struct test_case cases[] = {
    TEST(reads_each_layout),
    TEST(reads_fields_in_any_order_packed_or_not),
    TEST(reads_the_frames_of_the_collectors_file_exporter),
    TEST(refuses_a_damaged_packed_frame),
    TEST(tells_the_order_of_a_samples_fields),
    TEST(looks_at_keys_when_nothing_else_tells),
    TEST(one_sample_decides_for_all),
    TEST(tells_1_7_by_its_tables_profiles_and_samples),
    TEST(tells_1_8_by_its_profiles),
    TEST(refuses_layouts_before_1_7_by_name),
    TEST(names_the_table_the_index_and_the_length),
    TEST(checks_the_indices_of_samples_and_profiles),
    TEST(makes_sense_of_samples_in_odd_shapes),
    TEST(notes_what_cannot_be_kept),
    TEST(reads_pprofs_attributes_into_their_fields),
    TEST(limits_the_depth_of_values),
    TEST(resolves_strings_inside_lists),
    TEST(survives_being_cut_at_every_byte),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_any_byte_being_wrong),
    TEST(bounds_the_frames_of_1_7),
    TEST(refuses_slices_and_types_that_do_not_exist),
    TEST(reads_several_types_of_1_7),
    TEST(knows_otlp_when_it_sees_it),
};
TEST_MAIN(cases)
