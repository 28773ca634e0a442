#include "config/agent_config.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "config/config_internal.h"

#define AT(field) offsetof(struct agent_config, field)
#define SECOND_NS ((uint64_t)1000000000)
#define MIB       ((uint64_t)1 << 20)

/* In the order of `config print` and of the reference page. Keys of a section stand together. */
static const struct config_key keys[] = {
    {"exporters", CONFIG_LIST, AT(exporters), "",
     "Where profiles go, to each of them: `http://HOST:4318` or `https://` (OTLP over HTTP), "
     "`grpc://HOST:4317` or `grpcs://` (OTLP over gRPC), `file:DIR` (files). Without any, what "
     "`OTEL_EXPORTER_OTLP_*` say, or else `http://127.0.0.1:4318`."},
    {"server", CONFIG_STRING, AT(server), "",
     "URL of the Vesta server that is told how the agent fares and may direct it. Not set, it is "
     "the first exporter that turns out to be a Vesta server; `off` is none."},
    {"types", CONFIG_LIST, AT(types), "cpu",
     "What is collected of every process: time on a CPU (`cpu`), the time of every thread "
     "(`wall`), "
     "time blocked (`offcpu`), time lost waiting for locks (`lock`), code that grows memory "
     "(`faults`), threads by state (`threads`). `off` is none of them: scraping alone.",
     .choices = "cpu|wall|offcpu|lock|faults|threads"},
    {"type_rules", CONFIG_LIST, AT(type_rules), "",
     "More types for some processes: `wall,offcpu: service:checkout`, with what `include` takes "
     "behind the colon. In the flag and the variable, items stand on lines of their own.",
     .flags = CONFIG_WHOLE},
    {"rate", CONFIG_U32, AT(rate), "19",
     "Samples per second and CPU, for `cpu`. Odd rates do not run in step with timers.", .min = 1,
     .max = 999},
    {"wall_rate", CONFIG_U32, AT(wall_rate), "10",
     "Passes over all threads per second, for `wall` and `threads`.", .min = 1, .max = 99},
    {"fault_period", CONFIG_U32, AT(fault_period), "16",
     "One of so many page faults is taken, for `faults`.", .min = 1, .max = 1000000},
    {"window", CONFIG_DURATION, AT(window_ns), "10s",
     "The time that one profile covers. Samples of one stack in it are added up.", .min = SECOND_NS,
     .max = 600 * SECOND_NS},
    {"include", CONFIG_LIST, AT(include), "",
     "Which processes: globs on the path of the executable (`/usr/bin/*`), `service:NAME`, "
     "`cgroup:GLOB`, `uid:N`. Without any, all of them."},
    {"exclude", CONFIG_LIST, AT(exclude), "",
     "Which processes are left out, written as `include`. It wins over `include`."},
    {"rules", CONFIG_NODE, AT(rules), "",
     "Attributes for processes, by a list of `{match: {...}, set: {...}}`. `match` has regular "
     "expressions for `exe`, `cmdline`, `cgroup` and `env.NAME`, all of which must match; `set` "
     "has attributes, such as `service.name`, in whose values `$1` is what the first group "
     "matched. Later rules win."},
    {"resource", CONFIG_LIST, AT(resource), "",
     "Attributes of every profile: `deployment.environment.name=prod`."},
    {"sample_attributes", CONFIG_LIST, AT(sample_attributes), "",
     "What else samples carry. Each makes more and smaller samples.",
     .choices = "thread.name|thread.id|cpu.id|time"},
    {"kernel_frames", CONFIG_BOOL, AT(kernel_frames), "true", "Stacks go on into the kernel."},
    {"cycles", CONFIG_BOOL, AT(prefers_cycles), "false",
     "CPU samples are taken by the processor's cycle counter, where there is one, rather than by "
     "the clock."},
    {"own_process", CONFIG_BOOL, AT(own_process), "false", "The agent is profiled as well."},
    {"pids", CONFIG_STRING, AT(pid_list), "",
     "Only these processes and their children: `12,13`. Not set, all."},
    {"symbols", CONFIG_STRING, AT(symbols), "names",
     "What is found out about code on this host: nothing but build ids and addresses (`none`), "
     "names of functions (`names`), or files, lines and inlined functions too (`lines`).",
     .choices = "none|names|lines"},
    {"mode", CONFIG_STRING, AT(mode), "normal",
     "How much is done: nothing (`off`), a quarter of the rate (`low`), what is configured "
     "(`normal`), or `burst` for as long as `burst.max`. A gate file, a signal and the server may "
     "say otherwise for a time.",
     .choices = "off|low|normal|burst"},
    {"gate_file", CONFIG_STRING, AT(gate_file), "",
     "While there is such a file, its first word is the mode."},
    {"listen", CONFIG_STRING, AT(listen), "",
     "Where `/metrics` and `/status` are served: `127.0.0.1:4042`, `unix:/run/vesta-agent.sock`. "
     "Not set, nowhere."},
    {"id", CONFIG_STRING, AT(id), "",
     "The name of this agent. Not set, one is made and kept in the state folder."},
    {"state_dir", CONFIG_STRING, AT(state_dir), "/var/lib/vesta-agent",
     "The folder of what the agent keeps."},
    {"user", CONFIG_STRING, AT(user), "nobody",
     "Who the agent's processes run as, where it is started as root. They keep the capabilities "
     "that they need and no other right."},
    {"keep_root", CONFIG_BOOL, AT(keep_root), "false",
     "Rights are not given up. For debugging only."},

    {"export.headers", CONFIG_LIST, AT(headers), "", "Headers of every request: `name=value`.",
     .flags = CONFIG_SECRET | CONFIG_WHOLE},
    {"export.token_file", CONFIG_STRING, AT(token_file), "",
     "A file whose first line is sent as a bearer token."},
    {"export.compression", CONFIG_STRING, AT(compression), "",
     "How requests are packed. Not set, what `OTEL_EXPORTER_OTLP_COMPRESSION` says, or else "
     "`zstd`. Receivers that refuse `zstd` are sent `gzip`.",
     .choices = "zstd|gzip|none"},
    {"export.timeout", CONFIG_DURATION, AT(export_timeout_ns), "0s",
     "The longest that one request may take. 0 is what `OTEL_EXPORTER_OTLP_TIMEOUT` says, or else "
     "ten seconds.",
     .max = 600 * SECOND_NS},

    {"tls.ca_file", CONFIG_STRING, AT(ca_file), "",
     "Certificates, PEM, that receivers are checked against. Not set, those of the system."},
    {"tls.cert_file", CONFIG_STRING, AT(cert_file), "",
     "The certificate that the agent shows, PEM."},
    {"tls.key_file", CONFIG_STRING, AT(key_file), "", "Its private key, PEM."},

    {"file.format", CONFIG_STRING, AT(file_format), "pprof", "What `file:DIR` exporters write.",
     .choices = "pprof|otlp"},
    {"file.keep", CONFIG_BYTES, AT(file_keep), "1GiB",
     "What the folder of a file exporter may take: above it the oldest files go first.",
     .min = MIB},

    {"spool.dir", CONFIG_STRING, AT(spool_dir), "/var/lib/vesta-agent/spool",
     "Where profiles wait that could not be sent. Set to nothing, they wait in memory."},
    {"spool.max", CONFIG_BYTES, AT(spool_max), "256MiB",
     "What they may take there: above it the oldest are dropped, and counted.", .min = MIB},

    {"preload.read", CONFIG_BOOL, AT(preload), "true",
     "What `libvesta-preload.so` samples inside of programs is read and sent, of every process "
     "that "
     "carries it ([preload.md](preload.md))."},
    {"preload.types", CONFIG_LIST, AT(preload_types), "",
     "What those libraries are told to sample: allocations (`alloc`), what of them is still there "
     "(`live`), waits for locks (`lock`), threads that are made (`threads`). Not set, they go on "
     "with what the program was started with.",
     .choices = "alloc|live|lock|threads"},
    {"preload.interval", CONFIG_BYTES, AT(preload_interval), "0",
     "One sample for so many bytes, on average. 0 is what the program was started with.",
     .max = (uint64_t)1 << 30},

    {"scrape_configs", CONFIG_NODE, AT(scrape_configs), "",
     "pprof endpoints that are read again and again, as [scrape.md](scrape.md) says."},
    {"scrape_local_go", CONFIG_BOOL, AT(scrape_local_go), "false",
     "Go programs of this host that serve `/debug/pprof` are found, and read as well."},

    {"node.attach", CONFIG_LIST, AT(node_attach), "",
     "Node processes that are profiled from inside, a window at a time, through the inspector that "
     "`SIGUSR1` opens in them, written as `include`; `*` is all of them. Not set, none: no signal "
     "is sent. Read [node-attach.md](node-attach.md) first."},
    {"node.types", CONFIG_LIST, AT(node_types), "cpu,heap",
     "What is taken of them: CPU time by JavaScript function (`cpu`), memory that was allocated in "
     "the window and is in use at its end (`heap`).",
     .choices = "cpu|heap"},
    {"node.interval", CONFIG_DURATION, AT(node_interval_ns), "5m",
     "The time from the beginning of one window of a process to that of the next.",
     .min = SECOND_NS, .max = 86400 * SECOND_NS},
    {"node.duration", CONFIG_DURATION, AT(node_duration_ns), "15s", "The time of one window.",
     .min = SECOND_NS / 10, .max = 600 * SECOND_NS},
    {"node.sampling", CONFIG_DURATION, AT(node_sampling_ns), "10ms",
     "The time between two CPU samples.", .min = SECOND_NS / 10000, .max = SECOND_NS},
    {"node.heap_sampling", CONFIG_BYTES, AT(node_heap_bytes), "512KiB",
     "The bytes between two samples of allocations, on average.", .min = 1024, .max = 1024 * MIB},
    {"node.min_age", CONFIG_DURATION, AT(node_min_age_ns), "10s",
     "Younger processes are not attached to: a program that is starting may not be ready for a "
     "signal.",
     .min = SECOND_NS, .max = 86400 * SECOND_NS},
    {"node.containers", CONFIG_BOOL, AT(node_containers), "false",
     "Processes in networks of their own, as in containers, are attached to as well. To enter "
     "their "
     "networks the agent keeps CAP_SYS_ADMIN."},

    {"cache.dir", CONFIG_STRING, AT(cache_dir), "/var/cache/vesta",
     "Where names of code are kept, by build id. Set to nothing, nowhere."},
    {"cache.max", CONFIG_BYTES, AT(cache_max), "256MiB",
     "What they may take there: above it the least used go first.", .min = MIB},

    {"debug.dirs", CONFIG_LIST, AT(debug_dirs), "/usr/lib/debug",
     "Directories with debug files, by build id."},
    {"debug.upload", CONFIG_BOOL, AT(upload_debug_files), "false",
     "Debug files that the server lacks are sent to it."},

    {"privacy.env", CONFIG_LIST, AT(env_attributes), "",
     "Environment variables of processes that may be sent, as attributes: `REGION`, "
     "`TEAM=team.name`. No other is."},
    {"privacy.cmdline", CONFIG_BOOL, AT(send_cmdline), "false",
     "Command lines of processes are sent. They may hold secrets."},
    {"privacy.mask", CONFIG_LIST, AT(mask), "",
     "What is replaced before anything leaves the host: `paths: /REGEX/REPLACEMENT/`, for `paths`, "
     "`functions` or `labels` (their values). In the flag and the variable, items stand on lines "
     "of their own.",
     .flags = CONFIG_WHOLE},

    {"limits.memory", CONFIG_BYTES, AT(memory_max), "96MiB",
     "What all processes of the agent may take together. Near it the rate goes down, then names "
     "in memory go, then tables, then the window ends early.",
     .min = 16 * MIB},
    {"limits.tables", CONFIG_BYTES, AT(table_bytes), "16MiB",
     "What tables for unwinding may take of it. Above it the least used go first.", .min = MIB,
     .max = 1024 * MIB},
    {"limits.cpu", CONFIG_U32, AT(cpu_budget), "10",
     "The CPU time that the agent may use, in thousandths of one core: 10 is 1 %. Above it the "
     "rate goes down.",
     .min = 1, .max = 1000},
    {"limits.young", CONFIG_DURATION, AT(young_ns), "200ms",
     "Processes that live shorter are not looked into: their samples are counted by executable.",
     .max = 60 * SECOND_NS},

    {"backoff.host_cpu", CONFIG_U32, AT(host_cpu_high), "90",
     "The rate goes down while the host is busier than so many percent of all its CPUs. 0 is "
     "never.",
     .max = 100},
    {"backoff.process_cpu", CONFIG_U32, AT(process_cpu_high), "0",
     "The rate goes down while a process uses more than so many percent of one CPU. 0 is never.",
     .max = 100000},

    {"burst.rate", CONFIG_U32, AT(burst_rate), "199", "Samples per second and CPU during a burst.",
     .min = 1, .max = 999},
    {"burst.max", CONFIG_DURATION, AT(burst_max_ns), "10m", "The longest burst.", .min = SECOND_NS,
     .max = 86400 * SECOND_NS},
    {"burst.cpu", CONFIG_U32, AT(burst_cpu_budget), "30",
     "What `limits.cpu` is during a burst. `backoff` does not count then.", .min = 1, .max = 1000},

    {"log.level", CONFIG_STRING, AT(log_level), "info",
     "The least important lines that are logged.", .choices = "debug|info|warn|error",
     .also = "OTEL_LOG_LEVEL"},
    {"log.format", CONFIG_STRING, AT(log_format), "text",
     "Lines for people, or JSON for machines. Both go to standard error.", .choices = "text|json"},
};

const struct config_table agent_config_table = {
    .keys = keys,
    .n_keys = ARRAY_SIZE(keys),
    .size = sizeof(struct agent_config),
    .prefix = "VESTA_AGENT_",
    .files = {"vesta-agent.yaml", "/etc/vesta/agent.yaml"},
};

static bool begins_with_one_of(const char *text, const char *const *heads, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(heads[i]);
        if (strncmp(text, heads[i], len) == 0 && text[len])
            return true;
    }
    return false;
}

static int check_exporters(const struct agent_config *a, struct error *err)
{
    static const char *const schemes[] = {"http://", "https://", "grpc://", "grpcs://", "file:"};

    for (size_t i = 0; i < a->exporters.n; i++) {
        if (!begins_with_one_of(a->exporters.items[i], schemes, ARRAY_SIZE(schemes)))
            return error_set(err, -EINVAL,
                             "exporters: item %zu is none of http://HOST, https://HOST, "
                             "grpc://HOST, grpcs://HOST, file:DIR",
                             i + 1);
    }
    if (a->server[0] && strcmp(a->server, "off") != 0 && !begins_with_one_of(a->server, schemes, 2))
        return error_set(err, -EINVAL, "server is no http or https URL");
    if (!a->cert_file[0] != !a->key_file[0])
        return error_set(err, -EINVAL, "%s is set without %s",
                         a->cert_file[0] ? "tls.cert_file" : "tls.key_file",
                         a->cert_file[0] ? "tls.key_file" : "tls.cert_file");
    return 0;
}

/* "name=value", of which the value is not shown: it may be secret. */
static int check_pairs(const char *key, const struct config_list *pairs, struct error *err)
{
    for (size_t i = 0; i < pairs->n; i++) {
        const char *equals = strchr(pairs->items[i], '=');
        if (!equals || equals == pairs->items[i])
            return error_set(err, -EINVAL, "%s: item %zu is not name=value", key, i + 1);
    }
    return 0;
}

static int check_type_rules(const struct agent_config *a, struct error *err)
{
    const char *types = config_find(&agent_config_table, BYTES("types"))->choices;

    for (size_t i = 0; i < a->type_rules.n; i++) {
        const char *rule = a->type_rules.items[i], *colon = strstr(rule, ": ");
        if (!colon || !colon[2])
            return error_set(err, -EINVAL,
                             "type_rules: \"%.60s\" is not \"wall,offcpu: service:NAME\"", rule);
        for (const char *at = rule; at < colon;) {
            size_t n = strcspn(at, ",:");
            struct bytes type = bytes_trim((struct bytes){(const uint8_t *)at, n});
            if (!config_is_choice(types, type))
                return error_set(err, -EINVAL, "type_rules: \"%.*s\" is not one of %s",
                                 (int)type.len, (const char *)type.data, types);
            at += n + 1;
        }
    }
    return 0;
}

/* What no single key can say. */
static int check(const struct agent_config *a, struct error *err)
{
    int r = check_exporters(a, err);

    if (r == 0)
        r = check_pairs("export.headers", &a->headers, err);
    if (r == 0)
        r = check_pairs("resource", &a->resource, err);
    if (r == 0)
        r = check_type_rules(a, err);
    if (r < 0)
        return r;
    if (a->pid_list[strspn(a->pid_list, "0123456789,")])
        return error_set(err, -EINVAL, "pids is \"%.60s\", where numbers and commas are expected",
                         a->pid_list);
    if (!a->state_dir[0])
        return error_set(err, -EINVAL, "state_dir is empty; a directory is needed");
    if (a->table_bytes > a->memory_max)
        return error_set(err, -EINVAL, "limits.tables is more than limits.memory");
    return 0;
}

int agent_config_load(const struct config_input *in, struct config **ret, struct error *err)
{
    CLEANUP(config_freep) struct config *c = NULL;
    int r = config_load(&agent_config_table, in, &c, err);

    if (r == 0)
        r = check(config_values(c), err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

static const char doc_head[] =
    "# Configuration of the agent\n\n"
    "This page is what `vesta-agent config doc` prints.\n\n"
    "Every key can be set in a YAML file, by an environment variable and by a flag of\n"
    "`vesta-agent`. A flag wins over a variable, a variable over the file, the file over the\n"
    "default. Nothing needs to be set: as it is, the agent takes CPU profiles of every process\n"
    "and sends them to a Vesta server or an OpenTelemetry collector on this host.\n\n"
    "The file is `--config FILE`, or else `VESTA_AGENT_CONFIG`, or else `./vesta-agent.yaml`, or\n"
    "else `/etc/vesta/agent.yaml`, where there is one. It is read strictly: unknown keys, keys\n"
    "that are set twice, and values of another type are refused, naming the line. Anchors,\n"
    "aliases and tags are not allowed, nor are files above 256 KiB.\n\n"
    "```yaml\n"
    "exporters: [\"grpc://collector:4317\"]\n"
    "types: [cpu, offcpu]\n"
    "exclude: [\"/usr/bin/qemu-*\", \"uid:1000\"]\n"
    "resource: [\"deployment.environment.name=prod\"]\n"
    "rules:\n"
    "  - match: {cgroup: \"/system.slice/shop-([a-z]+)\\\\.service\"}\n"
    "    set: {service.name: \"$1\", service.namespace: shop}\n"
    "scrape_configs:\n"
    "  - job_name: checkout\n"
    "    static_configs: [{targets: [\"localhost:8080\"]}]\n"
    "```\n\n"
    "- **Lists** are repeated flags (`--include A --include B`), or have commas in flags and\n"
    "  variables. `off` alone is an empty list.\n"
    "- **True or false** is `true`, `yes`, `on`, `1` or `false`, `no`, `off`, `0`. As flags:\n"
    "  `--cycles`, `--no-cycles`.\n"
    "- **Sizes** are `512KiB`, `64MiB`, `2GiB`; K, M and G are powers of 1024 however they are\n"
    "  spelled.\n"
    "- **Durations** are `500ms`, `30s`, `5m`, `1h30m`.\n\n"
    "`vesta-agent config check` reads a configuration and says what is wrong with it.\n"
    "`vesta-agent config print` shows every value and where it comes from; secrets are not "
    "shown.\n";

void agent_config_doc(struct buf *out)
{
    config_doc(&agent_config_table, doc_head, out);
}
