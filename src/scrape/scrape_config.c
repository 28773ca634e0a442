#include "scrape/scrape_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/url.h"
#include "scrape/dns.h"
#include "scrape/node_values.h"
#include "scrape/scrape.h"

#define SECOND_NS   ((int64_t)1000000000)
#define INTERVAL_NS (15 * SECOND_NS)
#define TIMEOUT_NS  (10 * SECOND_NS)
#define BODY_MAX    ((uint64_t)16 << 20)
#define SECONDS_MAX 3600
#define SHORTEST_NS SECOND_NS

static const struct scrape_kind builtin[] = {
    {.name = "cpu", .path = "/debug/pprof/profile", .is_enabled = true},
    {.name = "heap", .path = "/debug/pprof/heap", .is_enabled = true, .is_cumulative = true},
    {.name = "goroutine", .path = "/debug/pprof/goroutine", .is_enabled = true},
    {.name = "mutex", .path = "/debug/pprof/mutex", .is_enabled = true, .is_cumulative = true},
    {.name = "block", .path = "/debug/pprof/block", .is_enabled = true, .is_cumulative = true},
    {.name = "threadcreate", .path = "/debug/pprof/threadcreate"},
};

/* Names that others have for them. */
static const struct {
    const char *theirs, *ours;
} aliases[] = {{"process_cpu", "cpu"}, {"profile", "cpu"}, {"memory", "heap"}};

void scrape_job_init(struct scrape_job *job, const char *name)
{
    *job = (struct scrape_job){
        .name = name,
        .scheme = "http",
        .path_prefix = "",
        .interval_ns = INTERVAL_NS,
        .timeout_ns = TIMEOUT_NS,
        .body_max = BODY_MAX,
        .follows_redirects = true,
        .username = "",
        .password = "",
        .password_file = "",
        .auth_type = "Bearer",
        .credentials = "",
        .credentials_file = "",
        .ca_file = "",
        .cert_file = "",
        .key_file = "",
        .server_name = "",
        .n_kinds = ARRAY_SIZE(builtin),
    };
    memcpy(job->kinds, builtin, sizeof(builtin));
    for (size_t i = 0; i < job->n_kinds; i++) {
        job->kinds[i].is_builtin = true;
        job->kinds[i].interval_ns = INTERVAL_NS;
    }
    job->kinds[0].seconds = (uint64_t)(INTERVAL_NS / SECOND_NS) - 1;
}

bool scrape_address_is_sound(const char *address)
{
    struct url url;
    char text[512];
    int n = snprintf(text, sizeof(text), "http://%s", address);

    return address[0] && n < (int)sizeof(text) && !strpbrk(address, "/?#@ \\") &&
           url_parse(text, &url, NULL) == 0;
}

/* ---- Who we are */

static int parse_auth(const struct config_node *map, struct scrape_job *job, struct error *err)
{
    const struct config_node *basic = NULL, *authorization = NULL;
    int r = node_map(map, "basic_auth", &basic, err);

    if (r == 0)
        r = node_map(map, "authorization", &authorization, err);
    if (r == 0 && basic)
        r = node_check(basic, "basic_auth", "username password password_file", err);
    if (r == 0 && authorization)
        r = node_check(authorization, "authorization", "type credentials credentials_file", err);
    if (r == 0)
        r = node_string(basic, "username", &job->username, err);
    if (r == 0)
        r = node_string(basic, "password", &job->password, err);
    if (r == 0)
        r = node_string(basic, "password_file", &job->password_file, err);
    if (r == 0)
        r = node_string(authorization, "type", &job->auth_type, err);
    if (r == 0)
        r = node_string(authorization, "credentials", &job->credentials, err);
    if (r == 0)
        r = node_string(authorization, "credentials_file", &job->credentials_file, err);
    if (r == 0)
        r = node_string(map, "bearer_token", &job->credentials, err);
    if (r == 0)
        r = node_string(map, "bearer_token_file", &job->credentials_file, err);
    if (r < 0)
        return r;
    if (basic && (job->credentials[0] || job->credentials_file[0]))
        return error_set(err, -EINVAL, "line %u: basic_auth and a token are both set", map->line);
    if (basic && !job->username[0])
        return error_set(err, -EINVAL, "line %u: basic_auth has no username", basic->line);
    if ((job->password[0] && job->password_file[0]) ||
        (job->credentials[0] && job->credentials_file[0]))
        return error_set(err, -EINVAL, "line %u: a secret and a file for it are both set",
                         map->line);
    return 0;
}

static int parse_tls(const struct config_node *map, struct scrape_job *job, struct error *err)
{
    const struct config_node *tls = NULL;
    int r = node_map(map, "tls_config", &tls, err);

    if (r < 0 || !tls)
        return r;
    r = node_check(tls, "tls_config", "ca_file cert_file key_file server_name insecure_skip_verify",
                   err);
    if (r == 0)
        r = node_string(tls, "ca_file", &job->ca_file, err);
    if (r == 0)
        r = node_string(tls, "cert_file", &job->cert_file, err);
    if (r == 0)
        r = node_string(tls, "key_file", &job->key_file, err);
    if (r == 0)
        r = node_string(tls, "server_name", &job->server_name, err);
    if (r == 0)
        r = node_bool(tls, "insecure_skip_verify", &job->skips_verification, err);
    if (r == 0 && !job->cert_file[0] != !job->key_file[0])
        r = error_set(err, -EINVAL,
                      "line %u: of cert_file and key_file one is set without the "
                      "other",
                      tls->line);
    return r;
}

/* ---- What is read */

static struct scrape_kind *find_kind(struct scrape_job *job, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
        if (strcmp(name, aliases[i].theirs) == 0)
            name = aliases[i].ours;
    }
    for (size_t i = 0; i < job->n_kinds; i++) {
        if (strcmp(job->kinds[i].name, name) == 0)
            return &job->kinds[i];
    }
    return NULL;
}

static int parse_params(const struct config_node *map, const struct config_node **ret,
                        struct error *err)
{
    int r = node_map(map, "params", ret, err);

    for (const struct config_node *n = r == 0 && *ret ? (*ret)->first : NULL; n && r == 0;
         n = n->next) {
        if (n->kind == CONFIG_NODE_MAP)
            return error_set(err, -EINVAL, "line %u: the parameter %.60s is a list of texts",
                             n->line, n->key);
        r = n->kind == CONFIG_NODE_LIST ? node_check_texts(n, err) : 0;
    }
    return r;
}

static int parse_kind(const struct config_node *n, struct scrape_job *job, struct error *err)
{
    struct scrape_kind *kind = find_kind(job, n->key);
    uint64_t seconds = UINT64_MAX;
    bool is_new = !kind;

    if (is_new && job->n_kinds == SCRAPE_KINDS_MAX)
        return error_set(err, -EINVAL, "line %u: more than %d profiles of a job", n->line,
                         SCRAPE_KINDS_MAX);
    if (is_new) {
        kind = &job->kinds[job->n_kinds++];
        *kind = (struct scrape_kind){
            .name = n->key, .path = "", .is_enabled = true, .interval_ns = job->interval_ns};
    }
    int r = node_check(n, n->key, "enabled path seconds delta interval params", err);
    if (r == 0)
        r = node_bool(n, "enabled", &kind->is_enabled, err);
    if (r == 0)
        r = node_string(n, "path", &kind->path, err);
    if (r == 0)
        r = node_duration(n, "interval", SHORTEST_NS, &kind->interval_ns, err);
    if (r == 0)
        r = node_number(n, "seconds", SECONDS_MAX, &seconds, err);
    /* A window of time counts nothing since the beginning. */
    if (r == 0 && seconds != UINT64_MAX)
        kind->seconds = seconds;
    if (kind->seconds > 0)
        kind->is_cumulative = false;
    else if (r == 0)
        r = node_bool(n, "delta", &kind->is_cumulative, err);
    if (r == 0)
        r = parse_params(n, &kind->params, err);
    if (r == 0 && kind->path[0] != '/')
        r = error_set(err, -EINVAL,
                      "line %u: the path of %.60s is \"%.60s\", where one that "
                      "begins with \"/\" is expected",
                      n->line, n->key, kind->path);
    return r;
}

static int parse_kinds(const struct config_node *map, struct scrape_job *job, struct error *err)
{
    const struct config_node *profiling = NULL, *pprof = NULL;
    int r = node_map(map, "profiling_config", &profiling, err);

    for (size_t i = 0; i < job->n_kinds; i++)
        job->kinds[i].interval_ns = job->interval_ns;
    if (r == 0 && profiling)
        r = node_check(profiling, "profiling_config", "pprof_config path_prefix", err);
    if (r == 0)
        r = node_string(profiling, "path_prefix", &job->path_prefix, err);
    if (r == 0)
        r = node_map(profiling, "pprof_config", &pprof, err);
    /* Its default follows from an interval that is said. */
    struct scrape_kind *cpu = &job->kinds[0];
    const struct config_node *of_cpu = config_node_get(pprof, "cpu");
    if (!of_cpu)
        of_cpu = config_node_get(pprof, "process_cpu");
    if (r == 0 && of_cpu)
        r = node_duration(of_cpu, "interval", SHORTEST_NS, &cpu->interval_ns, err);
    int64_t seconds = cpu->interval_ns / SECOND_NS - 1;
    cpu->seconds = seconds < 1 ? 1 : seconds > SECONDS_MAX ? SECONDS_MAX : (uint64_t)seconds;
    for (const struct config_node *n = pprof ? pprof->first : NULL; n && r == 0; n = n->next)
        r = parse_kind(n, job, err);
    return r;
}

/* ---- Where from */

static int check_labels(const struct config_node *group, struct error *err)
{
    const struct config_node *labels = NULL;
    int r = node_map(group, "labels", &labels, err);

    for (const struct config_node *n = labels ? labels->first : NULL; n && r == 0; n = n->next) {
        if (n->kind != CONFIG_NODE_SCALAR)
            r = error_set(err, -EINVAL, "line %u: the label %.60s is expected to be a text",
                          n->line, n->key);
        else if (!tag_name_is_sound(bytes_of(n->key)))
            r = error_set(err, -EINVAL, "line %u: \"%.60s\" is no name of a label", n->line,
                          n->key);
    }
    return r;
}

int scrape_groups_check(const struct config_node *list, struct error *err)
{
    int r = 0;

    if (list && list->kind != CONFIG_NODE_LIST)
        return error_set(err, -EINVAL, "line %u: a list of {targets, labels} is expected",
                         list->line);
    for (const struct config_node *n = list ? list->first : NULL; n && r == 0; n = n->next) {
        const struct config_node *targets = NULL;
        r = node_check(n, "a group of targets", "targets labels", err);
        if (r == 0)
            r = node_list(n, "targets", &targets, err);
        if (r == 0)
            r = node_check_texts(targets, err);
        if (r == 0)
            r = check_labels(n, err);
        for (const struct config_node *t = targets ? targets->first : NULL; t && r == 0;
             t = t->next) {
            if (!scrape_address_is_sound(t->value))
                r = error_set(err, -EINVAL, "line %u: the target \"%.60s\" is not HOST:PORT",
                              t->line, t->value);
        }
    }
    return r;
}

static int check_file_sd(const struct config_node *list, struct error *err)
{
    int64_t refresh;
    int r = 0;

    for (const struct config_node *n = list ? list->first : NULL; n && r == 0; n = n->next) {
        const struct config_node *files = NULL;
        r = node_check(n, "file_sd_configs", "files refresh_interval", err);
        if (r == 0)
            r = node_list(n, "files", &files, err);
        if (r == 0)
            r = node_check_texts(files, err);
        if (r == 0)
            r = node_duration(n, "refresh_interval", SHORTEST_NS, &refresh, err);
        if (r == 0 && !files)
            r = error_set(err, -EINVAL, "line %u: file_sd_configs needs files", n->line);
    }
    return r;
}

static int check_dns_sd(const struct config_node *list, struct error *err)
{
    int64_t refresh;
    int r = 0;

    for (const struct config_node *n = list ? list->first : NULL; n && r == 0; n = n->next) {
        const struct config_node *names = NULL;
        const char *type = "SRV", *server = "";
        uint64_t port = 0;
        r = node_check(n, "dns_sd_configs", "names type port refresh_interval server", err);
        if (r == 0)
            r = node_list(n, "names", &names, err);
        if (r == 0)
            r = node_check_texts(names, err);
        if (r == 0)
            r = node_string(n, "type", &type, err);
        if (r == 0)
            r = node_string(n, "server", &server, err);
        if (r == 0)
            r = node_number(n, "port", 65535, &port, err);
        if (r == 0)
            r = node_duration(n, "refresh_interval", SHORTEST_NS, &refresh, err);
        if (r == 0 && !names)
            r = error_set(err, -EINVAL, "line %u: dns_sd_configs needs names", n->line);
        bool is_srv = strcmp(type, "SRV") == 0;
        if (r == 0 && !is_srv && strcmp(type, "A") != 0 && strcmp(type, "AAAA") != 0)
            r = error_set(err, -EINVAL, "line %u: type is \"%.60s\", not one of A, AAAA, SRV",
                          n->line, type);
        if (r == 0 && !is_srv && port == 0)
            r = error_set(err, -EINVAL, "line %u: dns_sd_configs of type %s needs port", n->line,
                          type);
        if (r == 0 && server[0] && !dns_server_is_sound(server))
            r = error_set(err, -EINVAL,
                          "line %u: server is \"%.60s\", where an IPv4 address, with "
                          "a port or without, is expected",
                          n->line, server);
    }
    return r;
}

static int parse_sources(const struct config_node *map, struct scrape_job *job, struct error *err)
{
    int r = node_list(map, "static_configs", &job->static_configs, err);

    if (r == 0)
        r = node_list(map, "file_sd_configs", &job->file_sd_configs, err);
    if (r == 0)
        r = node_list(map, "dns_sd_configs", &job->dns_sd_configs, err);
    if (r == 0)
        r = scrape_groups_check(job->static_configs, err);
    if (r == 0)
        r = check_file_sd(job->file_sd_configs, err);
    if (r == 0)
        r = check_dns_sd(job->dns_sd_configs, err);
    return r;
}

/* ---- A job */

static const char job_keys[] =
    "job_name scrape_interval scrape_timeout scheme path_prefix params static_configs "
    "file_sd_configs dns_sd_configs relabel_configs basic_auth authorization bearer_token "
    "bearer_token_file tls_config follow_redirects body_size_limit profiling_config";

static int check_job(const struct config_node *map, const struct scrape_job *job, struct error *err)
{
    if (!job->name[0])
        return error_set(err, -EINVAL, "line %u: a scrape config needs job_name", map->line);
    if (strcmp(job->scheme, "http") != 0 && strcmp(job->scheme, "https") != 0)
        return error_set(err, -EINVAL, "line %u: scheme is \"%.60s\", not http or https",
                         config_node_get(map, "scheme")->line, job->scheme);
    if (job->path_prefix[0] && job->path_prefix[0] != '/')
        return error_set(err, -EINVAL, "line %u: path_prefix is expected to begin with \"/\"",
                         map->line);
    if (job->body_max < 1024)
        return error_set(err, -EINVAL, "line %u: body_size_limit is less than the least, 1KiB",
                         map->line);
    return 0;
}

static int parse_job(const struct config_node *map, struct scrape_job *job, struct error *err)
{
    const struct config_node *rules = NULL;
    int r = node_check(map, "a scrape config", job_keys, err);

    if (r == 0)
        r = node_string(map, "job_name", &job->name, err);
    if (r == 0)
        r = node_duration(map, "scrape_interval", SHORTEST_NS, &job->interval_ns, err);
    if (r == 0)
        r = node_duration(map, "scrape_timeout", SHORTEST_NS, &job->timeout_ns, err);
    if (r == 0)
        r = node_string(map, "scheme", &job->scheme, err);
    if (r == 0)
        r = node_string(map, "path_prefix", &job->path_prefix, err);
    if (r == 0)
        r = node_bool(map, "follow_redirects", &job->follows_redirects, err);
    if (r == 0)
        r = node_size(map, "body_size_limit", &job->body_max, err);
    if (r == 0)
        r = parse_params(map, &job->params, err);
    if (r == 0)
        r = parse_auth(map, job, err);
    if (r == 0)
        r = parse_tls(map, job, err);
    if (r == 0)
        r = parse_kinds(map, job, err);
    if (r == 0)
        r = parse_sources(map, job, err);
    if (r == 0)
        r = check_job(map, job, err);
    if (r == 0)
        r = node_list(map, "relabel_configs", &rules, err);
    return r == 0 ? relabel_parse(rules, &job->relabel, err) : r;
}

static int check_names(const struct scrape_jobs *jobs, const struct config_node *last,
                       struct error *err)
{
    for (size_t i = 0; i + 1 < jobs->n; i++) {
        if (strcmp(jobs->items[i].name, jobs->items[jobs->n - 1].name) == 0)
            return error_set(err, -EINVAL, "line %u: there is a job_name \"%.60s\" already",
                             last->line, jobs->items[i].name);
    }
    return 0;
}

int scrape_jobs_parse(const struct config_node *configs, struct scrape_jobs *ret, struct error *err)
{
    struct scrape_jobs jobs = {0};
    int r = 0;

    if (configs && configs->kind != CONFIG_NODE_LIST)
        return error_set(err, -EINVAL, "line %u: scrape_configs is expected to be a list",
                         configs->line);
    for (const struct config_node *n = configs ? configs->first : NULL; n && r == 0; n = n->next) {
        jobs.items = must_realloc(jobs.items, (jobs.n + 1) * sizeof(*jobs.items));
        scrape_job_init(&jobs.items[jobs.n++], "");
        r = parse_job(n, &jobs.items[jobs.n - 1], err);
        if (r == 0)
            r = check_names(&jobs, n, err);
    }
    if (r < 0)
        scrape_jobs_done(&jobs);
    else
        *ret = jobs;
    return r;
}

void scrape_jobs_done(struct scrape_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        relabel_done(&jobs->items[i].relabel);
    free(jobs->items);
    *jobs = (struct scrape_jobs){0};
}

int scrape_check(const struct config_node *configs, struct error *err)
{
    struct scrape_jobs jobs = {0};
    int r = scrape_jobs_parse(configs, &jobs, err);

    scrape_jobs_done(&jobs);
    return r;
}
