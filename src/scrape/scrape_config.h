#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config_node.h"
#include "scrape/relabel.h"

/*
 * scrape_configs, read and checked. Texts belong to the nodes, which must live longer; absent ones
 * are "". What is not said has the defaults of docs/scrape.md.
 */
#define SCRAPE_KINDS_MAX   32
#define SCRAPE_TARGETS_MAX 2000 /* of all jobs */

/* A profile that is read from a target: what `go tool pprof` calls a profile type. */
struct scrape_kind {
    const char *name; /* "cpu" */
    const char *path; /* "/debug/pprof/profile" */
    bool is_enabled;
    bool is_cumulative; /* its values count since the process began, but for what is live */
    bool is_builtin;    /* its types tell what it is */
    int64_t interval_ns;
    uint64_t seconds; /* asked for; 0: not */
    const struct config_node *params;
};

struct scrape_job {
    const char *name, *scheme, *path_prefix;
    int64_t interval_ns, timeout_ns;
    uint64_t body_max;
    bool follows_redirects;
    const struct config_node *params, *static_configs, *file_sd_configs, *dns_sd_configs;
    struct relabel relabel;
    struct scrape_kind kinds[SCRAPE_KINDS_MAX];
    size_t n_kinds;

    const char *username, *password, *password_file;
    const char *auth_type, *credentials, *credentials_file;
    const char *ca_file, *cert_file, *key_file, *server_name;
    bool skips_verification;
};

struct scrape_jobs {
    struct scrape_job *items;
    size_t n;
};

/* `configs` may be NULL. -EINVAL naming line and key. */
int scrape_jobs_parse(const struct config_node *configs, struct scrape_jobs *ret,
                      struct error *err);
void scrape_jobs_done(struct scrape_jobs *jobs);

/* A job in which nothing is said. */
void scrape_job_init(struct scrape_job *job, const char *name);

/* "host:port", "host", "[::1]:80": nothing that leads elsewhere. */
bool scrape_address_is_sound(const char *address);

/* A list of {targets, labels}, as in static_configs and in files; NULL is fine. */
int scrape_groups_check(const struct config_node *list, struct error *err);
