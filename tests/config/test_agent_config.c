#include <errno.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "config/agent_config.h"
#include "lib/test.h"

static int load(const char *const *args, struct config **ret, struct error *err)
{
    struct config_input in = {.args = args};

    while (args && args[in.n_args])
        in.n_args++;
    return agent_config_load(&in, ret, err);
}

static int load_text(const char *text, struct config **ret, struct error *err)
{
    return agent_config_load(&(struct config_input){.text = bytes_of(text)}, ret, err);
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

/* Bytes that no key covers are padding: never as many as the smallest pointer. */
static void every_field_of_the_struct_has_a_key(struct test *t)
{
    static uint8_t covered[sizeof(struct agent_config)];
    size_t gap = 0;

    for (size_t i = 0; i < agent_config_table.n_keys; i++) {
        const struct config_key *key = &agent_config_table.keys[i];
        for (size_t k = 0; k < size_of(key); k++) {
            CHECK(t, key->offset + k < sizeof(covered) && !covered[key->offset + k]);
            covered[key->offset + k] = 1;
        }
    }
    for (size_t i = 0; i < sizeof(covered); i++) {
        gap = covered[i] ? 0 : gap + 1;
        if (gap == 8)
            printf("# byte %zu of struct agent_config is no key's\n", i);
        CHECK(t, gap < 8);
    }
}

static void defaults_need_no_file(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};

    CHECK_INT(t, load(NULL, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!c)
        return;
    const struct agent_config *a = agent_config_of(c);
    CHECK_INT(t, a->types.n, 1);
    CHECK_STR(t, a->types.items[0], "cpu");
    CHECK_INT(t, a->rate, 19);
    CHECK_INT(t, a->window_ns, (int64_t)10 * 1000000000);
    CHECK(t, a->kernel_frames && !a->send_cmdline && !a->keep_root);
    CHECK_STR(t, a->symbols, "names");
    CHECK_INT(t, a->cpu_budget, 10);
    CHECK_INT(t, a->memory_max, 96 << 20);
    CHECK(t, a->scrape_configs == NULL && a->rules == NULL);
}

static const char scraping[] = "rate: 99\n"
                               "scrape_configs:\n"
                               "  - job_name: checkout\n"
                               "    basic_auth: {username: me, password: \"pass word\"}\n"
                               "    params: {token: [abc, def], empty: [], nothing: }\n"
                               "    static_configs: [{targets: [\"localhost:8080\"]}]\n"
                               "    authorization:\n"
                               "      credentials: hush\n"
                               "  - [[a, \"b\\nc\\t\\\"\"], {}]\n";

static void a_tree_is_kept_with_its_lines(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};

    CHECK_INT(t, load_text(scraping, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!c)
        return;
    const struct config_node *list = agent_config_of(c)->scrape_configs;
    CHECK(t, list && list->kind == CONFIG_NODE_LIST && list->first);
    const struct config_node *job = list->first;
    CHECK_INT(t, job->kind, CONFIG_NODE_MAP);
    CHECK_STR(t, config_node_get(job, "job_name")->value, "checkout");
    CHECK(t, config_node_get(job, "job") == NULL);
    const struct config_node *statics = config_node_get(job, "static_configs");
    CHECK_INT(t, statics->line, 6);
    CHECK_STR(t, config_node_get(statics->first, "targets")->first->value, "localhost:8080");
    CHECK_STR(t, config_node_get(config_node_get(job, "params"), "nothing")->value, "");
    CHECK_STR(t, job->next->first->first->next->value, "b\nc\t\"");
    CHECK_INT(t, config_source_of(c, "scrape_configs"), CONFIG_BY_FILE);
}

static void what_is_printed_reads_as_the_same_without_its_secrets(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *again = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    size_t at = 0;

    CHECK_INT(t, load_text(scraping, &c, &err), 0);
    config_print(c, &out);
    const char *text = buf_cstr(&out);
    CHECK(t, strstr(text, "\n  - \"job_name\": \"checkout\"\n    \"basic_auth\":\n"));
    CHECK(t, !strstr(text, "pass word") && !strstr(text, "hush") && !strstr(text, "abc"));
    CHECK_INT(t, load_text(text, &again, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!again)
        return;
    const struct config_key *key =
        config_next_change(&agent_config_table, config_values(c), config_values(again), &at);
    CHECK(t, key && strcmp(key->name, "scrape_configs") == 0);
    const struct config_node *job = agent_config_of(again)->scrape_configs->first;
    CHECK_STR(t, config_node_get(config_node_get(job, "basic_auth"), "password")->value, "***");
    CHECK_STR(t, config_node_get(config_node_get(job, "basic_auth"), "username")->value, "me");
    CHECK_STR(t, job->next->first->first->next->value, "b\nc\t\"");
}

static void a_tree_without_secrets_is_unchanged_by_printing(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *again = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    size_t at = 0;

    CHECK_INT(
        t, load_text("rules:\n- match: {exe: '.*/(x)'}\n  set: {service.name: $1}\n", &c, &err), 0);
    config_print(c, &out);
    CHECK_INT(t, load_text(buf_cstr(&out), &again, &err), 0);
    CHECK_STR(t, err.text, "");
    if (again)
        CHECK(t, config_next_change(&agent_config_table, config_values(c), config_values(again),
                                    &at) == NULL);
}

static void trees_have_limits(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(buf_done) struct buf deep = {0}, many = {0}, keys = {0};
    struct error err = {""};

    buf_add_str(&deep, "rules: ");
    for (int i = 0; i < 17; i++)
        buf_add_byte(&deep, '[');
    CHECK_INT(t, load_text(buf_cstr(&deep), &c, &err), -EINVAL);
    CHECK_STR(t, err.text, "line 1: more than 16 levels");
    buf_add_str(&many, "rules: [");
    for (int i = 0; i < 100000; i++)
        buf_add_str(&many, "a,");
    buf_add_str(&many, "]");
    CHECK_INT(t, load_text(buf_cstr(&many), &c, &err), -EINVAL);
    CHECK_STR(t, err.text, "line 1: more than 100000 values");
    buf_add_str(&keys, "rules:\n");
    for (int i = 0; i < 1001; i++)
        buf_addf(&keys, "  k%d: 1\n", i);
    CHECK_INT(t, load_text(buf_cstr(&keys), &c, &err), -EINVAL);
    CHECK_STR(t, err.text, "line 1002: a map has more than 1000 keys");
}

static void what_is_wrong_is_named(struct test *t)
{
    static const struct {
        const char *args[3];
        const char *want;
    } cases[] = {
        {{"--rate=1000"}, "--rate: rate is 1000, more than the most, 999"},
        {{"--types=cpu,heap"},
         "--types: types is \"heap\", not one of cpu|wall|offcpu|lock|faults|threads"},
        {{"--exporters=ftp://x"},
         "exporters: item 1 is none of http://HOST, https://HOST, grpc://HOST, grpcs://HOST, "
         "file:DIR"},
        {{"--server=localhost"}, "server is no http or https URL"},
        {{"--tls-key-file=a"}, "tls.key_file is set without tls.cert_file"},
        {{"--export-headers=secret"}, "export.headers: item 1 is not name=value"},
        {{"--resource==x"}, "resource: item 1 is not name=value"},
        {{"--type-rules=wall,cpu service:x"},
         "type_rules: \"wall,cpu service:x\" is not \"wall,offcpu: service:NAME\""},
        {{"--type-rules=wall,mem: service:x"},
         "type_rules: \"mem\" is not one of cpu|wall|offcpu|lock|faults|threads"},
        {{"--pids=12,x"}, "pids is \"12,x\", where numbers and commas are expected"},
        {{"--state-dir="}, "state_dir is empty; a directory is needed"},
        {{"--limits-memory=16MiB", "--limits-tables=17MiB"},
         "limits.tables is more than limits.memory"},
        {{"--scrape-configs=x"}, "scrape_configs is set in a file only"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(cases[i].args, &c, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void what_is_wrong_in_a_tree_is_named_with_its_line(struct test *t)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"rules:\n - a: 1\n   b: 2\n   a: 3\n", "line 4: a was already set in line 2"},
        {"rules:\n - ? [x]\n   : 1\n", "line 2: a key is expected here"},
        {"rules:\n - \"a\\0b\"\n", "line 2: a text has a control character in it"},
        {"rules:\n - &x a\n", "line 2: anchors and aliases are not allowed here"},
        {"rules: []\nrules: []\n", "line 2: rules was already set in line 1"},
        {"scrape_config: []\n",
         "line 1: there is no key \"scrape_config\"; did you mean \"scrape_configs\"?"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load_text(cases[i].text, &c, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void variables_have_the_agents_own_names(struct test *t)
{
    static const char *const env[] = {"VESTA_AGENT_RATE=49", "VESTA_RATE=1",
                                      "VESTA_AGENT_EXPORTERS=grpc://a,file:/tmp/x", NULL};
    static const char *const bad[] = {"VESTA_AGENT_RULES=x", NULL};
    CLEANUP(config_freep) struct config *c = NULL, *none = NULL;
    struct error err = {""};

    CHECK_INT(t, agent_config_load(&(struct config_input){.env = env}, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (c) {
        CHECK_INT(t, agent_config_of(c)->rate, 49);
        CHECK_INT(t, agent_config_of(c)->exporters.n, 2);
    }
    CHECK_INT(t, agent_config_load(&(struct config_input){.env = bad}, &none, &err), -EINVAL);
    CHECK_STR(t, err.text, "VESTA_AGENT_RULES: rules is set in a file only");
}

static void json_is_read_as_well(struct test *t)
{
    struct budget budget;
    struct arena arena;
    const struct config_node *node = NULL;
    struct error err = {""};

    budget_init(&budget, 1 << 20);
    arena_init(&arena, &budget);
    CHECK_INT(
        t,
        config_node_read(BYTES("[\n\t{\"targets\": [\"a:1\"],\n\t\t\"labels\": {\"x\": \"\\u00e4"
                               "\\/\"}}\n]\n"),
                         &arena, &node, &err),
        0);
    CHECK_STR(t, err.text, "");
    if (node)
        CHECK_STR(t, config_node_get(config_node_get(node->first, "labels"), "x")->value, "ä/");
    CHECK_INT(t, config_node_read(BYTES("[1]\n---\n[2]"), &arena, &node, &err), -EINVAL);
    CHECK_STR(t, err.text, "line 2: a second document is not read");
    CHECK_INT(t, config_node_read(BYTES(""), &arena, &node, &err), 0);
    CHECK(t, node == NULL);
    arena_done(&arena);
}

static void the_reference_page_is_current(struct test *t)
{
    CLEANUP(buf_done) struct buf want = {0}, have = {0};
    CLEANUP(fs_freep) struct fs *fs = NULL;
    struct error err = {""};

    agent_config_doc(&want);
    CHECK_INT(t, fs_real_new("docs", &fs, &err), 0);
    if (!fs)
        return;
    CHECK_INT(t, fs_read_all(fs, "agent-config.md", 1 << 20, &have, &err), 0);
    if (!bytes_equal(buf_bytes(&want), buf_bytes(&have)))
        puts("# run: build/vesta-agent config doc > docs/agent-config.md");
    CHECK(t, bytes_equal(buf_bytes(&want), buf_bytes(&have)));
}

static const struct test_case cases[] = {
    TEST(every_field_of_the_struct_has_a_key),
    TEST(defaults_need_no_file),
    TEST(a_tree_is_kept_with_its_lines),
    TEST(what_is_printed_reads_as_the_same_without_its_secrets),
    TEST(a_tree_without_secrets_is_unchanged_by_printing),
    TEST(trees_have_limits),
    TEST(what_is_wrong_is_named),
    TEST(what_is_wrong_in_a_tree_is_named_with_its_line),
    TEST(variables_have_the_agents_own_names),
    TEST(json_is_read_as_well),
    TEST(the_reference_page_is_current),
};
TEST_MAIN(cases)
