#include "host/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/must.h"
#include "host/container.h"
#include "host/identity_context.h"
#include "host/identity_internal.h"
#include "host/inspect_text.h"
#include "wire/utf8.h"

/* One attribute: where its texts lie. */
struct attribute {
    uint32_t key, value; /* places in `text` */
    uint16_t key_len, value_len;
    bool is_guess; /* what the program itself says counts more */
};

struct identity {
    uint8_t *text;
    size_t len;
    struct attribute *attributes;
    size_t n;
    uint32_t *keys; /* threadlocal.attribute_key_map: places of C strings in `text` */
    uint32_t n_keys;
    uint32_t kinds;
    const char *why_not;
    bool may_attach;
    enum identity_threads threads;
    bool is_go;
};

/* What is found about a process. */
struct finding {
    const struct identity_rules *rules;
    const struct inspect_process *p;
    struct identity *to;
    struct container_place place;
    struct bytes base; /* name of its program */
    struct buf room;
    bool is_guessing; /* what is put now is a guess */
};

static struct bytes key_of(const struct identity *i, const struct attribute *a)
{
    return (struct bytes){i->text + a->key, a->key_len};
}

static struct attribute *attribute_of(const struct identity *i, struct bytes key)
{
    for (size_t n = 0; n < i->n; n++) {
        if (bytes_equal(key_of(i, &i->attributes[n]), key))
            return &i->attributes[n];
    }
    return NULL;
}

bool identity_attribute(const struct identity *i, size_t n, struct bytes *ret_key,
                        struct bytes *ret_value)
{
    if (n >= i->n)
        return false;
    const struct attribute *a = &i->attributes[n];
    *ret_key = key_of(i, a);
    *ret_value = (struct bytes){i->text + a->value, a->value_len};
    return true;
}

struct bytes identity_value(const struct identity *i, const char *key)
{
    const struct attribute *a = attribute_of(i, bytes_of(key));

    return a ? (struct bytes){i->text + a->value, a->value_len} : (struct bytes){0};
}

/* Appends a text and a NUL; where it lies. */
static uint32_t keep_text(struct identity *i, struct bytes text)
{
    size_t at = i->len;

    i->text = must_realloc(i->text, at + text.len + 1);
    if (text.len > 0)
        memcpy(i->text + at, text.data, text.len);
    i->text[at + text.len] = '\0';
    i->len = at + text.len + 1;
    return (uint32_t)at;
}

static void drop(struct identity *i, struct attribute *a)
{
    *a = i->attributes[--i->n];
}

static bool is_key(struct bytes key)
{
    if (key.len == 0 || key.len > IDENTITY_KEY_MAX)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        if (key.data[i] <= ' ' || key.data[i] >= 0x7f || key.data[i] == '"')
            return false;
    }
    return true;
}

/* As text that anybody may be shown. */
static struct bytes clean(struct finding *d, struct bytes value)
{
    buf_clear(&d->room);
    utf8_add(&d->room, bytes_trim(bytes_head(value, IDENTITY_VALUE_MAX)));
    for (size_t i = 0; i < d->room.len; i++) {
        if (d->room.data[i] < ' ' || d->room.data[i] == 0x7f)
            d->room.data[i] = ' ';
    }
    size_t n = d->room.len < IDENTITY_VALUE_MAX ? d->room.len : IDENTITY_VALUE_MAX;
    return bytes_trim(
        bytes_head(buf_bytes(&d->room), utf8_sound(bytes_head(buf_bytes(&d->room), n))));
}

/* What was put first stays. */
static void put(struct finding *d, struct bytes key, struct bytes value)
{
    struct identity *to = d->to;

    if (!is_key(key) || to->n == IDENTITY_ATTRIBUTES_MAX || attribute_of(to, key))
        return;
    struct bytes sound = clean(d, value);
    if (sound.len == 0)
        return;
    to->attributes = must_realloc(to->attributes, (to->n + 1) * sizeof(*to->attributes));
    to->attributes[to->n++] = (struct attribute){.key = keep_text(to, key),
                                                 .value = keep_text(to, sound),
                                                 .key_len = (uint16_t)key.len,
                                                 .value_len = (uint16_t)sound.len,
                                                 .is_guess = d->is_guessing};
}

static void put_as(struct finding *d, const char *key, struct bytes value)
{
    put(d, bytes_of(key), value);
}

static void put_text(struct finding *d, const char *key, const char *value)
{
    put(d, bytes_of(key), bytes_of(value));
}

/* Later rules win. */
static void rule_says(void *arg, const char *key, struct bytes value)
{
    struct finding *d = arg;
    struct attribute *before = attribute_of(d->to, bytes_of(key));

    if (before)
        drop(d->to, before);
    put(d, bytes_of(key), value);
}

static void put_host(struct finding *d)
{
    const char *machine = d->rules->system.machine;

    put_text(d, "host.name", d->rules->host_name);
    put_text(d, "host.id", d->rules->host_id);
    put_text(d, "host.arch",
             strcmp(machine, "x86_64") == 0    ? "amd64"
             : strcmp(machine, "aarch64") == 0 ? "arm64"
                                               : "");
    put_text(d, "os.type", "linux");
}

static void put_seen(struct finding *d)
{
    const struct inspect_process *p = d->p;

    put_as(d, "process.executable.name", d->base);
    put_text(d, "container.id", d->place.id);
    put_text(d, "k8s.pod.uid", d->place.pod_uid);
    put_text(d, "systemd.unit", d->place.unit);
    put_as(d, "container.name", p->container_name);
    put_as(d, "container.image.name", p->container_image);
    put_as(d, "k8s.pod.name", p->pod);
    put_as(d, "k8s.namespace.name", p->pod_namespace);
    put_as(d, "k8s.container.name", p->pod_container);
    put_host(d);
    if (d->place.pod_uid[0] != '\0')
        put_text(d, "k8s.node.name", d->rules->node_name);
    if (d->rules->config->send_cmdline && p->cmdline.len > 0) {
        struct buf line = {0};
        buf_add_bytes(&line, p->cmdline);
        for (size_t i = 0; i < line.len; i++)
            line.data[i] = line.data[i] == '\0' ? ' ' : line.data[i];
        put_as(d, "process.command_line", buf_bytes(&line));
        buf_done(&line);
    }
}

static struct bytes variable(const struct finding *d, const char *name)
{
    return environ_get(d->p->environ, name);
}

/* Names that only we and the backend give. */
static bool is_ours(struct bytes key)
{
    return bytes_start_with(key, BYTES("vesta.")) || bytes_start_with(key, BYTES("process.pid")) ||
           bytes_start_with(key, BYTES("process.command"));
}

/* Not so many that they leave no room for the rest. */
static void put_claim(struct finding *d, struct bytes key, struct bytes value)
{
    if (d->to->n < IDENTITY_CLAIMS_MAX && !is_ours(key))
        put(d, key, value);
}

static bool decode_percent(struct bytes text, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < text.len; i++) {
        int high, low;
        if (text.data[i] != '%') {
            buf_add_byte(out, text.data[i]);
            continue;
        }
        if (text.len - i < 3 || (high = hex_digit(text.data[i + 1])) < 0 ||
            (low = hex_digit(text.data[i + 2])) < 0)
            return false;
        buf_add_byte(out, (uint8_t)(high << 4 | low));
        i += 2;
    }
    return true;
}

/* KEY=VALUE,KEY=VALUE: any fault makes all of it void, so it is looked at once before. */
static bool read_claims(struct finding *d, struct bytes text, bool puts)
{
    struct buf value = {0};
    bool is_sound = true;

    while (text.len > 0 && is_sound) {
        const uint8_t *comma = bytes_find_byte(text, ',');
        struct bytes pair = bytes_head(text, comma ? (size_t)(comma - text.data) : text.len);
        text = bytes_from(text, comma ? pair.len + 1 : pair.len);
        if (bytes_trim(pair).len == 0)
            continue;
        const uint8_t *is = bytes_find_byte(pair, '=');
        size_t n = is ? (size_t)(is - pair.data) : 0;
        struct bytes key = bytes_trim(bytes_head(pair, n));
        is_sound = key.len > 0 && decode_percent(bytes_trim(bytes_from(pair, n + 1)), &value);
        if (is_sound && puts)
            put_claim(d, key, buf_bytes(&value));
    }
    buf_done(&value);
    return is_sound;
}

static void put_claims(struct finding *d, struct bytes text)
{
    if (read_claims(d, text, false))
        (void)read_claims(d, text, true);
}

static bool context_says(void *arg, struct bytes key, struct bytes value)
{
    struct finding *d = arg;

    put_claim(d, key, value);
    return d->to->n < IDENTITY_CLAIMS_MAX;
}

/* What the process claims by OpenTelemetry's own means. */
static void put_claimed(struct finding *d)
{
    put_as(d, "service.name", variable(d, "OTEL_SERVICE_NAME"));
    put_claims(d, variable(d, "OTEL_RESOURCE_ATTRIBUTES"));
    if (bytes_are(d->base, "java")) {
        put_as(d, "service.name", identity_java_property(d->p->cmdline, "otel.service.name"));
        put_claims(d, identity_java_property(d->p->cmdline, "otel.resource.attributes"));
    }
    identity_context_each(d->p->context, context_says, d);
}

/* What the configuration says for all. */
static void put_resource(struct finding *d)
{
    const struct config_list *list = &d->rules->config->resource;

    for (size_t i = 0; i < list->n; i++) {
        struct bytes item = bytes_of(list->items[i]);
        const uint8_t *is = bytes_find_byte(item, '=');
        if (is)
            put(d, bytes_trim(bytes_head(item, (size_t)(is - item.data))),
                bytes_from(item, (size_t)(is - item.data) + 1));
    }
}

/* What it allows of the environment. */
static void put_allowed(struct finding *d)
{
    const struct config_list *list = &d->rules->config->env_attributes;

    for (size_t i = 0; i < list->n; i++) {
        char key[IDENTITY_KEY_MAX + 1];
        const char *is = strchr(list->items[i], '=');
        snprintf(key, sizeof(key), "process.environment_variable.%s", d->rules->names[i]);
        put_as(d, is ? is + 1 : key, variable(d, d->rules->names[i]));
    }
}

static bool is_in_pod(const struct finding *d)
{
    return d->place.pod_uid[0] != '\0' || variable(d, "KUBERNETES_SERVICE_HOST").len > 0;
}

static void put_variables(struct finding *d)
{
    for (const struct identity_variable *v = identity_known; v->variable; v++) {
        if (strncmp(v->key, "k8s.", 4) != 0 || is_in_pod(d))
            put_as(d, v->key, variable(d, v->variable));
    }
    if (!is_in_pod(d))
        return;
    put_as(d, "k8s.container.name", variable(d, "CONTAINER_NAME"));
    put_as(d, "k8s.namespace.name", variable(d, "NAMESPACE"));
    put_as(d, "k8s.cluster.name", variable(d, "CLUSTER_NAME"));
    /* A pod's host is named after it, unless it has that of its node. */
    struct bytes host = variable(d, "HOSTNAME");
    if (!bytes_are(host, d->rules->host_name))
        put_as(d, "k8s.pod.name", host);
    put_as(d, "k8s.deployment.name", container_deployment(identity_value(d->to, "k8s.pod.name")));
}

/* Runtimes that are libraries: what their file names begin with. */
static void put_runtime_library(struct finding *d, struct bytes base)
{
    static const struct {
        const char *library, *runtime;
    } known[] = {{"libjvm.so", "jvm"},        {"libpython", "cpython"}, {"libruby", "ruby"},
                 {"libcoreclr.so", "dotnet"}, {"libnode.so", "nodejs"}, {"libperl.so", "perl"}};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (!bytes_start_with(base, bytes_of(known[i].library)))
            continue;
        put_text(d, "process.runtime.name", known[i].runtime);
        if (strcmp(known[i].library, "libpython") != 0)
            continue;
        /* libpython3.11.so.1.0 */
        struct bytes version = bytes_from(base, 9);
        const uint8_t *so = bytes_find(version, BYTES(".so"));
        if (so)
            put_as(d, "process.runtime.version", bytes_head(version, (size_t)(so - version.data)));
    }
}

static void put_runtime(struct finding *d)
{
    struct identity_runtime runtime = {0};
    bool is_interpreter = identity_runtime_of(d->base, &runtime) && runtime.name;

    if (is_interpreter) {
        put_text(d, "process.runtime.name", runtime.name);
        if (runtime.variable)
            put_as(d, "process.runtime.version", variable(d, runtime.variable));
    }
    for (size_t i = 0; i < d->p->mappings.len; i++)
        put_runtime_library(d, identity_base_name(d->p->mappings.data[i].path));
    if (is_interpreter)
        put_as(d, "process.runtime.version", runtime.version);
}

/* Names that containers of every deployment have. */
static bool says_nothing(struct bytes container)
{
    static const char *const common[] = {"app",  "main",    "server",    "web",     "api",
                                         "app1", "service", "container", "default", "worker"};

    for (size_t i = 0; i < ARRAY_SIZE(common); i++) {
        if (bytes_are(container, common[i]))
            return true;
    }
    return container.len == 0;
}

/* "nginx.service", "worker@3.service": without what is behind. */
static struct bytes unit_name(const char *unit)
{
    struct bytes name = bytes_of(unit);
    const uint8_t *end = bytes_find_byte(name, '@');

    if (!end)
        end = bytes_find_last_byte(name, '.');
    return end ? bytes_head(name, (size_t)(end - name.data)) : name;
}

static void put_service(struct finding *d)
{
    const struct identity *i = d->to;
    char container[256];
    struct bytes name = identity_value(i, "k8s.container.name");

    /* A copy: what is put moves the texts. */
    snprintf(container, sizeof(container), "%.*s", (int)name.len,
             name.data ? (const char *)name.data : "");
    if (!says_nothing(bytes_of(container)))
        put_text(d, "service.name", container);
    put_as(d, "service.name", identity_value(i, "k8s.deployment.name"));
    put_text(d, "service.name", container);
    put_as(d, "service.name", d->p->container_service);
    put_as(d, "service.name", d->p->container_name);
    put_as(d, "service.name", unit_name(d->place.unit));
    put_as(d, "service.name", identity_script(d->base, d->p->cmdline));
    put_as(d, "service.name", d->base);
    if (!attribute_of(i, BYTES("service.name")) && i->n == IDENTITY_ATTRIBUTES_MAX)
        drop(d->to, &d->to->attributes[i->n - 1]);
    put_text(d, "service.name", "unknown_service");
}

static void decide(struct finding *d)
{
    const struct agent_config *c = d->rules->config;
    struct identity *i = d->to;
    struct bytes own = variable(d, "VESTA_PROFILING"), service = identity_value(i, "service.name");

    bool is_included = c->include.n == 0;
    for (size_t k = 0; k < c->include.n && !is_included; k++)
        is_included = identity_matches(c->include.items[k], d->p, service);
    if (!is_included)
        i->why_not = "not among those to include";
    for (size_t k = 0; k < c->exclude.n; k++) {
        if (identity_matches(c->exclude.items[k], d->p, service))
            i->why_not = "excluded";
    }
    if (bytes_are(own, "off") || bytes_are(own, "false") || bytes_are(own, "0"))
        i->why_not = "its VESTA_PROFILING says off";
    for (size_t k = 0; k < c->type_rules.n; k++) {
        if (identity_matches(d->rules->type_rules[k].pattern, d->p, service))
            i->kinds |= d->rules->type_rules[k].kinds;
    }
    for (size_t k = 0; k < c->node_attach.n && !i->may_attach; k++)
        i->may_attach = identity_matches(c->node_attach.items[k], d->p, service);
}

static enum identity_threads threads_of(struct bytes version)
{
    if (version.len == 0)
        return IDENTITY_THREADS_UNSAID;
    if (bytes_are(version, "tls_v1") || bytes_are(version, "tlsdesc_v1_dev"))
        return IDENTITY_THREADS_TLS;
    return bytes_are(version, "go_pprof_labels_v1") ? IDENTITY_THREADS_GO : IDENTITY_THREADS_OTHER;
}

/* How its threads number the keys of their attributes. */
static void learn_keys(struct finding *d)
{
    struct identity_thread_schema schema;
    struct identity *i = d->to;

    if (d->p->context.len == 0)
        return;
    identity_context_threads(d->p->context, &schema);
    i->threads = threads_of(schema.version);
    if (i->threads != IDENTITY_THREADS_TLS)
        return;
    i->keys = must_calloc(schema.n_keys + 1, sizeof(*i->keys));
    for (uint32_t k = 0; k < schema.n_keys; k++) {
        bool is_sound = is_key(schema.keys[k]);
        i->keys[i->n_keys++] = keep_text(i, is_sound ? schema.keys[k] : (struct bytes){0});
    }
}

struct identity *identity_of_host(const struct identity_rules *r)
{
    struct finding d = {.rules = r, .to = must_calloc(1, sizeof(*d.to))};

    put_host(&d);
    put_resource(&d);
    buf_done(&d.room);
    return d.to;
}

struct identity *identity_new(const struct identity_rules *r, const struct inspect_process *p)
{
    struct finding d = {.rules = r, .p = p, .to = must_calloc(1, sizeof(*d.to))};

    /* A program that was never in a file has a name that nobody knows it by. */
    bool has_file = p->exe.len > 0 && !bytes_start_with(p->exe, BYTES("/memfd:"));
    d.base = has_file ? identity_base_name(p->exe) : p->comm;
    container_place(p->cgroup, &d.place);
    rule_list_apply(&r->rules, p, rule_says, &d);
    put_seen(&d);
    put_claimed(&d);
    put_allowed(&d);
    put_resource(&d);
    put_variables(&d);
    d.is_guessing = true;
    put_runtime(&d);
    put_service(&d);
    learn_keys(&d);
    buf_done(&d.room);
    decide(&d);
    return d.to;
}

/* What a program says of its runtime counts more than what its name made us think. */
static void put_instead(struct finding *d, const char *key, const char *value)
{
    struct attribute *before = attribute_of(d->to, bytes_of(key));

    if (value[0] == '\0')
        return;
    if (before && before->is_guess)
        drop(d->to, before);
    put_text(d, key, value);
}

void identity_add_facts(struct identity *i, const struct identity_rules *r,
                        const struct parse_facts *facts)
{
    struct finding d = {.rules = r, .to = i};

    if (!i || !facts)
        return;
    if (strcmp(facts->go_module_version, "(devel)") != 0)
        put_text(&d, "service.version", facts->go_module_version);
    put_text(&d, "service.version", facts->package_version);
    put_text(&d, "vcs.ref.head.revision", facts->vcs_revision);
    put_instead(&d, "process.runtime.name", facts->runtime);
    put_instead(&d, "process.runtime.version", facts->runtime_version);
    if (facts->is_go) {
        put_text(&d, "process.runtime.name", "go");
        put_text(&d, "process.runtime.version", facts->go_version);
    }
    i->is_go = facts->is_go;
    buf_done(&d.room);
}

void identity_add_library(struct identity *i, const struct identity_rules *r,
                          const struct parse_facts *facts)
{
    struct finding d = {.rules = r, .to = i};

    if (i && bytes_are(identity_value(i, "process.runtime.name"), facts->runtime))
        put_instead(&d, "process.runtime.version", facts->runtime_version);
    buf_done(&d.room);
}

void identity_free(struct identity *i)
{
    if (!i)
        return;
    free(i->text);
    free(i->attributes);
    free(i->keys);
    free(i);
}

bool identity_is_wanted(const struct identity *i)
{
    return !i->why_not;
}

const char *identity_why_not(const struct identity *i)
{
    return i->why_not;
}

uint32_t identity_kinds(const struct identity *i)
{
    return i->kinds;
}

bool identity_may_attach(const struct identity *i)
{
    return i->may_attach && !i->why_not;
}

enum identity_threads identity_threads(const struct identity *i)
{
    return i ? i->threads : IDENTITY_THREADS_UNSAID;
}

/* Labels of Go have names for keys, others numbers. */
static bool has_names(const struct identity *i)
{
    return i->is_go && i->threads != IDENTITY_THREADS_TLS;
}

bool identity_misses_key(const struct identity *i, struct bytes attrs)
{
    for (size_t at = 0; !has_names(i) && at + 2 <= attrs.len; at += 2u + attrs.data[at + 1])
        if (attrs.data[at] >= i->n_keys)
            return true;
    return false;
}

bool identity_sample_attribute(const struct identity *i, struct bytes attrs, uint32_t *at,
                               struct bytes *ret_key, struct bytes *ret_value)
{
    while (attrs.len >= 2 && *at <= attrs.len - 2) {
        const uint8_t *entry = attrs.data + *at;
        size_t left = attrs.len - *at - 2;
        size_t key_len = has_names(i) ? entry[0] : 0, value_len = entry[1];
        if (key_len + value_len > left)
            return false;
        *at += (uint32_t)(2 + key_len + value_len);
        struct bytes value = {entry + 2 + key_len, value_len};
        struct bytes key = {entry + 2, key_len};
        if (!has_names(i) && entry[0] < i->n_keys)
            key = bytes_of((const char *)i->text + i->keys[entry[0]]);
        if (!is_key(key) || utf8_sound(value) != value_len)
            continue;
        *ret_key = key;
        *ret_value = value;
        return true;
    }
    return false;
}
