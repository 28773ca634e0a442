#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/config.h"
#include "config/config_node.h"

/* What an agent is told: vesta-agent.yaml, or /etc/vesta/agent.yaml; VESTA_AGENT_...; flags. */
struct agent_config {
    /* What is collected. */
    struct config_list types; /* of all processes: cpu, wall, offcpu, lock, faults, threads */
    uint32_t rate;            /* samples per second and CPU: 19 */
    uint32_t wall_rate;       /* passes over all threads per second: 10 */
    uint32_t fault_period;    /* one of so many page faults: 16 */
    int64_t window_ns;        /* 10 s */
    bool prefers_cycles;
    bool kernel_frames;                   /* on */
    bool own_process;                     /* profile the agent as well: off */
    struct config_list sample_attributes; /* thread.name, thread.id, cpu.id, time; none */
    const char *pid_list; /* "12,13": only these and their children; "" all. For `record` */

    /* Which processes. Globs on exe, "service:NAME", "cgroup:GLOB", "uid:N"; exclude wins. */
    struct config_list include, exclude;
    struct config_list type_rules; /* "wall,offcpu: service:checkout": more types for some */
    const struct config_node
        *rules; /* list of {match: {exe, cmdline, cgroup, env.NAME}, set: {...}} */
    struct config_list env_attributes; /* variables that may be sent: "REGION", "TEAM=team.name" */
    bool send_cmdline;                 /* off */
    struct config_list mask; /* as the server's: "paths|functions|labels: /REGEX/REPLACEMENT/" */
    struct config_list resource; /* "deployment.environment.name=prod": on every profile */

    /* Names. */
    const char *symbols;   /* none, names, lines */
    const char *cache_dir; /* /var/cache/vesta; "" none */
    uint64_t cache_max;    /* 256 MiB */
    struct config_list debug_dirs;
    bool upload_debug_files; /* off */

    /* Where it goes. "http://host:4318", "grpc://host:4317", "grpcs://", "https://", "file:DIR". */
    struct config_list exporters; /* none: OTEL_EXPORTER_OTLP_*, or else http://127.0.0.1:4318 */
    struct config_list headers;   /* "authorization=Bearer x" */
    const char *token_file;
    const char *compression;   /* zstd, gzip, none; "": OTEL_EXPORTER_OTLP_*, or else zstd */
    int64_t export_timeout_ns; /* 0: OTEL_EXPORTER_OTLP_*, or else 10 s */
    const char *ca_file, *cert_file, *key_file;
    const char *file_format; /* pprof, otlp */
    uint64_t file_keep;      /* bytes of a file exporter's folder: 1 GiB */
    const char *spool_dir;   /* /var/lib/vesta-agent/spool; "" memory only */
    uint64_t spool_max;      /* 256 MiB */
    const char *server;      /* URL of the control protocol; "": the first exporter that is a Vesta
                                server; "off" */
    const char *listen;      /* /metrics, /status: "127.0.0.1:4042", "unix:/run/..." ; "" none */
    const char *id;          /* "": made once and kept in the state folder */
    const char *state_dir;   /* /var/lib/vesta-agent */

    /* Libraries inside programs (libvesta-preload.so). */
    bool preload;                     /* on: read where there is one */
    struct config_list preload_types; /* alloc, live, lock, threads; none: as the program says */
    uint64_t preload_interval;        /* bytes between samples; 0: as the program says */

    /* Scraping. */
    const struct config_node *scrape_configs;
    bool scrape_local_go; /* off: finds Go programs that serve /debug/pprof here */

    /* Node processes, through their inspectors. */
    struct config_list node_attach; /* which, as include; none: nothing is attached to */
    struct config_list node_types;  /* cpu, heap */
    int64_t node_interval_ns;       /* from window to window: 5 min */
    int64_t node_duration_ns;       /* of a window: 15 s */
    int64_t node_sampling_ns;       /* between CPU samples: 10 ms */
    uint64_t node_heap_bytes;       /* between heap samples: 512 KiB */
    int64_t node_min_age_ns;        /* of a process: 10 s */
    bool node_containers;           /* in networks of their own as well: off */

    /* Manners. */
    const char *mode;          /* off, low, normal, burst */
    const char *gate_file;     /* its first word is a mode, while it is there */
    uint64_t memory_max;       /* 96 MiB */
    uint32_t cpu_budget;       /* of one core, in 1/1000: 10 (1 %) */
    uint32_t host_cpu_high;    /* percent: back off above: 90; 0 never */
    uint32_t process_cpu_high; /* percent of one core, of a profiled process: 0 never */
    uint32_t burst_rate;       /* 199 */
    int64_t burst_max_ns;      /* 10 min */
    uint32_t burst_cpu_budget; /* 1/1000 of one core: 30 */
    int64_t young_ns;          /* 200 ms */
    uint64_t table_bytes;      /* 16 MiB */
    bool keep_root;            /* do not drop rights: for debugging */
    const char *user;          /* run as: "nobody" where started as root */
    const char *log_level, *log_format;
};

extern const struct config_table agent_config_table;

/* Reads it and checks what no single key can say; errors as of config_load(). */
int agent_config_load(const struct config_input *in, struct config **ret, struct error *err);

static inline const struct agent_config *agent_config_of(struct config *c)
{
    return (const struct agent_config *)config_values(c);
}

/* docs/agent-config.md. */
void agent_config_doc(struct buf *out);
