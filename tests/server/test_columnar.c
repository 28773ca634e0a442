#include <errno.h>
#include <math.h>

#include "base/le.h"
#include "lib/test.h"
#include "server/columnar.h"

static void fill(struct sheet *s, struct budget *b)
{
    sheet_init(s, b);
    json_key(&s->head, "unit");
    json_cstring(&s->head, "bytes");
    sheet_table(s, "rows", SHEET_ROWS);
    struct sheet_column *name = sheet_column(s, "name", COLUMN_TEXT);
    struct sheet_column *flat = sheet_column(s, "flat", COLUMN_I64);
    sheet_table(s, "points", SHEET_COLUMNS);
    struct sheet_column *at = sheet_column(s, "at", COLUMN_NS);
    struct sheet_column *n = sheet_column(s, "n", COLUMN_U32);
    struct sheet_column *share = sheet_column(s, "share", COLUMN_F64);
    sheet_text(name, BYTES("a\"b"));
    sheet_text(name, BYTES(""));
    sheet_i64(flat, -7);
    sheet_i64(flat, 8);
    sheet_i64(at, INT64_MAX);
    sheet_u32(n, UINT32_MAX);
    sheet_f64(share, (double)INFINITY);
}

static void writes_rows_and_columns_as_json(struct test *t)
{
    struct budget b;
    struct sheet s;
    CLEANUP(buf_done) struct buf out = {0};
    budget_init(&b, 1 << 20);
    fill(&s, &b);
    CHECK_INT(t, sheet_write(&s, false, &out, NULL), 0);
    CHECK_STR(t, buf_cstr(&out),
              "{\"unit\":\"bytes\",\"rows\":[{\"name\":\"a\\\"b\",\"flat\":-7},{\"name\":\"\","
              "\"flat\":8}],\"points\":{\"at\":[\"9223372036854775807\"],\"n\":[4294967295],"
              "\"share\":[null]}}\n");
    sheet_done(&s);
    CHECK_INT(t, b.used, 0);
}

static void writes_arrays_that_lie_where_the_header_says(struct test *t)
{
    struct budget b;
    struct sheet s;
    CLEANUP(buf_done) struct buf out = {0};
    budget_init(&b, 1 << 20);
    fill(&s, &b);
    CHECK_INT(t, sheet_write(&s, true, &out, NULL), 0);
    sheet_done(&s);
    CHECK(t, memcmp(out.data, "VESTACOL", 8) == 0);
    CHECK_INT(t, le32_get(out.data + 8), 1);
    uint32_t header = le32_get(out.data + 12);
    CHECK_INT(t, header % 8, 0);
    static const char says[] =
        "{\"unit\":\"bytes\",\"columns\":["
        "{\"name\":\"rows.name\",\"type\":\"text\",\"length\":2,\"offset\":0,\"text\":8},"
        "{\"name\":\"rows.flat\",\"type\":\"i64\",\"length\":2,\"offset\":16},"
        "{\"name\":\"points.at\",\"type\":\"i64\",\"length\":1,\"offset\":32},"
        "{\"name\":\"points.n\",\"type\":\"u32\",\"length\":1,\"offset\":40},"
        "{\"name\":\"points.share\",\"type\":\"f64\",\"length\":1,\"offset\":48}]}";
    CHECK(t, memcmp(out.data + 16, says, sizeof(says) - 1) == 0);
    const uint8_t *data = out.data + 16 + header;
    CHECK_INT(t, out.len, 16 + header + 56);
    CHECK_INT(t, le32_get(data), 3);
    CHECK_INT(t, le32_get(data + 4), 3);
    CHECK(t, memcmp(data + 8, "a\"b", 3) == 0);
    CHECK_INT(t, (int64_t)le64_get(data + 16), -7);
    CHECK_INT(t, (int64_t)le64_get(data + 24), 8);
    CHECK(t, le64_get(data + 32) == INT64_MAX);
    CHECK(t, le32_get(data + 40) == UINT32_MAX);
    CHECK(t, le64_get(data + 48) == 0x7FF0000000000000u);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    for (int is_binary = 0; is_binary < 2; is_binary++) {
        int r = -ENOBUFS;
        for (size_t limit = 0; r == -ENOBUFS; limit += 64) {
            struct budget b;
            struct sheet s;
            struct error err = {""};
            budget_init(&b, limit);
            struct buf out = {.budget = &b};
            fill(&s, &b);
            r = sheet_write(&s, is_binary, &out, &err);
            CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
            CHECK(t, limit < 1 << 16);
            buf_done(&out);
            sheet_done(&s);
            CHECK_INT(t, b.used, 0);
        }
        CHECK_INT(t, r, 0);
    }
}

static const struct test_case cases[] = {
    TEST(writes_rows_and_columns_as_json),
    TEST(writes_arrays_that_lie_where_the_header_says),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
