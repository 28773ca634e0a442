#include <errno.h>

#include "formats/perf_data_internal.h"
#include "lib/decode.h"

#define FORMAT (&format_perf_data)

/* Files made up by the tests: numbers in either byte order. */
static bool big_endian;

static void add16(struct buf *b, uint16_t v)
{
    v = big_endian ? __builtin_bswap16(v) : v;
    buf_add(b, &v, sizeof(v));
}

static void add32(struct buf *b, uint32_t v)
{
    v = big_endian ? __builtin_bswap32(v) : v;
    buf_add(b, &v, sizeof(v));
}

static void add64(struct buf *b, uint64_t v)
{
    v = big_endian ? __builtin_bswap64(v) : v;
    buf_add(b, &v, sizeof(v));
}

static void add_text(struct buf *b, const char *s)
{
    size_t n = strlen(s) + 1;

    buf_add(b, s, n);
    for (; n % 8; n++)
        buf_add_byte(b, 0);
}

static void add_record(struct buf *b, uint32_t type, uint16_t misc, const struct buf *body)
{
    add32(b, type);
    add16(b, misc);
    add16(b, (uint16_t)(8 + body->len));
    buf_add_bytes(b, buf_bytes(body));
}

/* Appends a record and empties its body. */
static void put(struct buf *b, uint32_t type, uint16_t misc, struct buf *body)
{
    add_record(b, type, misc, body);
    buf_clear(body);
}

#define SAMPLE_TYPE                                                                                \
    (PERF_HAS_IP | PERF_HAS_TID | PERF_HAS_TIME | PERF_HAS_CALLCHAIN | PERF_HAS_ID |               \
     PERF_HAS_CPU | PERF_HAS_PERIOD)

static void add_flags(struct buf *b, uint64_t flags)
{
    for (int i = 0; i < 8; i++, flags >>= 8) {
        uint8_t byte = (uint8_t)flags, turned = 0;
        for (int k = 0; k < 8; k++)
            turned |= (uint8_t)((byte >> k & 1) << (7 - k));
        buf_add_byte(b, big_endian ? turned : byte);
    }
}

static void add_attr(struct buf *b, uint32_t type, uint64_t config, uint64_t sample_type,
                     uint64_t flags)
{
    add32(b, type);
    add32(b, 64);
    add64(b, config);
    add64(b, 1000); /* period */
    add64(b, sample_type);
    add64(b, 0); /* read format */
    add_flags(b, flags);
    add64(b, 0);
    add64(b, 0);
}

/* What follows every record that is not a sample. */
static void add_trailer(struct buf *b, uint32_t pid, uint32_t tid, uint64_t time, uint64_t id)
{
    add32(b, pid);
    add32(b, tid);
    add64(b, time);
    add64(b, id);
    add64(b, 1); /* cpu */
}

static void put_mmap(struct buf *b, uint32_t pid, uint64_t start, uint64_t len, uint64_t pgoff,
                     const char *file, uint64_t time)
{
    struct buf body = {0};
    add32(&body, pid);
    add32(&body, pid);
    add64(&body, start);
    add64(&body, len);
    add64(&body, pgoff);
    add_text(&body, file);
    add_trailer(&body, pid, pid, time, 7);
    put(b, PERF_MMAP, pid == UINT32_MAX ? 1 : 2, &body);
    buf_done(&body);
}

static void put_mmap2(struct buf *b, uint32_t pid, uint64_t start, uint64_t len, uint64_t pgoff,
                      const char *file)
{
    struct buf body = {0};
    add32(&body, pid);
    add32(&body, pid);
    add64(&body, start);
    add64(&body, len);
    add64(&body, pgoff);
    buf_add(&body, "\x03\0\0\0\xab\xcd\xef\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    add64(&body, 5);
    add_text(&body, file);
    add_trailer(&body, pid, pid, 10, 7);
    put(b, PERF_MMAP2, 2 | 1 << 14, &body);
    buf_done(&body);
}

static void put_comm(struct buf *b, uint32_t pid, uint32_t tid, const char *comm, uint64_t time)
{
    struct buf body = {0};
    add32(&body, pid);
    add32(&body, tid);
    add_text(&body, comm);
    add_trailer(&body, pid, tid, time, 7);
    put(b, PERF_COMM, 0, &body);
    buf_done(&body);
}

static void put_fork(struct buf *b, uint32_t pid, uint32_t parent, uint64_t time)
{
    struct buf body = {0};
    add32(&body, pid);
    add32(&body, parent);
    add32(&body, pid);
    add32(&body, parent);
    add64(&body, time);
    add_trailer(&body, pid, pid, time, 7);
    put(b, PERF_FORK, 0, &body);
    buf_done(&body);
}

struct chain {
    size_t n;
    uint64_t at[8];
};

static void put_sample(struct buf *b, uint32_t pid, uint64_t time, uint64_t id, struct chain chain)
{
    struct buf body = {0};
    add64(&body, chain.n > 1 ? chain.at[1] : 0x1234);
    add32(&body, pid);
    add32(&body, pid);
    add64(&body, time);
    add64(&body, id);
    add32(&body, 3);
    add32(&body, 0);
    add64(&body, 500);
    add64(&body, chain.n);
    for (size_t i = 0; i < chain.n; i++)
        add64(&body, chain.at[i]);
    put(b, PERF_SAMPLE, 2, &body);
    buf_done(&body);
}

static void add_feature_string(struct buf *b, const char *s)
{
    add32(b, 64);
    size_t n = strlen(s);
    buf_add(b, s, n);
    for (; n < 64; n++)
        buf_add_byte(b, 0);
}

#define USER   ((uint64_t)-512)
#define KERNEL ((uint64_t)-128)

/* Records out of the order of time, as those of several CPUs are. */
static void put_records(struct buf *b)
{
    put_mmap(b, UINT32_MAX, 0xffffffff81000000, 0x1000000, 0xffffffff81000000,
             "[kernel.kallsyms]_text", 0);
    put_sample(b, 20, 60, 7, (struct chain){3, {USER, 0x401010, 0x401100}});
    put_sample(b, 10, 50, 7,
               (struct chain){5, {KERNEL, 0xffffffff81000010, USER, 0x401010, 0x402100}});
    put_comm(b, 10, 10, "work", 5);
    put_mmap(b, 10, 0x401000, 0x3000, 0x1000, "/bin/work", 10);
    put_fork(b, 20, 10, 55);
    put_comm(b, 20, 20, "child", 56);
    put_mmap(b, 20, 0x401000, 0x80, 0, "/bin/other", 57);
    put_mmap2(b, 30, 0x7000, 0x1000, 0x2000, "/lib/x.so");
    put_mmap(b, 30, 0x9000, 0x1000, 0, "//anon", 10);
    put_sample(b, 30, 70, 8, (struct chain){3, {USER, 0x7004, 0x9006}});
    put_sample(b, 0, 71, 8, (struct chain){0, {0}});
}

static void put_lost(struct buf *b, uint64_t lost)
{
    struct buf body = {0};
    add64(&body, 7);
    add64(&body, lost);
    put(b, PERF_LOST, 0, &body);
    add64(&body, lost);
    put(b, PERF_LOST_SAMPLES, 0, &body);
    buf_done(&body);
}

/* A file in file mode: header, attributes with ids 7 and 8, data, four features. */
static void make_file(struct buf *out, const struct buf *data)
{
    struct buf ids = {0}, attrs = {0}, features = {0};
    uint64_t ids_at = 104, attrs_at = ids_at + 16, data_at = attrs_at + 2 * 80;
    uint64_t table_at = data_at + data->len, feature_at = table_at + 4 * 16;

    add64(&ids, 7);
    add64(&ids, 8);
    add_attr(&attrs, 0, 0, SAMPLE_TYPE, PERF_FLAG_SAMPLE_ID_ALL | PERF_FLAG_EXCLUDE_GUEST);
    add64(&attrs, ids_at);
    add64(&attrs, 8);
    add_attr(&attrs, 1, 2, SAMPLE_TYPE, PERF_FLAG_SAMPLE_ID_ALL | PERF_FLAG_EXCLUDE_GUEST);
    add64(&attrs, ids_at + 8);
    add64(&attrs, 8);

    buf_add(out, big_endian ? "2ELIFREP" : "PERFILE2", 8);
    add64(out, 104);
    add64(out, 80);
    add64(out, attrs_at);
    add64(out, attrs.len);
    add64(out, data_at);
    add64(out, data->len);
    add64(out, 0);
    add64(out, 0);
    add64(out, 1 << 2 | 1 << 3 | 1 << 11 | 1 << 12);
    for (int i = 0; i < 3; i++)
        add64(out, 0);
    buf_add_bytes(out, buf_bytes(&ids));
    buf_add_bytes(out, buf_bytes(&attrs));
    buf_add_bytes(out, buf_bytes(data));

    struct buf body = {0};
    size_t ends[4];
    add32(&body, UINT32_MAX);
    buf_add(&body, "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef\0\0\0\0\0\0\0",
            24);
    add_text(&body, "/bin/work");
    put(&features, 0, 0, &body);
    ends[0] = features.len;
    add_feature_string(&features, "box");
    ends[1] = features.len;
    add32(&features, 2);
    add_feature_string(&features, "perf");
    add_feature_string(&features, "record");
    ends[2] = features.len;
    add32(&features, 1);
    add32(&features, 64);
    add_attr(&features, 0, 0, 0, 0);
    add32(&features, 1);
    add_feature_string(&features, "my-cycles");
    add64(&features, 7);
    ends[3] = features.len;
    for (size_t i = 0; i < 4; i++) {
        size_t from = i ? ends[i - 1] : 0;
        add64(out, feature_at + from);
        add64(out, ends[i] - from);
    }
    buf_add_bytes(out, buf_bytes(&features));
    buf_done(&ids);
    buf_done(&attrs);
    buf_done(&features);
    buf_done(&body);
}

static void make_sample_file(struct buf *out)
{
    struct buf data = {0};

    put_records(&data);
    put_lost(&data, 21);
    make_file(out, &data);
    buf_done(&data);
}

static const struct mapping *leaf_mapping(const struct dict *d, uint32_t node)
{
    return &d->mappings.data[d->locations.data[d->node_location.data[node]].mapping];
}

static const char *label(struct dict *d, uint32_t attrs, const char *key)
{
    uint32_t a = dict_attrs_get(d, attrs, dict_cstring(d, key));

    return dict_cstr(d, d->attributes.data[a].text);
}

static void check_sample_file(struct test *t, struct decoded *d)
{
    CHECK_STR(t, d->err.text, "");
    CHECK_INT(t, d->r, 0);
    if (d->r < 0)
        return;
    const struct profile *p = d->set->profiles.data[0];
    struct dict *dict = d->set->dict;
    CHECK_INT(t, p->n_samples, 4);
    CHECK_INT(t, decoded_total(t, d, "my-cycles_samples", "count"), 2);
    CHECK_INT(t, decoded_total(t, d, "my-cycles", "count"), 1000);
    CHECK_INT(t, decoded_total(t, d, "page-faults_samples", "count"), 2);
    CHECK_STR(t, dict_cstr(dict, p->default_type), "my-cycles");

    /* Sample at 50: kernel on top of /bin/work, whose addresses are offsets in the file. */
    CHECK_INT(t, p->time_ns[0], 50);
    CHECK_STACK(t, dict, p->node[0], "0x20ff;0x1010;0xffffffff81000010");
    CHECK_STR(t, leaf_type(dict, p->node[0]), "kernel");
    CHECK_STR(t, dict_cstr(dict, leaf_mapping(dict, p->node[0])->file), "[kernel.kallsyms]");
    uint32_t user = dict->node_parent.data[p->node[0]];
    CHECK_STR(t, leaf_type(dict, user), "native");
    const struct mapping *m = leaf_mapping(dict, user);
    CHECK_STR(t, dict_cstr(dict, m->file), "/bin/work");
    CHECK_STR(t, dict_cstr(dict, m->build_id), "0123456789abcdef0123456789abcdef00000000");
    CHECK_INT(t, p->default_mapping, m - dict->mappings.data);
    CHECK_INT(t, m->start, 0x1000);
    CHECK_INT(t, m->limit, 0x4000);
    CHECK_INT(t, m->offset, 0x1000);
    CHECK_STR(t, label(dict, p->attrs[0], "thread.name"), "work");

    /* At 60: the child inherited /bin/work and has another file over its beginning. */
    CHECK_STACK(t, dict, p->node[1], "0x10ff;0x10");
    CHECK_STR(t, dict_cstr(dict, leaf_mapping(dict, p->node[1])->file), "/bin/other");
    CHECK_STR(t, dict_cstr(dict, leaf_mapping(dict, dict->node_parent.data[p->node[1]])->file),
              "/bin/work");
    CHECK_STR(t, label(dict, p->attrs[1], "process.executable.name"), "child");

    /* At 70: code written at run time keeps its address. */
    CHECK_STACK(t, dict, p->node[2], "0x9005;0x2004");
    CHECK_STR(t, dict_cstr(dict, leaf_mapping(dict, p->node[2])->build_id), "abcdef");
    CHECK_STACK(t, dict, p->node[3], "0x1234");
    CHECK_STR(t, label(dict, p->attrs[3], "thread.name"), "swapper");
    CHECK_STR(t, label(dict, p->resource_attrs, "host.name"), "box");
    CHECK_STR(t, dict_cstr(dict, p->comments.data[0]), "perf record");
    CHECK_INT(t, p->duration_ns, 21);
    CHECK(t, has_note(d, "42 events were lost"));
    CHECK(t,
          has_note(d, "records: MMAP 4, LOST 1, COMM 2, FORK 1, SAMPLE 4, MMAP2 1, LOST_SAMPLES"));
}

static void a_file_is_read_in_the_order_of_time(struct test *t)
{
    for (int swap = 0; swap < 2; swap++) {
        struct buf file = {0};
        struct decoded d;
        big_endian = swap;
        make_sample_file(&file);
        decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
        check_sample_file(t, &d);
        decoded_done(t, &d);
        buf_done(&file);
    }
    big_endian = false;
}

static void put_pipe_attr(struct buf *b, uint32_t type, uint64_t config, uint64_t id,
                          uint64_t sample_type, uint64_t flags)
{
    struct buf body = {0};
    add_attr(&body, type, config, sample_type, flags | PERF_FLAG_SAMPLE_ID_ALL);
    add64(&body, id);
    put(b, PERF_HEADER_ATTR, 0, &body);
    buf_done(&body);
}

static void put_pipe_header(struct buf *b)
{
    buf_add(b, big_endian ? "2ELIFREP" : "PERFILE2", 8);
    add64(b, 16);
}

static void put_pipe_meta(struct buf *b)
{
    struct buf body = {0};

    put_pipe_attr(b, 0, 0, 7, SAMPLE_TYPE, PERF_FLAG_EXCLUDE_GUEST);
    put_pipe_attr(b, 1, 2, 8, SAMPLE_TYPE, PERF_FLAG_EXCLUDE_GUEST);
    add64(&body, 2); /* the name... */
    add64(&body, 7); /* of the event with this id */
    add_text(&body, "my-cycles");
    put(b, PERF_EVENT_UPDATE, 0, &body);
    add64(&body, 3);
    add_feature_string(&body, "box");
    put(b, PERF_HEADER_FEATURE, 0, &body);
    add64(&body, 11);
    add32(&body, 2);
    add_feature_string(&body, "perf");
    add_feature_string(&body, "record");
    put(b, PERF_HEADER_FEATURE, 0, &body);
    add32(&body, UINT32_MAX);
    buf_add(&body,
            "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef\0\0\0\0\x14\0\0", 24);
    add_text(&body, "/bin/work");
    put(b, PERF_BUILD_ID, 1 << 15, &body);
    add32(&body, 13); /* bytes behind the record, rounded up */
    add32(&body, 0);
    put(b, PERF_TRACING_DATA, 0, &body);
    buf_add(b, "0123456789abcdef", 16);
    add64(&body, 5);
    put(b, PERF_AUXTRACE, 0, &body);
    buf_add(b, "trace", 5);
    buf_done(&body);
}

static void a_pipe_describes_itself_in_records(struct test *t)
{
    for (int swap = 0; swap < 2; swap++) {
        struct buf file = {0};
        struct decoded d;
        big_endian = swap;
        put_pipe_header(&file);
        put_pipe_meta(&file);
        put_records(&file);
        put_lost(&file, 21);
        decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
        check_sample_file(t, &d);
        decoded_done(t, &d);
        buf_done(&file);
    }
    big_endian = false;
}

/* A zstd frame of one raw block. */
static void zstd_frame(struct bytes content, struct buf *out)
{
    uint32_t block = 1u | (uint32_t)content.len << 3;

    buf_add(out, "\x28\xb5\x2f\xfd\xa0", 5); /* single segment, size in four bytes */
    buf_add(out, &(uint32_t){(uint32_t)content.len}, 4);
    buf_add(out, &block, 3);
    buf_add_bytes(out, content);
}

static void compressed_records_are_one_stream(struct test *t)
{
    struct buf records = {0}, zstd = {0}, file = {0};
    struct decoded d;

    put_records(&records);
    put_lost(&records, 21);
    zstd_frame(buf_bytes(&records), &zstd);
    put_pipe_header(&file);
    put_pipe_meta(&file);
    /* Cut anywhere: a record may begin in one piece and end in the next. */
    for (size_t at = 0; at < zstd.len; at += 101) {
        struct bytes piece = bytes_head(bytes_from(buf_bytes(&zstd), at), 101);
        struct buf body = {0};
        buf_add_bytes(&body, piece);
        put(&file, PERF_COMPRESSED, 0, &body);
        buf_done(&body);
    }
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    check_sample_file(t, &d);
    CHECK(t, has_note(&d, "COMPRESSED"));
    decoded_done(t, &d);

    size_t pipe = file.len;
    struct buf body = {0};
    buf_add_str(&body, "not zstd at all");
    put(&file, PERF_COMPRESSED, 0, &body);
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_INT(t, d.r, -EBADMSG);
    char want[64];
    snprintf(want, sizeof(want), "test: perf.data at byte %zu: ", pipe);
    CHECK(t, strncmp(d.err.text, want, strlen(want)) == 0);
    decoded_done(t, &d);

    /* The stream ends inside a record. */
    buf_clear(&file);
    put_pipe_header(&file);
    put_pipe_meta(&file);
    buf_clear(&zstd);
    zstd_frame(bytes_head(buf_bytes(&records), 20), &zstd);
    buf_add_bytes(&body, buf_bytes(&zstd));
    put(&file, PERF_COMPRESSED, 0, &body);
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_STR(t, d.err.text,
              "test: perf.data at byte 0 of the compressed records: a record of 96 bytes runs past "
              "the end");
    decoded_done(t, &d);
    buf_done(&body);
    buf_done(&records);
    buf_done(&zstd);
    buf_done(&file);
}

static void wall_clock_times_follow_from_the_clock_feature(struct test *t)
{
    struct buf file = {0}, body = {0};
    struct decoded d;

    put_pipe_header(&file);
    put_pipe_meta(&file);
    add64(&body, 29);
    add32(&body, 1);
    add32(&body, 1);
    add64(&body, 1000000);
    add64(&body, 40);
    put(&file, PERF_HEADER_FEATURE, 0, &body);
    put_records(&file);
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, d.set->profiles.data[0]->time_ns[0], 1000010);
    CHECK_INT(t, d.set->profiles.data[0]->time_unix_ns, 1000010);
    CHECK(t, !has_note(&d, "perf's clock"));
    decoded_done(t, &d);
    buf_done(&file);
    buf_done(&body);
}

/* Fields that precede the call chain in a sample are stepped over, whatever they are. */
static void every_field_in_front_of_the_call_chain_is_known(struct test *t)
{
    uint64_t all = SAMPLE_TYPE | PERF_HAS_IDENTIFIER | PERF_HAS_ADDR | PERF_HAS_STREAM_ID |
                   PERF_HAS_READ | PERF_HAS_RAW | PERF_HAS_BRANCHES | PERF_HAS_USER_STACK;
    struct buf file = {0}, body = {0};
    struct decoded d;

    put_pipe_header(&file);
    for (uint64_t format = 0; format < 32; format++) {
        add32(&body, 4);
        add32(&body, 64);
        add64(&body, format);
        add64(&body, 1000);
        add64(&body, all);
        add64(&body, format);
        add_flags(&body, PERF_FLAG_EXCLUDE_GUEST);
        add64(&body, 0);
        add64(&body, 0);
        add64(&body, 100 + format);
        put(&file, PERF_HEADER_ATTR, 0, &body);
    }
    for (uint64_t format = 0; format < 32; format++) {
        add64(&body, 100 + format); /* identifier */
        add64(&body, 0x10);
        add32(&body, 1);
        add32(&body, 2);
        add64(&body, 99);
        add64(&body, 0xdead);
        add64(&body, 100 + format);
        add64(&body, 0xdead);
        add64(&body, 0);
        add64(&body, 6);
        bool is_group = format & 8;
        uint64_t n = is_group ? 3 : 1;
        if (is_group)
            add64(&body, n);
        else
            add64(&body, 0xdead);
        for (int i = 0; i < __builtin_popcountll(format & 3); i++)
            add64(&body, 0xdead);
        uint64_t each = (uint64_t)__builtin_popcountll(format & 20);
        for (uint64_t i = 0; i < (is_group ? n * (each + 1) : each); i++)
            add64(&body, 0xdead);
        add64(&body, 2);
        add64(&body, USER);
        add64(&body, 0x77);
        add64(&body, 12345); /* whatever raw data, branches and stacks follow */
        put(&file, PERF_SAMPLE, 2, &body);
    }
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_STR(t, d.err.text, "");
    const struct profile *p = d.set->profiles.data[0];
    CHECK_INT(t, p->n_samples, 32);
    for (size_t i = 0; i < p->n_samples; i++)
        CHECK_STACK(t, p->dict, p->node[i], "0x77");
    CHECK_INT(t, decoded_total(t, &d, "raw 0x1f", "count"), 6);
    CHECK(t, has_note(&d, "32 samples hold a copy of the stack"));
    CHECK(t, has_note(&d, "branch records of 32 samples"));
    CHECK(t, has_note(&d, "raw data of 32 samples"));
    decoded_done(t, &d);
    buf_done(&file);
    buf_done(&body);
}

static void events_without_names_are_called_as_perf_calls_them(struct test *t)
{
    static const struct {
        uint32_t type;
        uint64_t config, flags;
        const char *name;
    } cases[] = {
        {0, 0, PERF_FLAG_EXCLUDE_GUEST, "cycles"},
        {0, 4, PERF_FLAG_EXCLUDE_GUEST | 2 << PERF_FLAG_PRECISE_SHIFT, "branches:ppH"},
        {0, 1, PERF_FLAG_EXCLUDE_GUEST | PERF_FLAG_EXCLUDE_KERNEL | PERF_FLAG_EXCLUDE_HV,
         "instructions:uH"},
        {0, 1, PERF_FLAG_EXCLUDE_USER, "instructions:kh"},
        {0, 0, 0, "cycles:HG"},
        {0, 0, PERF_FLAG_EXCLUDE_HOST, "cycles:G"},
        {0, 99, PERF_FLAG_EXCLUDE_GUEST, "unknown-hardware"},
        {1, 1, PERF_FLAG_EXCLUDE_GUEST, "task-clock"},
        {1, 99, PERF_FLAG_EXCLUDE_GUEST, "unknown-software"},
        {2, 321, 0, "tracepoint 321"},
        {3, 0x10000, PERF_FLAG_EXCLUDE_GUEST, "L1-dcache-load-misses"},
        {3, 0x00203, PERF_FLAG_EXCLUDE_GUEST, "dTLB-prefetches"},
        {3, 0x00102, PERF_FLAG_EXCLUDE_GUEST, "LLC-stores"},
        {3, 0xff, PERF_FLAG_EXCLUDE_GUEST, "invalid-cache"},
        {4, 0x1c2, PERF_FLAG_EXCLUDE_GUEST, "raw 0x1c2"},
        {5, 0, PERF_FLAG_EXCLUDE_GUEST, "mem:0x77:rw"},
        {9, 3, PERF_FLAG_EXCLUDE_GUEST, "pmu 9 0x3"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct perf_attr a = {.type = cases[i].type,
                              .config = cases[i].config,
                              .flags = cases[i].flags,
                              .bp_type = 3,
                              .bp_address = 0x77};
        struct buf name = {0};
        perf_event_name(&a, &name);
        CHECK_STR(t, buf_cstr(&name), cases[i].name);
        buf_done(&name);
    }
}

static void one_event_counts_samples(struct test *t)
{
    struct buf file = {0};
    struct decoded d;

    put_pipe_header(&file);
    put_pipe_attr(&file, 1, 0, 7, SAMPLE_TYPE & ~(uint64_t)PERF_HAS_PERIOD & ~(uint64_t)PERF_HAS_ID,
                  PERF_FLAG_EXCLUDE_GUEST);
    struct buf body = {0};
    add64(&body, 0x10);
    add64(&body, 0);
    add64(&body, 5);
    add64(&body, 1);
    add64(&body, 0);
    put(&file, PERF_SAMPLE, 1, &body);
    add32(&body, 0);
    put(&file, 200, 0, &body);
    put(&file, 95, 0, &body);
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_STR(t, d.err.text, "");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 1);
    CHECK_INT(t, decoded_total(t, &d, "cpu-clock", "nanoseconds"), 1000);
    CHECK_INT(t, d.set->profiles.data[0]->period, 1000);
    CHECK_STR(t, leaf_type(d.set->dict, d.set->profiles.data[0]->node[0]), "kernel");
    CHECK(t, has_note(&d, "type 95 1, of unknown types 1"));
    decoded_done(t, &d);
    buf_done(&file);
    buf_done(&body);
}

static void check_error(struct test *t, struct buf *file, const char *want)
{
    struct decoded d;

    decode_bytes(&d, FORMAT, buf_bytes(file), 1 << 26);
    CHECK_INT(t, d.r, -EBADMSG);
    CHECK_STR(t, d.err.text, want);
    decoded_done(t, &d);
    buf_clear(file);
}

static void refuses_damaged_headers_and_says_where(struct test *t)
{
    struct buf file = {0}, empty = {0};

    buf_add_str(&file, "PERFILE2");
    check_error(t, &file, "test: perf.data at byte 0: not a perf.data header");
    buf_add_str(&file, "PERFILE2");
    add64(&file, 17);
    check_error(t, &file, "test: perf.data at byte 8: a file header of unknown size");
    buf_add_str(&file, "PERFILE2");
    add64(&file, 104);
    check_error(t, &file, "test: perf.data at byte 16: the file header is cut short");

    static const struct {
        size_t at;
        uint64_t value;
        const char *why;
    } cases[] = {
        {16, 16, "test: perf.data at byte 16: event attributes have no size"},
        {16, 70, "test: perf.data at byte 120: event attributes are cut short"},
        {24, 1 << 20,
         "test: perf.data at byte 24: the event attributes lie past the end of the file"},
        {48, UINT64_MAX,
         "test: perf.data at byte 40: the data section runs past the end of the file"},
        {120 + 64, 1 << 20,
         "test: perf.data at byte 120: the ids of an event lie past the end of the file"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        make_file(&file, &empty);
        memcpy(file.data + cases[i].at, &cases[i].value, 8);
        check_error(t, &file, cases[i].why);
    }

    struct buf data = {0};
    put_lost(&data, 0);
    make_file(&file, &data);
    memset(file.data + 280 + data.len, 0xff, 8);
    check_error(t, &file, "test: perf.data at byte 320: a feature lies past the end of the file");
    make_file(&file, &data);
    file.len = 280 + data.len + 16 + 3;
    check_error(t, &file, "test: perf.data at byte 320: a feature lies past the end of the file");
    make_file(&file, &data);
    file.len = 280 + data.len + 3;
    check_error(t, &file, "test: perf.data at byte 320: the table of features is cut short");
    buf_done(&data);
    buf_done(&file);
    buf_done(&empty);
}

static void a_recording_that_was_cut_off_is_read_to_its_end(struct test *t)
{
    struct buf file = {0}, empty = {0};
    struct decoded d;

    make_file(&file, &empty);
    file.len = 280; /* no features: they come at the end */
    put_records(&file);
    decode_bytes(&d, FORMAT, buf_bytes(&file), 1 << 26);
    CHECK_STR(t, d.err.text, "");
    CHECK(t, has_note(&d, "did not end properly"));
    CHECK_INT(t, decoded_total(t, &d, "cycles_samples", "count"), 2);
    decoded_done(t, &d);
    buf_done(&file);
    buf_done(&empty);
}

static void refuses_damaged_records_and_says_where(struct test *t)
{
    struct buf file = {0}, body = {0};

    put_pipe_header(&file);
    buf_add(&file, "\x03\0\0\0\0\0\x07\0", 8);
    check_error(t, &file,
                "test: perf.data at byte 16: a record of 7 bytes is smaller than its header");
    put_pipe_header(&file);
    buf_add(&file, "\x03\0\0\0\0\0\xff\xff", 8);
    check_error(t, &file, "test: perf.data at byte 16: a record of 65535 bytes runs past the end");
    put_pipe_header(&file);
    buf_add(&file, "\x03\0\0", 3);
    check_error(t, &file, "test: perf.data at byte 16: a record header is cut short");
    put_pipe_header(&file);
    put(&file, 0, 0, &body);
    check_error(t, &file, "test: perf.data at byte 16: a record of type 0");
    put_pipe_header(&file);
    add64(&body, 99);
    put(&file, PERF_AUXTRACE, 0, &body);
    check_error(t, &file, "test: perf.data at byte 16: 99 bytes behind a record run past the end");
    put_pipe_header(&file);
    put(&file, PERF_SAMPLE, 0, &body);
    check_error(t, &file, "test: perf.data at byte 16: a sample, and no event was described");
    put_pipe_header(&file);
    add64(&body, (uint64_t)4000 << 32);
    put(&file, PERF_HEADER_ATTR, 0, &body);
    check_error(t, &file, "test: perf.data at byte 16: event attributes of 4000 bytes do not fit");
    static const struct {
        uint32_t type;
        const char *why;
    } cases[] = {
        {PERF_MMAP, "test: perf.data at byte 16: a mapping is cut short"},
        {PERF_MMAP2, "test: perf.data at byte 16: a mapping is cut short"},
        {PERF_COMM, "test: perf.data at byte 16: a thread name is cut short"},
        {PERF_FORK, "test: perf.data at byte 16: a fork is cut short"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        put_pipe_header(&file);
        add32(&body, 1);
        put(&file, cases[i].type, 0, &body);
        check_error(t, &file, cases[i].why);
    }
    put_pipe_header(&file);
    put_pipe_attr(&file, 0, 0, 7, SAMPLE_TYPE, 0);
    size_t at = file.len;
    char want[200];
    put_sample(&file, 1, 2, 7, (struct chain){0, {0}});
    memset(file.data + file.len - 8, 0xff, 8);
    snprintf(want, sizeof(want),
             "test: perf.data at byte %zu: a call chain of 18446744073709551615 entries runs past "
             "the end of its sample",
             at);
    check_error(t, &file, want);
    put_pipe_header(&file);
    put_pipe_attr(&file, 0, 0, 7, SAMPLE_TYPE, 0);
    add64(&body, 1);
    put(&file, PERF_SAMPLE, 0, &body);
    snprintf(want, sizeof(want),
             "test: perf.data at byte %zu: a sample is shorter than its event says", at);
    check_error(t, &file, want);
    buf_done(&file);
    buf_done(&body);
}

static void odd_but_harmless_content_is_noted(struct test *t)
{
    struct buf file = {0}, body = {0};
    struct decoded d;

    put_pipe_header(&file);
    put_pipe_meta(&file);
    put_sample(&file, 1, 5, 99, (struct chain){0, {0}}); /* no event has this id */
    put_sample(&file, 1, 5, 0, (struct chain){2, {(uint64_t)-2048, 0x10}});
    add64(&body, 12); /* features that end too soon say nothing */
    add32(&body, 5);
    put(&file, PERF_HEADER_FEATURE, 0, &body);
    add64(&body, 29);
    put(&file, PERF_HEADER_FEATURE, 0, &body);
    add64(&body, 2);
    add64(&body, 1);
    put(&file, PERF_HEADER_FEATURE, 0, &body);
    add64(&body, UINT64_MAX);
    put(&file, PERF_HEADER_FEATURE, 0, &body);
    put(&file, PERF_BUILD_ID, 0, &body);
    decode_bytes(&d, NULL, buf_bytes(&file), 1 << 26);
    CHECK_STR(t, d.err.text, "");
    CHECK(t, has_note(&d, "1 samples have an id of no event"));
    CHECK_INT(t, d.set->profiles.data[0]->n_samples, 1);
    decoded_done(t, &d);
    buf_done(&file);
    buf_done(&body);
}

static void too_many_events_are_refused(struct test *t)
{
    struct buf file = {0};

    put_pipe_header(&file);
    for (uint64_t i = 0; i < 33; i++)
        put_pipe_attr(&file, 4, i, 100 + i, SAMPLE_TYPE, PERF_FLAG_EXCLUDE_GUEST);
    for (uint64_t i = 0; i < 33; i++)
        put_sample(&file, 1, 2, 100 + i, (struct chain){0, {0}});
    check_error(t, &file, "test: perf.data: more than 32 events have samples");
    put_pipe_header(&file);
    for (uint64_t i = 0; i < 4097; i++)
        put_pipe_attr(&file, 4, i, i, SAMPLE_TYPE, 0);
    check_error(t, &file, "test: perf.data at byte 327696: more than 4096 events");
    buf_done(&file);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    struct buf file = {0};

    make_sample_file(&file);
    check_budget_sweep(t, FORMAT, buf_bytes(&file), 1009);
    buf_done(&file);
}

static void survives_being_cut_or_changed_anywhere(struct test *t)
{
    struct buf file = {0};

    make_sample_file(&file);
    check_truncation(t, FORMAT, buf_bytes(&file));
    for (size_t i = 0; i < file.len; i++) {
        static const uint8_t values[] = {0, 1, 0x7f, 0xff};
        uint8_t old = file.data[i];
        for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
            struct decoded d;
            file.data[i] = values[k];
            decode_bytes(&d, FORMAT, buf_bytes(&file), 1 << 24);
            decoded_done(t, &d);
        }
        file.data[i] = old;
    }
    buf_done(&file);
}

static const struct test_case cases[] = {
    TEST(a_file_is_read_in_the_order_of_time),
    TEST(a_pipe_describes_itself_in_records),
    TEST(compressed_records_are_one_stream),
    TEST(wall_clock_times_follow_from_the_clock_feature),
    TEST(every_field_in_front_of_the_call_chain_is_known),
    TEST(events_without_names_are_called_as_perf_calls_them),
    TEST(one_event_counts_samples),
    TEST(refuses_damaged_headers_and_says_where),
    TEST(a_recording_that_was_cut_off_is_read_to_its_end),
    TEST(refuses_damaged_records_and_says_where),
    TEST(odd_but_harmless_content_is_noted),
    TEST(too_many_events_are_refused),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_or_changed_anywhere),
};
TEST_MAIN(cases)
