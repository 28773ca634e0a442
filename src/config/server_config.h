#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/*
 * What a server can be told. Every field is one row of the table in server_config.c, which makes of
 * it a YAML key, a flag, a VESTA_* variable, a default and a paragraph of the reference page.
 * Strings are never NULL: empty is "not set". They live as long as the config.
 */
struct server_config {
    /* Where. */
    struct config_list listen;           /* everything; 127.0.0.1:4040 */
    struct config_list listen_otlp_grpc; /* 127.0.0.1:4317; "off" is none */
    struct config_list listen_otlp_http; /* 127.0.0.1:4318 */
    const char *data_dir;                /* ./vesta-data */
    unsigned threads;                    /* loops and workers of a kind; 0: cores */

    /* TLS. */
    const char *tls_cert_file, *tls_key_file, *tls_client_ca_file;
    struct config_list tls_client_roles; /* of who shows a certificate and no token */

    /* Who. */
    const char *auth;         /* "auto" (tokens are asked for once there is one), "on", "off" */
    bool trust_tenant_header; /* X-Scope-OrgID names the tenant where no token does */
    const char *default_tenant;
    const char *admin_token_file; /* a file whose first line is an admin token */
    const char *admin_token;      /* the same without a file */

    /* Limits of the whole server. */
    uint64_t memory_limit;       /* of the store: 256 MiB */
    uint64_t query_memory_limit; /* of one query: 128 MiB */
    uint64_t body_limit;         /* of one request, unpacked too: 64 MiB */
    uint64_t upload_limit;       /* of debug files and heap snapshots: 1 GiB */
    uint64_t body_memory;        /* of all bodies being received: 128 MiB */
    uint32_t connections_max;    /* 10,000 */
    uint32_t queue_max;          /* requests that wait for a worker, of each kind: 256 */
    uint32_t ingest_workers;     /* 0: 4 for each core */
    uint32_t query_workers;      /* 0: 2 for each core */
    int64_t query_timeout_ns;    /* 60 s */
    int64_t drain_timeout_ns;    /* 10 s */

    /* Limits of a tenant; 0 is none. The catalog may say otherwise for one of them. */
    uint64_t tenant_bytes_per_s; /* of bodies, unpacked */
    uint64_t tenant_profiles_per_s;
    uint32_t tenant_series_max;  /* 100,000 */
    uint32_t labels_max;         /* of a series: 64 */
    uint32_t label_value_max;    /* bytes: 2,048 */
    uint32_t profile_nodes_max;  /* stack nodes of one request: 4 Mi */
    uint32_t tenant_queries_max; /* at once: 32 */

    /* Keeping. */
    int64_t retention_ns;      /* 30 days */
    int64_t span_retention_ns; /* 7 days */
    uint64_t disk_limit;       /* 0: 80 % of free + own space when the directory is made */

    /* What comes in. */
    bool accept_logs_and_metrics;       /* answer success and store nothing */
    bool keep_heap_snapshots;           /* keep raw .heapsnapshot files too */
    struct config_list span_attributes; /* kept with spans: http.route, http.request.method... */
    struct config_list
        resource_labels;     /* resource attributes that become labels beside the known */
    struct config_list mask; /* rules: "paths|functions|labels: /REGEX/REPLACEMENT/" */
    bool mask_defaults;      /* the built-in rules for secrets: on */
    bool detect_deployments; /* on */

    /* Names. */
    struct config_list debuginfod; /* URLs */
    struct config_list debug_dirs; /* /usr/lib/debug */
    bool allow_private_urls;       /* debuginfod and webhooks may be loopback or private */

    /* Sources. */
    struct config_list source_map;   /* "FROM=TO": folders of this machine */
    struct config_list source_strip; /* what paths begin with and repositories do not */
    const char *source_link;         /* a template; empty: by the repository's host */
    uint64_t source_limit;           /* of uploaded ones: 1 GiB */

    /* People and machines that look. */
    struct config_list cors_origins;  /* none */
    const char *log_level;            /* info */
    const char *log_format;           /* "text", "json" */
    bool self_profile;                /* push the server's own CPU profile to itself */
    const char *self_profile_service; /* its service.name: "vesta" */
    const char *external_url;         /* how others reach it; for links */
};

extern const struct config_table server_config_table;

/* Reads it and checks what no single key can say; errors as of config_load(). */
int server_config_load(const struct config_input *in, struct config **ret, struct error *err);

static inline const struct server_config *server_config_of(struct config *c)
{
    return (const struct server_config *)config_values(c);
}

/* docs/config.md. */
void server_config_doc(struct buf *out);
