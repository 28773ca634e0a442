#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "scrape/scrape.h"
#include "scrape/scrape_config.h"

#define SECOND_NS ((int64_t)1000000000)

struct parsed {
    struct budget budget;
    struct arena arena;
    struct scrape_jobs jobs;
};

static int parse(struct parsed *p, const char *yaml, struct error *err)
{
    const struct config_node *list = NULL;

    *p = (struct parsed){0};
    budget_init(&p->budget, 1 << 20);
    arena_init(&p->arena, &p->budget);
    int r = config_node_read(bytes_of(yaml), &p->arena, &list, err);
    return r < 0 ? r : scrape_jobs_parse(list, &p->jobs, err);
}

static void done(struct parsed *p)
{
    scrape_jobs_done(&p->jobs);
    arena_done(&p->arena);
}

static const struct scrape_kind *kind_of(const struct scrape_job *job, const char *name)
{
    for (size_t i = 0; i < job->n_kinds; i++) {
        if (strcmp(job->kinds[i].name, name) == 0)
            return &job->kinds[i];
    }
    return NULL;
}

static void three_lines_are_enough(struct test *t)
{
    struct parsed p;
    struct error err = {""};

    CHECK_INT(t,
              parse(&p,
                    "- job_name: checkout\n"
                    "  static_configs: [{targets: [\"localhost:8080\"]}]\n",
                    &err),
              0);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, p.jobs.n, 1);
    const struct scrape_job *job = &p.jobs.items[0];
    CHECK_STR(t, job->name, "checkout");
    CHECK_STR(t, job->scheme, "http");
    CHECK_INT(t, job->interval_ns, 15 * SECOND_NS);
    CHECK_INT(t, kind_of(job, "cpu")->seconds, 14);
    CHECK_STR(t, kind_of(job, "cpu")->path, "/debug/pprof/profile");
    CHECK(t, kind_of(job, "heap")->is_enabled && kind_of(job, "heap")->is_cumulative);
    CHECK(t, kind_of(job, "goroutine")->is_enabled && !kind_of(job, "goroutine")->is_cumulative);
    CHECK(t, kind_of(job, "mutex")->is_cumulative && kind_of(job, "block")->is_cumulative);
    CHECK(t, !kind_of(job, "threadcreate")->is_enabled);
    done(&p);
}

static void every_profile_has_its_own_times(struct test *t)
{
    struct parsed p;
    struct error err = {""};

    CHECK_INT(t,
              parse(&p,
                    "- job_name: a\n"
                    "  scrape_interval: 30s\n"
                    "  scheme: https\n"
                    "  profiling_config:\n"
                    "    path_prefix: /internal\n"
                    "    pprof_config:\n"
                    "      process_cpu: {interval: 1m, delta: true}\n"
                    "      memory: {interval: 5m}\n"
                    "      block: {enabled: false}\n"
                    "      mutex: {seconds: 10}\n"
                    "      fgprof: {path: /debug/fgprof, seconds: 5, params: {format: pprof}}\n"
                    "      total: {path: /x, delta: true}\n",
                    &err),
              0);
    CHECK_STR(t, err.text, "");
    const struct scrape_job *job = &p.jobs.items[0];
    CHECK_STR(t, job->path_prefix, "/internal");
    CHECK_INT(t, kind_of(job, "cpu")->interval_ns, 60 * SECOND_NS);
    CHECK_INT(t, kind_of(job, "cpu")->seconds, 59);
    CHECK_INT(t, kind_of(job, "heap")->interval_ns, 300 * SECOND_NS);
    CHECK_INT(t, kind_of(job, "goroutine")->interval_ns, 30 * SECOND_NS);
    CHECK(t, !kind_of(job, "block")->is_enabled);
    /* The target itself takes what is before the window off. */
    CHECK(t, kind_of(job, "mutex")->seconds == 10 && !kind_of(job, "mutex")->is_cumulative);
    CHECK(t, kind_of(job, "fgprof")->is_enabled && !kind_of(job, "fgprof")->is_builtin);
    CHECK(t, kind_of(job, "total")->is_cumulative);
    done(&p);
}

static void what_is_wrong_is_named_with_its_line(struct test *t)
{
#define JOB "- job_name: a\n"
    static const struct {
        const char *yaml, *want;
    } cases[] = {
        {"job_name: a", "line 1: scrape_configs is expected to be a list"},
        {"- scheme: http", "line 1: a scrape config needs job_name"},
        {JOB "  interval: 3s", "line 2: a scrape config has no key \"interval\""},
        {JOB "  scrape_intervall: 3s",
         "line 2: a scrape config has no key \"scrape_intervall\"; did you mean "
         "\"scrape_interval\"?"},
        {JOB "  scrape_interval: 10ms", "line 2: scrape_interval is 10ms, less than the least, 1s"},
        {JOB "  scrape_interval: soon",
         "line 2: scrape_interval is \"soon\", where a duration such as 500ms, 30s or 1h30m is "
         "expected"},
        {JOB "  scheme: ftp", "line 2: scheme is \"ftp\", not http or https"},
        {JOB "  path_prefix: x", "line 1: path_prefix is expected to begin with \"/\""},
        {JOB "  static_configs:\n  - targets: [\"http://x:1/\"]",
         "line 3: the target \"http://x:1/\" is not HOST:PORT"},
        {JOB "  static_configs:\n  - targets: x:1",
         "line 3: targets is \"x:1\", where a list is expected"},
        {JOB "  static_configs: [{targets: [\"x:1\"], labels: {a-b: c}}]",
         "line 2: \"a-b\" is no name of a label"},
        {JOB "  file_sd_configs: [{refresh_interval: 5s}]", "line 2: file_sd_configs needs files"},
        {JOB "  dns_sd_configs: [{names: [x], type: A}]",
         "line 2: dns_sd_configs of type A needs port"},
        {JOB "  dns_sd_configs: [{names: [x], type: MX}]",
         "line 2: type is \"MX\", not one of A, AAAA, SRV"},
        {JOB "  dns_sd_configs: [{names: [x], server: dns.example}]",
         "line 2: server is \"dns.example\", where an IPv4 address, with a port or without, is "
         "expected"},
        {JOB "  basic_auth: {password: x}", "line 2: basic_auth has no username"},
        {JOB "  basic_auth: {username: x}\n  bearer_token: y",
         "line 1: basic_auth and a token are both set"},
        {JOB "  bearer_token: x\n  bearer_token_file: y",
         "line 1: a secret and a file for it are both set"},
        {JOB "  tls_config: {cert_file: x}",
         "line 2: of cert_file and key_file one is set without the other"},
        {JOB "  profiling_config: {pprof_config: {mine: {interval: 3s}}}",
         "line 2: the path of mine is \"\", where one that begins with \"/\" is expected"},
        {JOB "  profiling_config: {pprof_config: {cpu: {seconds: 3601}}}",
         "line 2: seconds is 3601, more than the most, 3600"},
        {JOB JOB, "line 2: there is a job_name \"a\" already"},
        {JOB "  relabel_configs: [{action: keep, regex: '['}]",
         "line 2: regex: bad regular expression \"[\" at character 2: missing terminating ] for "
         "character class"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct parsed p;
        struct error err = {""};
        CHECK_INT(t, parse(&p, cases[i].yaml, &err), -EINVAL);
        CHECK_STR(t, err.text, cases[i].want);
        done(&p);
    }
}

static void addresses_lead_nowhere_else(struct test *t)
{
    static const char *const good[] = {"localhost:80", "10.0.0.1", "[::1]:8080", "a.b-c:1"};
    static const char *const bad[] = {"",        "http://x", "x:1/y", "me@x:1",
                                      "x:99999", "x:1?a",    "a b",   "x:1#y"};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        CHECK(t, scrape_address_is_sound(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(t, !scrape_address_is_sound(bad[i]));
}

static const struct test_case cases[] = {
    TEST(three_lines_are_enough),
    TEST(every_profile_has_its_own_times),
    TEST(what_is_wrong_is_named_with_its_line),
    TEST(addresses_lead_nowhere_else),
};
TEST_MAIN(cases)
