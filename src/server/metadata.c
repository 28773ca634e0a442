#include "server/metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/checksum.h"
#include "base/cleanup.h"
#include "server/ingest.h"

/*
 * Names and what they are kept as, dots standing for underscores too. Of several names for one
 * thing the earlier row counts, and the others stay what they are.
 */
static const struct {
    const char *name, *kept;
} names[] = {
    {"service.name", LABEL_SERVICE},
    {"service", LABEL_SERVICE},
    {"application", LABEL_SERVICE},
    {"app", LABEL_SERVICE},
    {"service.version", LABEL_VERSION},
    {"version", LABEL_VERSION},
    {"app.version", LABEL_VERSION},
    {"release", LABEL_VERSION},
    {"service.namespace", "service.namespace"},
    {"service.instance.id", "service.instance.id"},
    {"deployment.environment.name", LABEL_ENVIRONMENT},
    {"deployment.environment", LABEL_ENVIRONMENT},
    {"environment", LABEL_ENVIRONMENT},
    {"env", LABEL_ENVIRONMENT},
    {"deployment.id", "deployment.id"},
    {"deployment.name", "deployment.name"},
    {"vcs.ref.head.revision", "vcs.ref.head.revision"},
    {"vcs.ref.head.sha", "vcs.ref.head.revision"},
    {"vcs.repository.ref.revision", "vcs.ref.head.revision"},
    {"service.git.ref", "vcs.ref.head.revision"},
    {"git.commit.sha", "vcs.ref.head.revision"},
    {"git.commit", "vcs.ref.head.revision"},
    {"git.sha", "vcs.ref.head.revision"},
    {"git.ref", "vcs.ref.head.revision"},
    {"commit", "vcs.ref.head.revision"},
    {"revision", "vcs.ref.head.revision"},
    {"vcs.ref.head.name", "vcs.ref.head.name"},
    {"vcs.repository.ref.name", "vcs.ref.head.name"},
    {"git.branch", "vcs.ref.head.name"},
    {"branch", "vcs.ref.head.name"},
    {"vcs.repository.url.full", "vcs.repository.url.full"},
    {"service.repository", "vcs.repository.url.full"},
    {"process.runtime.name", "process.runtime.name"},
    {"runtime.name", "process.runtime.name"},
    {"runtime", "process.runtime.name"},
    {"process.runtime.version", "process.runtime.version"},
    {"runtime.version", "process.runtime.version"},
    {"process.executable.name", "process.executable.name"},
    {"telemetry.sdk.language", "telemetry.sdk.language"},
    {"profile.kind", "profile.kind"},
    {"host.name", "host.name"},
    {"hostname", "host.name"},
    {"host", "host.name"},
    {"container.id", "container.id"},
    {"container.name", "container.name"},
    {"k8s.cluster.name", "k8s.cluster.name"},
    {"k8s.namespace.name", "k8s.namespace.name"},
    {"k8s.node.name", "k8s.node.name"},
    {"k8s.pod.name", "k8s.pod.name"},
    {"k8s.container.name", "k8s.container.name"},
    {"k8s.deployment.name", "k8s.deployment.name"},
    {"k8s.statefulset.name", "k8s.statefulset.name"},
    {"k8s.daemonset.name", "k8s.daemonset.name"},
    {"k8s.replicaset.name", "k8s.replicaset.name"},
    {"k8s.job.name", "k8s.job.name"},
    {"k8s.cronjob.name", "k8s.cronjob.name"},
    {"cloud.region", "cloud.region"},
    {"cloud.availability.zone", "cloud.availability_zone"},
};

#define NAME_MAX_LEN 32

/* The row of a name, or SIZE_MAX. */
static size_t row_of(struct bytes name)
{
    char dotted[NAME_MAX_LEN];

    if (name.len == 0 || name.len > sizeof(dotted))
        return SIZE_MAX;
    for (size_t i = 0; i < name.len; i++)
        dotted[i] = (char)(name.data[i] == '_' ? '.' : name.data[i]);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (names[i].name[0] == dotted[0] && strncmp(names[i].name, dotted, name.len) == 0 &&
            names[i].name[name.len] == '\0')
            return i;
    }
    return SIZE_MAX;
}

struct bytes ingest_label_name(struct bytes name)
{
    size_t row = row_of(name);
    return row == SIZE_MAX ? name : bytes_of(names[row].kept);
}

/* Whether an attribute of a resource becomes a label. */
static bool is_label(struct bytes name, const struct server_config *config)
{
    if (row_of(name) != SIZE_MAX)
        return true;
    for (size_t i = 0; i < config->resource_labels.n; i++) {
        if (bytes_are(name, config->resource_labels.items[i]))
            return true;
    }
    return false;
}

/* What is collected before it is sorted and counted: sorting is for few. */
#define COLLECTED_MAX 256

struct collected {
    struct label all[COLLECTED_MAX];
    size_t rows[COLLECTED_MAX]; /* of their names */
    size_t n;
    bool is_over;
};

static void collect(struct collected *c, struct label l)
{
    if (c->n == COLLECTED_MAX) {
        c->is_over = true;
        return;
    }
    c->rows[c->n] = row_of(l.name);
    c->all[c->n++] = l;
}

/* Whether another name for the same thing counts more than that of label i. */
static bool has_better(const struct collected *c, size_t from, size_t i)
{
    const char *kept = names[c->rows[i]].kept;

    for (size_t k = from; k < c->n; k++) {
        size_t row = c->rows[k];
        if (row < c->rows[i] && strcmp(names[row].kept, kept) == 0 && c->all[k].value.len > 0)
            return true;
    }
    return false;
}

/* Gives the labels from `from` on the names that are kept. */
static void map_names(struct collected *c, size_t from)
{
    for (size_t i = from; i < c->n; i++) {
        if (c->rows[i] != SIZE_MAX && !has_better(c, from, i))
            c->all[i].name = bytes_of(names[c->rows[i]].kept);
    }
}

/* A value as text; empty for what is no single value. */
static struct bytes value_text(const struct dict *d, const struct attribute *a, struct arena *arena)
{
    char text[32];

    switch (a->kind) {
    case ATTRIBUTE_STRING:
        return dict_text(d, a->text);
    case ATTRIBUTE_BOOL:
        return bytes_of(a->number ? "true" : "false");
    case ATTRIBUTE_INT:
        snprintf(text, sizeof(text), "%" PRId64, a->number);
        break;
    case ATTRIBUTE_DOUBLE: {
        double v;
        memcpy(&v, &a->number, sizeof(v));
        snprintf(text, sizeof(text), "%.17g", v);
        break;
    }
    default:
        return (struct bytes){0};
    }
    const char *copy = arena_strdup(arena, bytes_of(text));
    return copy ? bytes_of(copy) : (struct bytes){0};
}

/* Any of these tells the instances of a service apart. */
static bool is_instance(struct bytes name)
{
    return bytes_are(name, "service.instance.id") || bytes_are(name, "k8s.pod.name") ||
           bytes_are(name, "container.id") || bytes_are(name, "host.name");
}

static void collect_resource(struct collected *c, const struct metadata *m, const struct profile *p,
                             struct arena *arena)
{
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[p->resource_attrs];
    const struct attribute *pid = NULL;
    bool has_instance = false;

    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        struct bytes name = dict_text(d, a->key);
        if (is_label(name, m->config)) {
            struct bytes value = value_text(d, a, arena);
            has_instance |= is_instance(name) && value.len > 0;
            if (value.len > 0)
                collect(c, (struct label){name, value});
        } else if (bytes_are(name, "process.pid")) {
            pid = a;
        }
    }
    if (pid && !has_instance)
        collect(c, (struct label){BYTES("process.pid"), value_text(d, pid, arena)});
    map_names(c, 0);
}

/* What SDKs call a service that nobody named. */
static struct bytes unknown_service(const struct collected *c, struct arena *arena)
{
    char text[128];
    struct bytes executable = {0};

    for (size_t i = 0; i < c->n; i++) {
        if (bytes_are(c->all[i].name, "process.executable.name"))
            executable = c->all[i].value;
    }
    if (executable.len == 0)
        return BYTES("unknown_service");
    snprintf(text, sizeof(text), "unknown_service:%.*s",
             (int)(executable.len > 100 ? 100 : executable.len), (const char *)executable.data);
    const char *copy = arena_strdup(arena, bytes_of(text));
    return copy ? bytes_of(copy) : BYTES("unknown_service");
}

static int check_limits(const struct collected *c, const struct server_config *config,
                        struct error *err)
{
    if (c->n > config->labels_max && config->labels_max > 0)
        return error_set(err, -EINVAL, "%zu labels are more than the %u of limits.labels", c->n,
                         config->labels_max);
    for (size_t i = 0; i < c->n && config->label_value_max > 0; i++) {
        const struct label *l = &c->all[i];
        if (l->value.len > config->label_value_max)
            return error_set(err, -EINVAL,
                             "the value of label \"%.*s\" has %zu bytes: limits.label_value is %u",
                             (int)(l->name.len > 64 ? 64 : l->name.len), (const char *)l->name.data,
                             l->value.len, config->label_value_max);
    }
    return 0;
}

int metadata_labels(const struct metadata *m, const struct profile *p, struct arena *arena,
                    struct label **ret, size_t *ret_n, struct error *err)
{
    struct collected c;

    c.n = 0;
    c.is_over = false;
    collect_resource(&c, m, p, arena);
    size_t from = c.n;
    for (size_t i = 0; i < m->n_given; i++)
        collect(&c, m->given[i]);
    for (size_t i = 0; i < m->n_own; i++)
        collect(&c, m->own[i]);
    map_names(&c, from);
    if (c.is_over)
        return error_set(err, -EINVAL, "%zu labels are more than the %u of limits.labels",
                         from + m->n_given + m->n_own, m->config->labels_max);
    c.n = labels_normalize(c.all, c.n);
    if (label_value(c.all, c.n, BYTES(LABEL_SERVICE)).len == 0 && c.n < COLLECTED_MAX) {
        struct bytes name = unknown_service(&c, arena); /* looks at all, so it comes first */
        c.all[c.n++] = (struct label){BYTES(LABEL_SERVICE), name};
        c.n = labels_normalize(c.all, c.n);
    }
    int r = check_limits(&c, m->config, err);
    if (r < 0)
        return r;
    struct label *kept = arena_new(arena, struct label, c.n);
    if (!kept)
        return budget_error(arena->budget, err);
    memcpy(kept, c.all, c.n * sizeof(*kept));
    *ret = kept;
    *ret_n = c.n;
    return 0;
}

uint64_t metadata_sender(const struct dict *d, uint32_t resource_attrs)
{
    struct attrs set = d->attr_sets.data[resource_attrs];
    uint64_t sum = 0;

    /* A sum: the order of ids is that of whoever came first. */
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        struct bytes key = dict_text(d, a->key), text = dict_text(d, a->text);
        uint64_t h = checksum64_seeded(key.data, key.len, (uint64_t)a->number);
        sum += checksum64_seeded(text.data, text.len, h);
    }
    return sum;
}
