#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "lib/test.h"
#include "net/multipart.h"

#define TYPE BYTES("multipart/form-data; boundary=XyZ")

/* Every part as "name(file name)[content type]=content;", then the error if there was one. */
static const char *all_of(struct bytes type, struct bytes body, struct buf *out)
{
    struct multipart m;
    struct multipart_part p;
    struct error err = {""};
    int r = multipart_begin(type, body, &m, &err);

    buf_clear(out);
    if (r == 0) {
        while ((r = multipart_next(&m, &p, &err)) > 0) {
            buf_add_bytes(out, p.name);
            buf_addf(out, "(%.*s)[%.*s]=", (int)p.file_name.len, (const char *)p.file_name.data,
                     (int)p.content_type.len, (const char *)p.content_type.data);
            buf_add_bytes(out, p.content);
            buf_add_byte(out, ';');
        }
    }
    if (r < 0)
        buf_addf(out, "%d: %s", r == -EBADMSG, err.text);
    return buf_cstr(out);
}

static void reads_what_clients_send(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"--XyZ\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"profile.pprof\"\r\n"
         "Content-Type: application/octet-stream\r\n\r\nabc\r\n--XyZ--\r\n",
         "profile(profile.pprof)[application/octet-stream]=abc;"},
        {"--XyZ\r\ncontent-disposition:form-data;name=a\r\n\r\n1\r\n--XyZ\r\n"
         "Content-Disposition: form-data; NAME=\"b\"\r\n\r\n2\r\n3\r\n\r\n--XyZ--",
         "a()[]=1;b()[]=2\r\n3\r\n;"},
        {"a preamble\r\n--XyZ \t\r\nContent-Disposition: form-data; "
         "name=\"a\"\r\n\r\n\r\n--XyZ--an "
         "epilogue",
         "a()[]=;"},
        {"--XyZ\r\nX-Other: 1\r\nContent-Transfer-Encoding: binary\r\n"
         "Content-Disposition: form-data; filename=\"a;name=no\\\"\"; name=\"y;e=s\"\r\n\r\nv"
         "\r\n--XyZzy\r\nin the content\r\n--XyZ--",
         "y;e=s(a;name=no\\\")[]=v\r\n--XyZzy\r\nin the content;"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        CHECK_STR(t, all_of(TYPE, bytes_of(cases[i].body), &out), cases[i].want);
    CHECK_STR(t,
              all_of(BYTES("Multipart/Form-Data;charset=x; Boundary=\"a b:c\""),
                     BYTES("--a b:c\r\ncontent-disposition: form-data; name=n\r\n\r\nv\r\n"
                           "--a b:c--"),
                     &out),
              "n()[]=v;");
}

static void a_part_without_content_may_share_its_line_end(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    CHECK_STR(t,
              all_of(TYPE,
                     BYTES("--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--XyZ\r\n"
                           "Content-Disposition: form-data; name=\"b\"\r\n\r\n\r\n--XyZ--"),
                     &out),
              "a()[]=;b()[]=;");
}

static void refuses_and_says_where(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"", "multipart: the body of 0 bytes has no part"},
        {"--XyZ--", "multipart: the body of 7 bytes has no part"},
        {"--XyY\r\n", "multipart: the body of 7 bytes has no part"},
        {"--XyZ\r\n", "multipart at byte 7: the headers of the part do not end, or are too long"},
        {"--XyZ\nContent-Disposition: form-data; name=\"a\"\n\nx\n--XyZ--",
         "multipart: the body of 57 bytes has no part"},
        {"--XyZ\r\n\r\nx\r\n--XyZ--", "multipart at byte 7: the part has no name"},
        {"--XyZ\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XyZ--",
         "multipart at byte 28: the part has no name"},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--XyZ--",
         "multipart at byte 28: the part has no name"},
        {"--XyZ\r\nno colon\r\n\r\nx\r\n--XyZ--",
         "multipart at byte 7: a header line without a name"},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--Xy",
         "multipart at byte 7: the part is not closed: the body was cut short"},
        {"--XyZ\r\nContent-Transfer-Encoding: base64\r\n"
         "Content-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--XyZ--",
         "multipart at byte 34: the part is encoded; only binary parts are read"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char want[200];
        snprintf(want, sizeof(want), "1: %s", cases[i].why);
        CHECK_STR(t, all_of(TYPE, bytes_of(cases[i].body), &out), want);
    }
}

static void refuses_boundaries_that_are_none(struct test *t)
{
    static const char *const types[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=a\r\nb",
        "multipart/form-data; boundary=\"open",
        ("multipart/form-data; boundary="
         "0123456789012345678901234567890123456789012345678901234567890123456789x"),
    };
    CLEANUP(buf_done) struct buf out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        CHECK_STR(t, all_of(bytes_of(types[i]), BYTES("--a\r\n"), &out),
                  "1: the content type multipart/form-data has no boundary of 1 to 70 characters");
    CHECK_STR(t, all_of(BYTES("text/plain; boundary=a"), BYTES("--a\r\n"), &out),
              "1: the content type is not multipart/form-data");
    CHECK_STR(t, all_of((struct bytes){0}, (struct bytes){0}, &out),
              "1: the content type is not multipart/form-data");
}

static void parts_and_headers_are_bounded(struct test *t)
{
    CLEANUP(buf_done) struct buf body = {0};
    CLEANUP(buf_done) struct buf out = {0};

    for (int i = 0; i < MULTIPART_PARTS_MAX + 1; i++)
        buf_add_str(&body, "--XyZ\r\nContent-Disposition: form-data; name=n\r\n\r\n\r\n");
    buf_add_str(&body, "--XyZ--");
    all_of(TYPE, buf_bytes(&body), &out);
    CHECK(t, strstr(buf_cstr(&out), "more than 64 parts") != NULL);
    buf_clear(&body);
    buf_add_str(&body, "--XyZ\r\nX: ");
    while (body.len < 2 * MULTIPART_HEADER_MAX)
        buf_add_str(&body, "y\r\nX: ");
    buf_add_str(&body, "\r\n\r\n\r\n--XyZ--");
    CHECK_STR(t, all_of(TYPE, buf_bytes(&body), &out),
              "1: multipart at byte 7: the headers of the part do not end, or are too long");
}

static void survives_being_cut_anywhere(struct test *t)
{
    static const char whole[] = "--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx"
                                "\r\n--XyZ\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\ny"
                                "\r\n--XyZ--";
    CLEANUP(buf_done) struct buf out = {0};

    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, whole, n);
        all_of(TYPE, (struct bytes){copy, n}, &out);
        CHECK(t, strstr(buf_cstr(&out), "multipart") != NULL);
        free(copy);
    }
}

static const struct test_case cases[] = {
    TEST(reads_what_clients_send),       TEST(a_part_without_content_may_share_its_line_end),
    TEST(refuses_and_says_where),        TEST(refuses_boundaries_that_are_none),
    TEST(parts_and_headers_are_bounded), TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)
