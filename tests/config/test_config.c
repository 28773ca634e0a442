#include <errno.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "lib/test.h"

struct values {
    const char *name, *mode, *password;
    struct config_list hosts, rules, roles;
    bool is_fast;
    uint32_t workers;
    uint64_t rate, room;
    int64_t age_ns;
};

#define AT(field) offsetof(struct values, field)

static const struct config_key keys[] = {
    {"name", CONFIG_STRING, AT(name), "vesta", "A name. And more.", .also = "OTEL_NAME"},
    {"mode", CONFIG_STRING, AT(mode), "auto", "A mode.", .choices = "auto|on|off"},
    {"password", CONFIG_STRING, AT(password), "", "A secret.", .flags = CONFIG_SECRET},
    {"net.hosts", CONFIG_LIST, AT(hosts), "a,b", "Hosts.", .flags = CONFIG_RELOADS},
    {"net.rules", CONFIG_LIST, AT(rules), "", "Rules.", .flags = CONFIG_WHOLE},
    {"net.roles", CONFIG_LIST, AT(roles), "", "Roles.", .choices = "read|write"},
    {"net.is_fast", CONFIG_BOOL, AT(is_fast), "false", "Speed."},
    {"work.workers", CONFIG_U32, AT(workers), "4", "Workers.", .min = 1, .max = 100},
    {"work.rate", CONFIG_U64, AT(rate), "0", "Rate."},
    {"work.room", CONFIG_BYTES, AT(room), "64MiB", "Room.", .min = 1024},
    {"work.age", CONFIG_DURATION, AT(age_ns), "30d", "Age.",
     .max = (uint64_t)3650 * 86400 * 1000000000},
};
static const struct config_table table = {.keys = keys,
                                          .n_keys = ARRAY_SIZE(keys),
                                          .size = sizeof(struct values),
                                          .prefix = "VESTA_",
                                          .files = {"vesta.yaml", "/etc/vesta/vesta.yaml"}};

#define DAY_NS   ((int64_t)86400 * 1000000000)
#define ARGS_MAX 8

struct given {
    const char *file; /* its text */
    const char *args[ARGS_MAX];
    const char *env[ARGS_MAX];
};

static int load(const struct given *g, struct config **ret, struct error *err)
{
    char path[] = "/tmp/vesta-config-XXXXXX";
    const char *args[ARGS_MAX + 2];
    struct config_input in = {.args = args, .env = g->env};
    int fd = -1;

    if (g->file) {
        fd = mkstemp(path);
        if (fd < 0 || write(fd, g->file, strlen(g->file)) < 0)
            abort();
        close(fd);
        args[in.n_args++] = "--config";
        args[in.n_args++] = path;
    }
    for (size_t i = 0; i < ARGS_MAX && g->args[i]; i++)
        args[in.n_args++] = g->args[i];
    int r = config_load(&table, &in, ret, err);
    if (g->file)
        unlink(path);
    return r;
}

/* What is said, without the name of the file in front. */
static const char *said(const struct error *err)
{
    const char *colon = strncmp(err->text, "/tmp/", 5) == 0 ? strstr(err->text, ": ") : NULL;
    return colon ? colon + 2 : err->text;
}

static void without_anything_values_are_the_defaults(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};

    CHECK_INT(t, load(&(struct given){0}, &c, &err), 0);
    const struct values *v = config_values(c);
    CHECK_STR(t, v->name, "vesta");
    CHECK_STR(t, v->mode, "auto");
    CHECK_STR(t, v->password, "");
    CHECK_INT(t, v->hosts.n, 2);
    CHECK_STR(t, v->hosts.items[1], "b");
    CHECK_INT(t, v->rules.n, 0);
    CHECK(t, !v->is_fast);
    CHECK_INT(t, v->workers, 4);
    CHECK_INT(t, v->rate, 0);
    CHECK_INT(t, v->room, 64 << 20);
    CHECK_INT(t, v->age_ns, 30 * DAY_NS);
    CHECK(t, config_file(c) == NULL);
    CHECK_INT(t, config_source_of(c, "name"), CONFIG_BY_DEFAULT);
}

static void a_file_sets_every_type(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};
    const struct given g = {
        .file = "# settings\n"
                "name: \"with: quotes\"\n"
                "mode: on\n"
                "net:\n"
                "  hosts:\n"
                "    - one\n"
                "    - two\n"
                "    - three\n"
                "  rules: ['labels: /a,b/c/']\n"
                "  roles: read\n"
                "  is_fast: yes\n"
                "work: {workers: 100, rate: 12345678901, room: 1GiB, age: 1h30m}\n"};

    CHECK_INT(t, load(&g, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!c)
        return;
    const struct values *v = config_values(c);
    CHECK_STR(t, v->name, "with: quotes");
    CHECK_STR(t, v->mode, "on");
    CHECK_INT(t, v->hosts.n, 3);
    CHECK_STR(t, v->hosts.items[2], "three");
    CHECK_INT(t, v->rules.n, 1);
    CHECK_STR(t, v->rules.items[0], "labels: /a,b/c/");
    CHECK_INT(t, v->roles.n, 1);
    CHECK(t, v->is_fast);
    CHECK_INT(t, v->workers, 100);
    CHECK_INT(t, v->rate, 12345678901);
    CHECK_INT(t, v->room, 1 << 30);
    CHECK_INT(t, v->age_ns, (int64_t)5400 * 1000000000);
    CHECK_INT(t, config_source_of(c, "work.age"), CONFIG_BY_FILE);
    CHECK(t, config_file(c) != NULL);
}

static void flags_win_over_variables_over_the_file(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};
    const struct given g = {
        .file = "name: file\nmode: off\nnet: {hosts: [file]}\nwork: {workers: 1, rate: 1}\n",
        .env = {"VESTA_NAME=variable", "VESTA_NET_HOSTS=x, y", "VESTA_WORK_WORKERS=2"},
        .args = {"--work-workers", "3", "--net-hosts=p", "--net_hosts", "q,r"},
    };

    CHECK_INT(t, load(&g, &c, &err), 0);
    CHECK_STR(t, err.text, "");
    if (!c)
        return;
    const struct values *v = config_values(c);
    CHECK_STR(t, v->name, "variable");
    CHECK_STR(t, v->mode, "off");
    CHECK_INT(t, v->workers, 3);
    CHECK_INT(t, v->rate, 1);
    CHECK_INT(t, v->hosts.n, 3);
    CHECK_STR(t, v->hosts.items[0], "p");
    CHECK_STR(t, v->hosts.items[2], "r");
    CHECK_INT(t, config_source_of(c, "name"), CONFIG_BY_VARIABLE);
    CHECK_INT(t, config_source_of(c, "mode"), CONFIG_BY_FILE);
    CHECK_INT(t, config_source_of(c, "net.hosts"), CONFIG_BY_FLAG);
    CHECK_INT(t, config_source_of(c, "work.age"), CONFIG_BY_DEFAULT);
}

static void bools_are_flags_without_values(struct test *t)
{
    static const struct {
        const char *flag;
        bool want;
    } cases[] = {
        {"--net-is-fast", true},      {"-net-is-fast", true},      {"--net-is-fast=true", true},
        {"--net-is-fast=off", false}, {"--no-net-is-fast", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        const struct given g = {.file = "net: {is_fast: true}\n", .args = {cases[i].flag}};
        CHECK_INT(t, load(&g, &c, &err), 0);
        if (c)
            CHECK_INT(t, ((struct values *)config_values(c))->is_fast, cases[i].want);
    }
}

static void off_alone_empties_a_list(struct test *t)
{
    static const struct given cases[] = {
        {.file = "net: {hosts: off}\n"},  {.file = "net: {hosts: []}\n"},
        {.env = {"VESTA_NET_HOSTS=off"}}, {.env = {"VESTA_NET_HOSTS="}},
        {.args = {"--net-hosts", "off"}}, {.args = {"--net-hosts="}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(&cases[i], &c, &err), 0);
        if (c)
            CHECK_INT(t, ((struct values *)config_values(c))->hosts.n, 0);
    }
}

static void items_with_commas_stand_on_lines_of_their_own(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    struct error err = {""};
    const struct given g = {.env = {"VESTA_NET_RULES=a,b\n c \n\n"}};

    CHECK_INT(t, load(&g, &c, &err), 0);
    const struct values *v = config_values(c);
    CHECK_INT(t, v->rules.n, 2);
    CHECK_STR(t, v->rules.items[0], "a,b");
    CHECK_STR(t, v->rules.items[1], "c");
}

static void standard_variables_come_behind_our_own(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *d = NULL;
    struct error err = {""};

    CHECK_INT(t, load(&(struct given){.env = {"OTEL_NAME=otel"}}, &c, &err), 0);
    CHECK_STR(t, ((struct values *)config_values(c))->name, "otel");
    CHECK_INT(t, load(&(struct given){.env = {"OTEL_NAME=otel", "VESTA_NAME=own"}}, &d, &err), 0);
    CHECK_STR(t, ((struct values *)config_values(d))->name, "own");
}

static void what_is_wrong_in_a_file_is_named_with_its_line(struct test *t)
{
    static const struct {
        const char *file, *want;
    } cases[] = {
        {"name: x\nmoed: on\n", "line 2: there is no key \"moed\"; did you mean \"mode\"?"},
        {"net:\n  host: [a]\n",
         "line 2: there is no key \"net.host\"; did you mean \"net.hosts\"?"},
        {"hosts: [a]\n", "line 1: there is no key \"hosts\"; did you mean \"net.hosts\"?"},
        {"wrok:\n  workers: 1\n", "line 1: there is no key \"wrok\"; did you mean \"work\"?"},
        {"zzzzzzzzzzzz: 1\n", "line 1: there is no key \"zzzzzzzzzzzz\""},
        {"name: a\nmode: auto\nname: b\n", "line 3: name was already set in line 1"},
        {"name: a\nwork:\n  workers: many\n",
         "line 3: work.workers is \"many\", where a whole number is expected"},
        {"work: {workers: 0}\n", "line 1: work.workers is 0, less than the least, 1"},
        {"work: {workers: 101}\n", "line 1: work.workers is 101, more than the most, 100"},
        {"work: {workers: -1}\n",
         "line 1: work.workers is \"-1\", where a whole number is expected"},
        {"work: {room: 1}\n", "line 1: work.room is 1, less than the least, 1.0 KiB"},
        {"work: {room: 1XB}\n",
         "line 1: work.room is \"1XB\", where a size such as 512KiB, 64MiB or 2GiB is expected"},
        {"work: {age: 20y}\n", "line 1: work.age is 20y, more than the most, 3650d"},
        {"work: {age: 30}\n", "line 1: work.age is \"30\", where a duration such as 500ms, 30s, "
                              "1h30m or 30d is expected"},
        {"net: {is_fast: maybe}\n",
         "line 1: net.is_fast is \"maybe\", where true or false is expected"},
        {"mode: perhaps\n", "line 1: mode is \"perhaps\", not one of auto|on|off"},
        {"net: {roles: [read, king]}\n", "line 1: net.roles is \"king\", not one of read|write"},
        {"name: [a]\n", "line 1: name takes one value"},
        {"name: {a: b}\n", "line 1: name takes one value"},
        {"net: {hosts: {a: b}}\n", "line 1: net.hosts takes one value or a list"},
        {"net: {hosts: [[a]]}\n", "line 1: net.hosts is a list of texts, nothing else"},
        {"net: {hosts: [a, ]}\nname:\n", "line 2: name has no value; leave it out for its default"},
        {"net: 5\n", "line 1: net is a section: its keys go below it, indented"},
        {"net: {hosts: ['']}\n", "line 1: net.hosts has an empty item"},
        {"name: \"a\\nb\"\n", "line 1: name has a control character in it, at byte 2"},
        {"password: \"a\\nb\"\n", "line 1: password has a control character in it, at byte 2"},
        {"- a\n", "line 1: \"key: value\" is expected here"},
        {"just text\n", "line 1: \"key: value\" is expected here"},
        {"? [a, b]\n: c\n", "line 1: a key is expected here"},
        {"name: &x a\n", "line 1: anchors and aliases are not allowed here"},
        {"name: *x\n", "line 1: anchors and aliases are not allowed here"},
        {"name: !!str a\n", "line 1: tags are not allowed here"},
        {"name: a\n---\nname: b\n", "line 2: a second document is not read"},
        {"name: a\n\tmode: b\n", "line 2: found a tab character that violates indentation"},
        {"name: \"a\n", "line 2: found unexpected end of stream"},
        {"name: \xff\n", "byte 7: invalid leading UTF-8 octet"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(&(struct given){.file = cases[i].file}, &c, &err), -EINVAL);
        CHECK_STR(t, said(&err), cases[i].want);
    }
}

static void files_that_say_nothing_are_fine(struct test *t)
{
    static const char *const cases[] = {"", "# only this\n", "---\n", "~\n", "net:\n", "{}\n"};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(&(struct given){.file = cases[i]}, &c, &err), 0);
        CHECK_STR(t, err.text, "");
    }
}

static void what_is_wrong_elsewhere_is_named_too(struct test *t)
{
    static const struct {
        struct given given;
        const char *want;
    } cases[] = {
        {{.args = {"--nane", "x"}}, "there is no flag \"--nane\"; did you mean \"--name\"?"},
        {{.args = {"--zzzzzzzzzz"}}, "there is no flag \"--zzzzzzzzzz\""},
        {{.args = {"--no-name"}}, "there is no flag \"--no-name\"; did you mean \"--name\"?"},
        {{.args = {"--name"}}, "--name needs a value"},
        {{.args = {"--config"}}, "--config needs a value"},
        {{.args = {"word"}}, "\"word\" is not a flag; --help lists them"},
        {{.args = {"--work-workers", "x"}},
         "--work-workers: work.workers is \"x\", where a whole number is expected"},
        {{.env = {"VESTA_WORK_ROOM=x"}},
         "VESTA_WORK_ROOM: work.room is \"x\", where a size such as "
         "512KiB, 64MiB or 2GiB is expected"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP(config_freep) struct config *c = NULL;
        struct error err = {""};
        CHECK_INT(t, load(&cases[i].given, &c, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
    }
}

static void files_that_cannot_be_read_are_refused(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(freep) char *large = malloc(CONFIG_FILE_MAX + 2);
    struct error err = {""};

    CHECK_INT(t, load(&(struct given){.args = {"--config=/nowhere/vesta.yaml"}}, &c, &err),
              -ENOENT);
    CHECK_STR(t, err.text, "could not open \"/nowhere/vesta.yaml\": No such file or directory");
    CHECK_INT(t, load(&(struct given){.env = {"VESTA_CONFIG=/tmp"}}, &c, &err), -EINVAL);
    CHECK_STR(t, err.text, "\"/tmp\" is not a file");
    memset(large, '#', CONFIG_FILE_MAX + 1);
    large[CONFIG_FILE_MAX + 1] = '\0';
    CHECK_INT(t, load(&(struct given){.file = large}, &c, &err), -EINVAL);
    CHECK(t, strstr(err.text, "is larger than the limit of 256 KiB"));
}

static void a_list_has_a_limit(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    struct error err = {""};

    buf_add_str(&text, "net:\n  hosts: [");
    for (int i = 0; i <= CONFIG_LIST_MAX; i++)
        buf_add_str(&text, "h,");
    buf_add_str(&text, "]\n");
    CHECK_INT(t, load(&(struct given){.file = buf_cstr(&text)}, &c, &err), -EINVAL);
    CHECK_STR(t, said(&err), "line 2: net.hosts has more than 64 items");
}

static void what_is_printed_reads_as_the_same(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *d = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    const struct given g = {
        .file = "mode: off\nwork: {rate: 7, age: 90s}\n",
        .env = {"VESTA_NAME=a \"b\" \\c"},
        .args = {"--net-hosts=x", "--net-rules=p,q", "--work-room=1536"},
    };

    CHECK_INT(t, load(&g, &c, &err), 0);
    config_print(c, &out);
    const char *text = buf_cstr(&out);
    CHECK(t, strstr(text, "# file, line 2\n"));
    CHECK(t, strstr(text, "# variable VESTA_NAME\n"));
    CHECK(t, strstr(text, "# flag\n"));
    CHECK(t, strstr(text, "# default\n"));
    CHECK(t, strstr(text, "  age: 90s"));
    CHECK_INT(t, load(&(struct given){.file = text}, &d, &err), 0);
    CHECK_STR(t, err.text, "");
    size_t at = 0;
    if (d)
        CHECK(t, config_next_change(&table, config_values(c), config_values(d), &at) == NULL);
}

static void secrets_are_not_printed(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    const struct given g = {
        .env = {"VESTA_PASSWORD=hunter2", "VESTA_NAME=https://me:hunter2@example.com/a@b"}};

    CHECK_INT(t, load(&g, &c, &err), 0);
    config_print(c, &out);
    CHECK(t, !strstr(buf_cstr(&out), "hunter2"));
    CHECK(t, strstr(buf_cstr(&out), "# password: (set, not shown)"));
    CHECK(t, strstr(buf_cstr(&out), "\"https://***@example.com/a@b\""));
}

static void changes_are_found_key_by_key(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL, *d = NULL;
    struct error err = {""};
    size_t at = 0;

    CHECK_INT(t,
              load(&(struct given){.file = "net: {hosts: [a, c]}\nwork: {workers: 4}\n"}, &c, &err),
              0);
    CHECK_INT(t, load(&(struct given){.file = "mode: on\n"}, &d, &err), 0);
    const struct config_key *first =
        config_next_change(&table, config_values(c), config_values(d), &at);
    const struct config_key *second =
        config_next_change(&table, config_values(c), config_values(d), &at);
    CHECK(t, first && strcmp(first->name, "mode") == 0);
    CHECK(t, second && strcmp(second->name, "net.hosts") == 0 && second->flags & CONFIG_RELOADS);
    CHECK(t, config_next_change(&table, config_values(c), config_values(d), &at) == NULL);
}

static void defaults_may_follow_from_other_values(struct test *t)
{
    CLEANUP(config_freep) struct config *c = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};

    CHECK_INT(t, load(&(struct given){.file = "name: mine\n"}, &c, &err), 0);
    config_set_default(c, "name", "other", "because");
    config_set_default(c, "net.hosts", "z", "because of name");
    const struct values *v = config_values(c);
    CHECK_STR(t, v->name, "mine");
    CHECK_INT(t, v->hosts.n, 1);
    config_print(c, &out);
    CHECK(t, strstr(buf_cstr(&out), "# default, because of name\n"));
}

static void variables_that_look_like_ours_are_doubted(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    const char *env[] = {"VESTA_NMAE=x", "VESTA_NAME=x", "VESTA_URL=x", "PATH=x", NULL};

    config_add_doubts(&table, env, &out);
    CHECK_STR(t, buf_cstr(&out), "VESTA_NMAE is not known; did you mean VESTA_NAME?\n");
}

static void the_reference_names_every_way_to_set_a_key(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};

    config_doc(&table, "# Head\n", &out);
    const char *text = buf_cstr(&out);
    CHECK(t, strncmp(text, "# Head\n\n## General\n\n### `name`\n", 31) == 0);
    CHECK(t, strstr(text, "\n## net\n\n### `net.hosts`\n\nHosts.\n\n- list; default: `a,b`\n"
                          "- `--net-hosts`; `VESTA_NET_HOSTS`\n- changes without a restart\n"));
    CHECK(t, strstr(text, "- text; one of `auto`, `on`, `off`; default: `auto`\n"));
    CHECK(t, strstr(text, "`--net-is-fast`, `--no-net-is-fast`; `VESTA_NET_IS_FAST`\n"));
    CHECK(t, strstr(text, "`VESTA_NAME`, or else `OTEL_NAME`"));
    CHECK(t, strstr(text, "- needs a restart; a secret: never shown\n"));
}

static const struct test_case cases[] = {
    TEST(without_anything_values_are_the_defaults),
    TEST(a_file_sets_every_type),
    TEST(flags_win_over_variables_over_the_file),
    TEST(bools_are_flags_without_values),
    TEST(off_alone_empties_a_list),
    TEST(items_with_commas_stand_on_lines_of_their_own),
    TEST(standard_variables_come_behind_our_own),
    TEST(what_is_wrong_in_a_file_is_named_with_its_line),
    TEST(files_that_say_nothing_are_fine),
    TEST(what_is_wrong_elsewhere_is_named_too),
    TEST(files_that_cannot_be_read_are_refused),
    TEST(a_list_has_a_limit),
    TEST(what_is_printed_reads_as_the_same),
    TEST(secrets_are_not_printed),
    TEST(changes_are_found_key_by_key),
    TEST(defaults_may_follow_from_other_values),
    TEST(variables_that_look_like_ours_are_doubted),
    TEST(the_reference_names_every_way_to_set_a_key),
};
TEST_MAIN(cases)
