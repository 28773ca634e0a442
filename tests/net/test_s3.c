#include <errno.h>

#include "lib/script_server.h"
#include "lib/test.h"
#include "net/s3.h"

#define EMPTY_SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The keys and signatures that Amazon's documentation of signature version 4 computes. */
static const struct s3_options example = {
    .region = "us-east-1",
    .access_key = "AKIAIOSFODNN7EXAMPLE",
    .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};

static void check_signature(struct test *t, const char *path, const char *query, const char *wanted)
{
    struct buf out = {0};
    char all[256];
    s3_sign(&example,
            &(struct s3_signing){.method = "GET",
                                 .host = "examplebucket.s3.amazonaws.com",
                                 .path = bytes_of(path),
                                 .query = bytes_of(query),
                                 .time = "20130524T000000Z",
                                 .content_sha256 = EMPTY_SHA},
            &out);
    snprintf(all, sizeof(all),
             "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
             "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=%s",
             wanted);
    CHECK_STR(t, buf_cstr(&out), all);
    buf_done(&out);
}

static void signatures_are_those_of_the_documentation(struct test *t)
{
    check_signature(
        t, "/", "lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    check_signature(t, "/", "max-keys=2&prefix=J",
                    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void addresses_of_objects_are_read(struct test *t)
{
    struct s3_place p;
    struct error err = {""};
    CHECK(t, s3_is_url("s3://b") && !s3_is_url("http://b"));
    CHECK_INT(t, s3_parse("s3://my.bucket-1/a/b c.pb.gz", &p, &err), 0);
    CHECK_STR(t, p.bucket, "my.bucket-1");
    CHECK_STR(t, p.key, "a/b c.pb.gz");
    CHECK_INT(t, s3_parse("s3://bucket", &p, &err), 0);
    CHECK_STR(t, p.key, "");
    static const char *const bad[] = {"s3://",         "s3:///key",  "s3://ab/key",
                                      "s3://Bucket/x", "s3://a?b/x", "s3://../x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(t, s3_parse(bad[i], &p, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"s3://../x\" names no bucket: expected s3://BUCKET/KEY");
    char long_url[1200] = "s3://bucket/";
    memset(long_url + 12, 'k', 1100);
    CHECK_INT(t, s3_parse(long_url, &p, &err), -EINVAL);
}

/* ---- Against a script */

struct world {
    struct script_server server;
    struct s3 *s3;
    char endpoint[64];
    struct error err;
};

static void world_start(struct world *w, const struct script_line *lines, size_t n)
{
    memset(w, 0, sizeof(*w));
    script_start(&w->server, lines, n, NULL);
    snprintf(w->endpoint, sizeof(w->endpoint), "http://127.0.0.1:%d/", w->server.port);
    struct s3_options o = example;
    o.endpoint = w->endpoint;
    o.session_token = "session";
    o.http.silence_s = 5;
    if (s3_new(&o, &w->s3, &w->err) < 0)
        abort();
}

static void world_end(struct world *w)
{
    s3_free(w->s3);
    script_stop(&w->server);
}

static int on_object(void *ctx, const struct s3_object *object)
{
    struct buf *out = ctx;
    buf_addf(out, "%s %llu %lld\n", object->key, (unsigned long long)object->size,
             (long long)object->modified_ns);
    return 0;
}

#define PAGE(len, text) "HTTP/1.1 200 OK\r\nContent-Length: " #len "\r\n\r\n" text

static void lists_are_read_page_by_page(struct test *t)
{
    static const struct script_line script[] = {
        {.answer =
             PAGE(273, "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a&amp;"
                       "b&#x41;&#228;</Key><LastModified>2026-03-01T12:00:00.000Z"
                       "</LastModified><Size>5</Size></Contents><Contents><Key>p/c</Key></"
                       "Contents><NextContinuationToken>1/+x=</NextContinuationToken></"
                       "ListBucketResult>")},
        {.answer = PAGE(84, "<ListBucketResult><Contents><Key>d</Key><Size>7</Size></Contents></"
                            "ListBucketResult>")}};
    struct world w;
    struct buf out = {0};
    world_start(&w, script, 2);
    CHECK_INT(t, s3_list(w.s3, &(struct s3_place){"bucket", "p q/"}, on_object, &out, &w.err), 0);
    CHECK_STR(t, buf_cstr(&out), "a&bA\xc3\xa4 5 1772366400000000000\np/c 0 0\nd 7 0\n");
    CHECK(t, strncmp(w.server.requests[0], "GET /bucket?list-type=2&prefix=p%20q%2F HTTP/1.1",
                     48) == 0);
    CHECK(t, strstr(w.server.requests[0], "\r\nx-amz-security-token: session\r\n") != NULL);
    CHECK(t, strstr(w.server.requests[0],
                    "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token") !=
                 NULL);
    CHECK(t, strncmp(w.server.requests[1], "GET /bucket?continuation-token=1%2F%2Bx%3D&list-type=2",
                     54) == 0);
    buf_done(&out);
    world_end(&w);
}

static void refusals_say_what_the_bucket_said(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 81\r\n\r\n<Error><Code>NoSuchKey"
                   "</Code><Message>it &lt;is&gt; not there</Message></Error>\n\n"},
        {.answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"},
        {.answer = "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: "
                   "0\r\n\r\n"},
        {.answer = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"}};
    static const int wanted[] = {-ENOENT, -EACCES, -EPERM, -EAGAIN};
    struct world w;
    struct http_body body;
    struct budget b;
    budget_init(&b, 1 << 20);
    world_start(&w, script, 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(t, s3_get(w.s3, &(struct s3_place){"bucket", "k"}, &b, &body, &w.err), wanted[i]);
        if (i == 0)
            CHECK(t, strstr(w.err.text, "NoSuchKey: it <is> not there") != NULL);
    }
    CHECK_INT(t, b.used, 0);
    world_end(&w);
}

static void what_is_put_is_signed_with_its_content(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}};
    struct world w;
    world_start(&w, script, 1);
    struct s3_place folder = {"bucket", "a/"}, place = {"bucket", "a/b c"};
    CHECK_INT(t, s3_put(w.s3, &folder, BYTES("x"), NULL, &w.err), -EINVAL);
    CHECK_INT(t, s3_put(w.s3, &place, BYTES("abc"), "text/plain", &w.err), 0);
    CHECK(t, strncmp(w.server.requests[0], "PUT /bucket/a/b%20c HTTP/1.1\r\n", 30) == 0);
    CHECK(t, strstr(w.server.requests[0],
                    "x-amz-content-sha256: "
                    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") != NULL);
    world_end(&w);
}

static void keys_and_endpoints_are_needed(struct test *t)
{
    struct s3 *s3 = NULL;
    struct error err = {""};
    CHECK_INT(t, s3_new(&(struct s3_options){0}, &s3, &err), -EINVAL);
    CHECK_STR(t, err.text, "a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    struct s3_options o = example;
    o.endpoint = "http://host/path";
    CHECK_INT(t, s3_new(&o, &s3, &err), -EINVAL);
    o.endpoint = "host";
    CHECK_INT(t, s3_new(&o, &s3, &err), -EINVAL);
    CHECK(t, !s3);
}

static const struct test_case cases[] = {
    TEST(signatures_are_those_of_the_documentation),
    TEST(addresses_of_objects_are_read),
    TEST(lists_are_read_page_by_page),
    TEST(refusals_say_what_the_bucket_said),
    TEST(what_is_put_is_signed_with_its_content),
    TEST(keys_and_endpoints_are_needed),
};
TEST_MAIN(cases)
