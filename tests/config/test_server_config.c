#include <errno.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "config/server_config.h"
#include "lib/test.h"

static int load(const char *const *args, struct config **ret, struct error *err)
{
    struct config_input in = {.args = args};

    while (args && args[in.n_args])
        in.n_args++;
    return server_config_load(&in, ret, err);
}

static size_t size_of(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_STRING:
        return sizeof(const char *);
    case CONFIG_LIST:
        return sizeof(struct config_list);
    case CONFIG_BOOL:
        return sizeof(bool);
    case CONFIG_U32:
        return sizeof(uint32_t);
    default:
        return sizeof(uint64_t);
    }
}

/* Bytes that no key covers are padding: never as many as the smallest number. */
static void every_field_of_the_struct_has_a_key(struct test *t)
{
    static uint8_t covered[sizeof(struct server_config)];
    size_t gap = 0;

    for (size_t i = 0; i < server_config_table.n_keys; i++) {
        const struct config_key *key = &server_config_table.keys[i];
        for (size_t k = 0; k < size_of(key); k++) {
            CHECK(t, key->offset + k < sizeof(covered) && !covered[key->offset + k]);
            covered[key->offset + k] = 1;
        }
    }
    for (size_t i = 0; i < sizeof(covered); i++) {
        gap = covered[i] ? 0 : gap + 1;
        if (gap == 8 || (gap == 1 && i + 1 < sizeof(covered) && covered[i + 1]))
            printf("# byte %zu of struct server_config is no key's\n", i);
        CHECK(t, gap < 8);
    }
}

static void keys_of_a_section_stand_together(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *d = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    char path[] = "/tmp/vesta-config-XXXXXX";
    struct error err = {""};
    size_t at = 0;

    CHECK_INT(t, load(NULL, &c, &err), 0);
    config_print(c, &out);
    int fd = mkstemp(path);
    CHECK(t, fd >= 0 && write(fd, out.data, out.len) == (ssize_t)out.len);
    close(fd);
    CHECK_INT(t, load((const char *[]){"--config", path, NULL}, &d, &err), 0);
    CHECK_STR(t, err.text, "");
    if (d)
        CHECK(t, config_next_change(&server_config_table, config_values(c), config_values(d),
                                    &at) == NULL);
    unlink(path);
}

static void what_cannot_work_together_is_refused(struct test *t)
{
    static const struct {
        const char *args[5];
        const char *want;
    } cases[] = {
        {{"--tls-cert-file=a"}, "tls.cert_file is set without tls.key_file"},
        {{"--tls-key-file=a"}, "tls.key_file is set without tls.cert_file"},
        {{"--tls-client-ca-file=a"}, "tls.client_ca_file is set without tls.cert_file"},
        {{"--tls-client-roles=read"}, "tls.client_roles is set without tls.client_ca_file"},
        {{"--admin-token=a", "--admin-token-file=b"},
         "admin_token and admin_token_file are both set"},
        {{"--listen=off", "--listen-otlp-grpc=off", "--listen-otlp-http=off"},
         "listen, listen_otlp_grpc and listen_otlp_http are all off"},
        {{"--data="}, "data is empty; a directory is needed"},
        {{"--tenant-default=.."},
         "tenant.default is \"..\", where 1 to 64 letters, digits, '.', "
         "'_' or '-' are expected"},
        {{"--debuginfo-urls=http://a,ftp://b"}, "debuginfo.urls: item 2 is no http or https URL"},
        {{"--cors-origins=https://a/b"},
         "cors_origins: \"https://a/b\" is no origin such as https://grafana.example.com"},
        {{"--external-url=example.com"}, "external_url is no http or https URL"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(cases[i].args, &c, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void it_listens_on_loopback_until_something_guards_it(struct test *t)
{
    static const struct {
        const char *args[4];
        const char *want;
    } cases[] = {
        {{NULL}, "127.0.0.1:4040"},
        {{"--auth=on"}, ":4040"},
        {{"--admin-token-file=x"}, ":4040"},
        {{"--tls-cert-file=a", "--tls-key-file=b"}, ":4040"},
        {{"--tls-cert-file=a", "--tls-key-file=b", "--auth=off"}, "127.0.0.1:4040"},
        {{"--auth=on", "--listen=127.0.0.1:1"}, "127.0.0.1:1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(cases[i].args, &c, &err), 0);
        CHECK_STR(t, err.text, "");
        if (c)
            CHECK_STR(t, server_config_of(c)->listen.items[0], cases[i].want);
    }
}

static void the_reference_page_is_current(struct test *t)
{
    CLEANUP(buf_done) struct buf want = {0}, have = {0};
    CLEANUP(fs_freep) struct fs *fs = NULL;
    struct error err = {""};

    server_config_doc(&want);
    CHECK_INT(t, fs_real_new("docs", &fs, &err), 0);
    if (!fs)
        return;
    CHECK_INT(t, fs_read_all(fs, "config.md", 1 << 20, &have, &err), 0);
    if (!bytes_equal(buf_bytes(&want), buf_bytes(&have)))
        puts("# run: build/vesta config doc > docs/config.md");
    CHECK(t, bytes_equal(buf_bytes(&want), buf_bytes(&have)));
}

static const struct test_case cases[] = {
    TEST(every_field_of_the_struct_has_a_key),
    TEST(keys_of_a_section_stand_together),
    TEST(what_cannot_work_together_is_refused),
    TEST(it_listens_on_loopback_until_something_guards_it),
    TEST(the_reference_page_is_current),
};
TEST_MAIN(cases)
