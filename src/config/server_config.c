#include "config/server_config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field)  offsetof(struct server_config, field)
#define SECOND_NS  ((uint64_t)1000000000)
#define MIB        ((uint64_t)1 << 20)
#define RELOADS    CONFIG_RELOADS
#define AGE_MIN_NS (60 * SECOND_NS)

/* In the order of `config print` and of the reference page. Keys of a section stand together. */
static const struct config_key keys[] = {
    {"listen", CONFIG_LIST, AT(listen), "127.0.0.1:4040",
     "Addresses that answer everything: the UI, the API, OTLP, Pyroscope. HTTP/1.1 and HTTP/2 are "
     "told apart by themselves. `:4040` is every address of the machine, `[::1]:4040` an IPv6 one, "
     "`unix:/run/vesta.sock` a socket file, port 0 any free port. While nothing is said here, the "
     "server listens on loopback only, until TLS, `auth: on` or an admin token is configured: then "
     "on every address.",
     .flags = 0},
    {"listen_otlp_grpc", CONFIG_LIST, AT(listen_otlp_grpc), "127.0.0.1:4317",
     "Addresses for OTLP over gRPC, where collectors look for it. They answer everything else, "
     "too. `off` is none."},
    {"listen_otlp_http", CONFIG_LIST, AT(listen_otlp_http), "127.0.0.1:4318",
     "Addresses for OTLP over HTTP. They answer everything else, too. `off` is none."},
    {"data", CONFIG_STRING, AT(data_dir), "./vesta-data",
     "The data directory: profiles, spans, debug files, the catalog of tokens and tenants, the "
     "audit log. It is made when it is not there."},
    {"threads", CONFIG_U32, AT(threads), "0", "Threads for connections. 0 is one for each core.",
     .max = 1024},
    {"auth", CONFIG_STRING, AT(auth), "auto",
     "Whether requests need a token. `auto` asks for one as soon as there is one, `on` always, "
     "`off` never. While none is asked for, everyone who can connect may ingest and read; "
     "administration is for callers on the same machine.",
     .flags = RELOADS, .choices = "auto|on|off"},
    {"admin_token_file", CONFIG_STRING, AT(admin_token_file), "",
     "A file whose first line is a token that may do everything, for any tenant, beside those of "
     "the catalog. It has at least 20 characters.",
     .flags = RELOADS},
    {"admin_token", CONFIG_STRING, AT(admin_token), "",
     "The same without a file. Prefer the variable or the file: command lines can be seen by other "
     "users of the machine.",
     .flags = RELOADS | CONFIG_SECRET},
    {"cors_origins", CONFIG_LIST, AT(cors_origins), "",
     "Origins of web pages that may call the API from a browser, such as "
     "`https://grafana.example.com`.",
     .flags = RELOADS},
    {"external_url", CONFIG_STRING, AT(external_url), "",
     "How others reach this server, for links that it hands out.", .flags = RELOADS},
    {"drain_timeout", CONFIG_DURATION, AT(drain_timeout_ns), "10s",
     "How long requests that were begun may take to finish when the server stops.",
     .flags = RELOADS, .max = 3600 * SECOND_NS},
    {"self_profile", CONFIG_BOOL, AT(self_profile), "false",
     "The server profiles itself, and keeps the profiles as it keeps others."},
    {"self_profile_service", CONFIG_STRING, AT(self_profile_service), "vesta",
     "The service.name of its own profiles.", .also = "OTEL_SERVICE_NAME"},

    {"tls.cert_file", CONFIG_STRING, AT(tls_cert_file), "",
     "The certificate chain, PEM. With it every address speaks TLS only. Its content, and that of "
     "the "
     "key, is read again on SIGHUP."},
    {"tls.key_file", CONFIG_STRING, AT(tls_key_file), "",
     "The private key of the certificate, PEM."},
    {"tls.client_ca_file", CONFIG_STRING, AT(tls_client_ca_file), "",
     "Certificates, PEM, one of which must have signed that of every client. Connections without "
     "such a certificate are refused."},
    {"tls.client_roles", CONFIG_LIST, AT(tls_client_roles), "",
     "What a client with such a certificate may do without a token. Without any, a token is needed "
     "as well where tokens are asked for.",
     .flags = RELOADS, .choices = "ingest|read|admin"},

    {"tenant.default", CONFIG_STRING, AT(default_tenant), "default",
     "The tenant of requests that name none.", .flags = RELOADS},
    {"tenant.trust_header", CONFIG_BOOL, AT(trust_tenant_header), "false",
     "X-Scope-OrgID names the tenant of requests without a token. Tokens of one tenant stay with "
     "theirs; tokens of the tenant `*` may always name one.",
     .flags = RELOADS},
    {"tenant.bytes_per_second", CONFIG_BYTES, AT(tenant_bytes_per_s), "0",
     "What a tenant may send, counted unpacked. Ten seconds' worth may come at once. 0 is no "
     "limit. "
     "The catalog may say otherwise for a tenant, here and below.",
     .flags = RELOADS},
    {"tenant.profiles_per_second", CONFIG_U64, AT(tenant_profiles_per_s), "0",
     "How many profiles a tenant may send. 0 is no limit.", .flags = RELOADS},
    {"tenant.series_max", CONFIG_U32, AT(tenant_series_max), "100000",
     "How many label sets a tenant may have. 0 is no limit.", .flags = RELOADS},
    {"tenant.queries_max", CONFIG_U32, AT(tenant_queries_max), "32",
     "How many queries of a tenant run at once. 0 is no limit.", .flags = RELOADS},

    {"limits.memory", CONFIG_BYTES, AT(memory_limit), "256MiB", "What the store keeps in memory.",
     .min = 16 * MIB},
    {"limits.query_memory", CONFIG_BYTES, AT(query_memory_limit), "128MiB",
     "What one query may use.", .flags = RELOADS, .min = MIB},
    {"limits.body", CONFIG_BYTES, AT(body_limit), "64MiB",
     "The largest body of a request, before and after it is unpacked.", .min = 1024},
    {"limits.upload", CONFIG_BYTES, AT(upload_limit), "1GiB",
     "The largest debug file or heap snapshot.", .min = 1024},
    {"limits.body_memory", CONFIG_BYTES, AT(body_memory), "128MiB",
     "What all bodies that are being received may take together. Above it requests are answered "
     "with 429.",
     .min = MIB},
    {"limits.connections", CONFIG_U32, AT(connections_max), "10000",
     "Connections at once. Those above it are closed.", .min = 1},
    {"limits.queue", CONFIG_U32, AT(queue_max), "256",
     "Requests that wait for a worker, of those that ingest and of those that ask. Above it they "
     "are answered with 429.",
     .min = 1, .max = 1000000},
    {"limits.ingest_workers", CONFIG_U32, AT(ingest_workers), "0",
     "Threads that take profiles in. 0 is four for each core.", .max = 1024},
    {"limits.query_workers", CONFIG_U32, AT(query_workers), "0",
     "Threads that answer queries. 0 is two for each core.", .max = 1024},
    {"limits.query_timeout", CONFIG_DURATION, AT(query_timeout_ns), "60s",
     "The longest that a query may take.", .flags = RELOADS, .min = SECOND_NS / 10},
    {"limits.labels", CONFIG_U32, AT(labels_max), "64",
     "Labels of one series. Profiles with more are refused.", .flags = RELOADS, .min = 1,
     .max = 1024},
    {"limits.label_value", CONFIG_U32, AT(label_value_max), "2048",
     "Bytes of one label's value. Profiles with longer ones are refused.", .flags = RELOADS,
     .min = 16, .max = 65536},
    {"limits.profile_nodes", CONFIG_U32, AT(profile_nodes_max), "4194304",
     "Nodes of the stacks of one request. A request with more is refused.", .flags = RELOADS,
     .min = 1024},

    {"retention.profiles", CONFIG_DURATION, AT(retention_ns), "30d",
     "How long profiles are kept. The catalog may say otherwise for a tenant.", .min = AGE_MIN_NS},
    {"retention.spans", CONFIG_DURATION, AT(span_retention_ns), "7d", "How long spans are kept.",
     .min = AGE_MIN_NS},
    {"retention.disk", CONFIG_BYTES, AT(disk_limit), "0",
     "What the data directory may take on disk: above it the oldest goes first. 0 is 80 % of what "
     "was free when the directory was made."},

    {"ingest.accept_logs_and_metrics", CONFIG_BOOL, AT(accept_logs_and_metrics), "false",
     "Logs and metrics that are sent by OTLP are answered with success, and dropped. Otherwise "
     "they are refused as not implemented.",
     .flags = RELOADS},
    {"ingest.keep_heap_snapshots", CONFIG_BOOL, AT(keep_heap_snapshots), "false",
     "Heap snapshots are kept as they came, beside their summary. They hold the strings of the "
     "program's memory: passwords, tokens, personal data.",
     .flags = RELOADS},
    {"ingest.span_attributes", CONFIG_LIST, AT(span_attributes),
     "http.route,http.request.method,http.response.status_code,url.path,http.method,"
     "http.status_code,http.target,rpc.system,rpc.service,rpc.method,rpc.grpc.status_code,"
     "db.system,db.system.name,db.operation,db.operation.name,db.collection.name,"
     "messaging.system,messaging.destination.name,error.type,thread.id,thread.name,"
     "service.version,service.instance.id,deployment.environment.name,k8s.pod.name,host.name",
     "Attributes of spans, and of their resources, that are kept with them.", .flags = RELOADS},
    {"ingest.resource_labels", CONFIG_LIST, AT(resource_labels), "",
     "Resource attributes that become labels beside the well-known ones.", .flags = RELOADS},
    {"ingest.detect_deployments", CONFIG_BOOL, AT(detect_deployments), "true",
     "A service that appears with a new version or commit is noted as a deployment.",
     .flags = RELOADS},

    {"mask.rules", CONFIG_LIST, AT(mask), "",
     "What is replaced before anything is stored, and again in what leaves: "
     "`labels: /REGEX/REPLACEMENT/`, for `paths`, `functions` or `labels` (their values). Items "
     "may have commas: in the variable they stand on lines of their own.",
     .flags = RELOADS | CONFIG_WHOLE},
    {"mask.defaults", CONFIG_BOOL, AT(mask_defaults), "true",
     "The built-in rules that catch common secrets in labels and paths are used, too.",
     .flags = RELOADS},

    {"debuginfo.urls", CONFIG_LIST, AT(debuginfod), "",
     "debuginfod servers that are asked for debug files by build id."},
    {"debuginfo.dirs", CONFIG_LIST, AT(debug_dirs), "/usr/lib/debug",
     "Directories with debug files, by build id."},
    {"debuginfo.allow_private_urls", CONFIG_BOOL, AT(allow_private_urls), "false",
     "URLs that the server fetches may lead to loopback and private addresses."},

    {"sources.map", CONFIG_LIST, AT(source_map), "",
     "Folders of this machine with source files, as `FROM=TO`: what profiles call `FROM/x.c` is "
     "read from `TO/x.c`. Whoever may read profiles may read every text file below TO; no link is "
     "followed. An empty FROM takes every path.",
     .flags = RELOADS},
    {"sources.strip", CONFIG_LIST, AT(source_strip), "/app,/usr/src/app,/workspace",
     "Folders that paths in profiles begin with and that are not in the repository, for links.",
     .flags = RELOADS},
    {"sources.link", CONFIG_STRING, AT(source_link), "",
     "How links to source files are written, where the repository's host does not tell: "
     "`https://code.example.com/{service}/{commit}/{path}#{line}`. There are {repository}, "
     "{commit}, {service}, {version}, {path} and {line}.",
     .flags = RELOADS},
    {"sources.limit", CONFIG_BYTES, AT(source_limit), "1GiB",
     "What sources that were uploaded may take on disk: above it those of the version that was "
     "uploaded longest ago go first.",
     .flags = RELOADS, .min = MIB},

    {"log.level", CONFIG_STRING, AT(log_level), "info",
     "The least important lines that are logged.", .flags = RELOADS,
     .choices = "debug|info|warn|error", .also = "OTEL_LOG_LEVEL"},
    {"log.format", CONFIG_STRING, AT(log_format), "text",
     "Lines for people, or JSON for machines. Both go to standard error.", .flags = RELOADS,
     .choices = "text|json"},
};

const struct config_table server_config_table = {
    .keys = keys,
    .n_keys = ARRAY_SIZE(keys),
    .size = sizeof(struct server_config),
    .prefix = "VESTA_",
    .files = {"vesta.yaml", "/etc/vesta/vesta.yaml"},
};

static bool is_tenant_name(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n <= 64 && strcmp(s, ".") != 0 && strcmp(s, "..") != 0 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static bool is_http_url(const char *s)
{
    return (strncmp(s, "http://", 7) == 0 && s[7]) || (strncmp(s, "https://", 8) == 0 && s[8]);
}

static int check_urls(const struct server_config *s, struct error *err)
{
    for (size_t i = 0; i < s->debuginfod.n; i++) {
        if (!is_http_url(s->debuginfod.items[i]))
            return error_set(err, -EINVAL, "debuginfo.urls: item %zu is no http or https URL",
                             i + 1);
    }
    for (size_t i = 0; i < s->cors_origins.n; i++) {
        const char *origin = s->cors_origins.items[i];
        if (strcmp(origin, "*") != 0 &&
            (!is_http_url(origin) || strchr(strstr(origin, "//") + 2, '/')))
            return error_set(err, -EINVAL,
                             "cors_origins: \"%.60s\" is no origin such as "
                             "https://grafana.example.com",
                             origin);
    }
    if (s->external_url[0] && !is_http_url(s->external_url))
        return error_set(err, -EINVAL, "external_url is no http or https URL");
    return 0;
}

static int check_sources(const struct server_config *s, struct error *err)
{
    for (size_t i = 0; i < s->source_map.n; i++) {
        const char *to = strchr(s->source_map.items[i], '=');
        if (!to || to[1] != '/')
            return error_set(err, -EINVAL,
                             "sources.map: \"%.100s\" is not FROM=TO with an absolute TO",
                             s->source_map.items[i]);
    }
    if (s->source_link[0] && !is_http_url(s->source_link) &&
        strncmp(s->source_link, "{repository}", 12) != 0)
        return error_set(err, -EINVAL, "sources.link is no http or https URL");
    return 0;
}

/* What no single key can say. A check that is asked for and cannot be made is refused here, not
 * left out there. */
static int check(const struct server_config *s, struct error *err)
{
    if (!s->tls_cert_file[0] != !s->tls_key_file[0])
        return error_set(err, -EINVAL, "%s is set without %s",
                         s->tls_cert_file[0] ? "tls.cert_file" : "tls.key_file",
                         s->tls_cert_file[0] ? "tls.key_file" : "tls.cert_file");
    if (s->tls_client_ca_file[0] && !s->tls_cert_file[0])
        return error_set(err, -EINVAL, "tls.client_ca_file is set without tls.cert_file");
    if (s->tls_client_roles.n > 0 && !s->tls_client_ca_file[0])
        return error_set(err, -EINVAL, "tls.client_roles is set without tls.client_ca_file");
    if (s->admin_token[0] && s->admin_token_file[0])
        return error_set(err, -EINVAL, "admin_token and admin_token_file are both set");
    if (s->listen.n == 0 && s->listen_otlp_grpc.n == 0 && s->listen_otlp_http.n == 0)
        return error_set(err, -EINVAL, "listen, listen_otlp_grpc and listen_otlp_http are all off");
    if (!s->data_dir[0])
        return error_set(err, -EINVAL, "data is empty; a directory is needed");
    if (!is_tenant_name(s->default_tenant))
        return error_set(err, -EINVAL,
                         "tenant.default is \"%.60s\", where 1 to 64 letters, digits, '.', '_' or "
                         "'-' are expected",
                         s->default_tenant);
    int r = check_urls(s, err);
    return r == 0 ? check_sources(s, err) : r;
}

/* Loopback is for servers that let everyone in. */
static void open_to_others(struct config *c, const struct server_config *s)
{
    const char *why = s->tls_cert_file[0]                           ? "because of tls.cert_file"
                      : s->admin_token[0] || s->admin_token_file[0] ? "because of an admin token"
                      : strcmp(s->auth, "on") == 0                  ? "because of auth"
                                                                    : NULL;

    if (!why || strcmp(s->auth, "off") == 0)
        return;
    config_set_default(c, "listen", ":4040", why);
    config_set_default(c, "listen_otlp_grpc", ":4317", why);
    config_set_default(c, "listen_otlp_http", ":4318", why);
}

int server_config_load(const struct config_input *in, struct config **ret, struct error *err)
{
    CLEANUP(config_freep) struct config *c = NULL;
    int r = config_load(&server_config_table, in, &c, err);

    if (r == 0)
        r = check(config_values(c), err);
    if (r < 0)
        return r;
    open_to_others(c, config_values(c));
    *ret = TAKE_PTR(c);
    return 0;
}

static const char doc_head[] =
    "# Configuration of the server\n\n"
    "This page is what `vesta config doc` prints.\n\n"
    "Every key can be set in a YAML file, by an environment variable and by a flag of `vesta\n"
    "server`. A flag wins over a variable, a variable over the file, the file over the default.\n\n"
    "The file is `--config FILE`, or else `VESTA_CONFIG`, or else `./vesta.yaml`, or else\n"
    "`/etc/vesta/vesta.yaml`, where there is one. It is read strictly: unknown keys, keys that "
    "are\n"
    "set twice, and values of another type are refused, naming the line. Anchors, aliases and "
    "tags\n"
    "are not allowed, nor are files above 256 KiB.\n\n"
    "```yaml\n"
    "listen: [\":4040\"]\n"
    "tls:\n"
    "  cert_file: /etc/vesta/tls.pem\n"
    "  key_file: /etc/vesta/tls.key\n"
    "retention:\n"
    "  profiles: 14d\n"
    "```\n\n"
    "- **Lists** are repeated flags (`--listen A --listen B`), or have commas in flags and\n"
    "  variables. `off` alone is an empty list.\n"
    "- **True or false** is `true`, `yes`, `on`, `1` or `false`, `no`, `off`, `0`. As flags:\n"
    "  `--self-profile`, `--no-self-profile`.\n"
    "- **Sizes** are `512KiB`, `64MiB`, `2GiB`, `1TiB`; K, M, G and T are powers of 1024 however\n"
    "  they are spelled.\n"
    "- **Durations** are `500ms`, `30s`, `5m`, `1h30m`, `30d`, `1w`, `1y`.\n\n"
    "`vesta config check` reads a configuration and says what is wrong with it. `vesta config\n"
    "print` shows every value and where it comes from; secrets are not shown. `vesta config doc`\n"
    "prints this page. SIGHUP makes a running server read its configuration again: keys that\n"
    "change without a restart take effect at once, others are named in the log.\n\n"
    "Of the standard variables of OpenTelemetry, `OTEL_SERVICE_NAME` names the server's own\n"
    "profiles and `OTEL_LOG_LEVEL` is the log level where it is one of ours. `OTEL_EXPORTER_*` "
    "and\n"
    "the others are about programs that send; a server that receives does not read them.\n";

void server_config_doc(struct buf *out)
{
    config_doc(&server_config_table, doc_head, out);
}
