#include <errno.h>

#include "lib/test.h"
#include "segment/varint.h"
#include "store_local/version.h"

/* A version with everything in it. */
static struct version *make_version(void)
{
    struct version *v = version_new();
    struct budget *b = &v->budget;

    v->generation = 7;
    v->next_id = 1000;
    v->flushed_wal = 41;
    v->tombstone_seq = 9;
    v->disk_limit = (uint64_t)1 << 40;
    for (uint32_t i = 1; i <= 3; i++) {
        (void)vec_push(b, &v->tenants,
                       (struct tenant_entry){.id = i,
                                             .name = strdup("acme"),
                                             .series_file_len = 100 * i,
                                             .policy = {.max_age_ns = DAY_NS, .max_bytes = i}});
        (void)vec_push(b, &v->epochs,
                       (struct epoch_entry){.id = 10 * i,
                                            .file_len = 5,
                                            .tenant = i,
                                            .service = strdup(i == 2 ? "" : "checkout"),
                                            .created_ns = -5,
                                            .mark = {.strings = i, .nodes = UINT32_MAX}});
        (void)vec_push(b, &v->tombstones,
                       (struct tombstone){.seq = i,
                                          .tenant = i,
                                          .from_ns = INT64_MIN,
                                          .to_ns = INT64_MAX,
                                          .selector = strdup("{pod=\"x\"}")});
        struct segment *s = calloc(1, sizeof(*s));
        s->refs = 1;
        s->id = 100 + i;
        s->kind = i == 3 ? SEGMENT_SPANS : SEGMENT_PROFILES;
        s->tenant = i;
        s->tier = (uint8_t)i;
        s->window_start_ns = -HOUR_NS;
        s->window_len_ns = HOUR_NS;
        s->min_ns = -3;
        s->max_ns = 3;
        s->n_rows = 77;
        s->n_samples = 777;
        s->bytes = 7777;
        s->tombstone_seq = 2;
        s->epochs = calloc(2, sizeof(*s->epochs));
        s->epochs[0] = 10;
        s->epochs[1] = 30;
        s->n_epochs = 2;
        (void)vec_push(b, &v->segments, s);
    }
    return v;
}

static void reads_back_what_it_wrote(struct test *t)
{
    CLEANUP(version_discardp) struct version *v = make_version();
    CLEANUP(version_discardp) struct version *again = NULL;
    CLEANUP(buf_done) struct buf first = {0}, second = {0};

    version_encode(v, &first);
    CHECK_INT(t, version_decode(buf_bytes(&first), &again, NULL), 0);
    version_encode(again, &second);
    CHECK(t, bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    CHECK_INT(t, again->refs, 1);
    CHECK_INT(t, again->flushed_wal, 41);
    CHECK_INT(t, again->segments.data[2]->kind, SEGMENT_SPANS);
    CHECK_INT(t, again->segments.data[1]->epochs[1], 30);
    CHECK_INT(t, again->epochs.data[0].mark.nodes, UINT32_MAX);
    CHECK_INT(t, again->epochs.data[0].created_ns, -5);
    CHECK_STR(t, again->tombstones.data[1].selector, "{pod=\"x\"}");
    CHECK_INT(t, again->tombstones.data[1].from_ns, INT64_MIN);
    CHECK_STR(t, again->tenants.data[2].name, "acme");
    CHECK(t, version_epoch(again, 20) == &again->epochs.data[1]);
    CHECK(t, version_epoch(again, 21) == NULL);
}

static void refuses_a_newer_format_by_name(struct test *t)
{
    CLEANUP(buf_done) struct buf content = {0};
    struct version *v = NULL;
    struct error err = {{0}};

    add_varint(&content, VERSION_FORMAT + 1);
    CHECK_INT(t, version_decode(buf_bytes(&content), &v, &err), -EPROTONOSUPPORT);
    CHECK_STR(t, err.text, "the manifest has format 2, this program knows up to 1");
    CHECK(t, v == NULL);
}

/* Cut anywhere, lengthened, or any byte changed: refused, or read as something that is sound. */
static void survives_any_damage(struct test *t)
{
    CLEANUP(version_discardp) struct version *v = make_version();
    CLEANUP(buf_done) struct buf content = {0};
    struct error err = {{0}};

    version_encode(v, &content);
    for (size_t len = 0; len < content.len; len++) {
        struct version *again = NULL;
        CHECK_INT(t, version_decode((struct bytes){content.data, len}, &again, &err), -EBADMSG);
        CHECK(t, strncmp(err.text, "the manifest is damaged in its ", 31) == 0);
    }
    for (size_t i = 0; i < content.len; i++) {
        for (unsigned bit = 1; bit < 256; bit <<= 1) {
            CLEANUP(version_discardp) struct version *again = NULL;
            content.data[i] ^= (uint8_t)bit;
            int r = version_decode(buf_bytes(&content), &again, &err);
            CHECK(t, r == 0 || r == -EBADMSG || (i == 0 && r == -EPROTONOSUPPORT));
            content.data[i] ^= (uint8_t)bit;
        }
    }
    buf_add_byte(&content, 0);
    struct version *again = NULL;
    CHECK_INT(t, version_decode(buf_bytes(&content), &again, &err), -EBADMSG);
    CHECK_STR(t, err.text, "the manifest is damaged in its end");
}

static const struct test_case cases[] = {
    TEST(reads_back_what_it_wrote),
    TEST(refuses_a_newer_format_by_name),
    TEST(survives_any_damage),
};
TEST_MAIN(cases)
