#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/must.h"
#include "host/identity_internal.h"

const struct identity_variable identity_known[] = {
    {"DD_SERVICE", "service.name"},
    {"ELASTIC_APM_SERVICE_NAME", "service.name"},
    {"NEW_RELIC_APP_NAME", "service.name"},
    {"K_SERVICE", "service.name"},
    {"DD_VERSION", "service.version"},
    {"ELASTIC_APM_SERVICE_VERSION", "service.version"},
    {"SERVICE_VERSION", "service.version"},
    {"APP_VERSION", "service.version"},
    {"DD_ENV", "deployment.environment.name"},
    {"ELASTIC_APM_ENVIRONMENT", "deployment.environment.name"},
    {"DEPLOYMENT_ENVIRONMENT", "deployment.environment.name"},
    {"SENTRY_ENVIRONMENT", "deployment.environment.name"},
    {"APP_ENV", "deployment.environment.name"},
    {"ASPNETCORE_ENVIRONMENT", "deployment.environment.name"},
    {"RAILS_ENV", "deployment.environment.name"},
    {"RACK_ENV", "deployment.environment.name"},
    {"NODE_ENV", "deployment.environment.name"},
    {"DEPLOYMENT_ID", "deployment.id"},
    {"DEPLOY_ID", "deployment.id"},
    {"VERCEL_DEPLOYMENT_ID", "deployment.id"},
    {"RAILWAY_DEPLOYMENT_ID", "deployment.id"},
    {"HEROKU_RELEASE_VERSION", "deployment.id"},
    {"K_REVISION", "deployment.id"},
    {"GIT_COMMIT", "vcs.ref.head.revision"},
    {"GIT_COMMIT_SHA", "vcs.ref.head.revision"},
    {"GIT_SHA", "vcs.ref.head.revision"},
    {"COMMIT_SHA", "vcs.ref.head.revision"},
    {"DD_GIT_COMMIT_SHA", "vcs.ref.head.revision"},
    {"CI_COMMIT_SHA", "vcs.ref.head.revision"},
    {"GITHUB_SHA", "vcs.ref.head.revision"},
    {"SOURCE_VERSION", "vcs.ref.head.revision"},
    {"SOURCE_COMMIT", "vcs.ref.head.revision"},
    {"HEROKU_SLUG_COMMIT", "vcs.ref.head.revision"},
    {"HEROKU_BUILD_COMMIT", "vcs.ref.head.revision"},
    {"VERCEL_GIT_COMMIT_SHA", "vcs.ref.head.revision"},
    {"RENDER_GIT_COMMIT", "vcs.ref.head.revision"},
    {"RAILWAY_GIT_COMMIT_SHA", "vcs.ref.head.revision"},
    {"BITBUCKET_COMMIT", "vcs.ref.head.revision"},
    {"BUILD_VCS_NUMBER", "vcs.ref.head.revision"},
    {"GIT_BRANCH", "vcs.ref.head.name"},
    {"CI_COMMIT_REF_NAME", "vcs.ref.head.name"},
    {"GITHUB_REF_NAME", "vcs.ref.head.name"},
    {"BRANCH_NAME", "vcs.ref.head.name"},
    {"VERCEL_GIT_COMMIT_REF", "vcs.ref.head.name"},
    {"RENDER_GIT_BRANCH", "vcs.ref.head.name"},
    {"DD_GIT_REPOSITORY_URL", "vcs.repository.url.full"},
    {"CI_PROJECT_URL", "vcs.repository.url.full"},
    {"GIT_URL", "vcs.repository.url.full"},
    {"POD_NAME", "k8s.pod.name"},
    {"MY_POD_NAME", "k8s.pod.name"},
    {"K8S_POD_NAME", "k8s.pod.name"},
    {"POD_NAMESPACE", "k8s.namespace.name"},
    {"MY_POD_NAMESPACE", "k8s.namespace.name"},
    {"K8S_NAMESPACE", "k8s.namespace.name"},
    {"KUBERNETES_NAMESPACE", "k8s.namespace.name"},
    {"K8S_CONTAINER_NAME", "k8s.container.name"},
    {"MY_CONTAINER_NAME", "k8s.container.name"},
    {"POD_UID", "k8s.pod.uid"},
    {"NODE_NAME", "k8s.node.name"},
    {"MY_NODE_NAME", "k8s.node.name"},
    {"K8S_NODE_NAME", "k8s.node.name"},
    {"K8S_CLUSTER_NAME", "k8s.cluster.name"},
    {NULL, NULL},
};

#define KNOWN (ARRAY_SIZE(identity_known) - 1)

/* Those that are looked at by themselves. */
static const char *const other_variables[] = {
    "VESTA_PROFILING",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "KUBERNETES_SERVICE_HOST",
    "HOSTNAME",
    "CONTAINER_NAME",
    "NAMESPACE",
    "CLUSTER_NAME",
    "PYTHON_VERSION",
    "NODE_VERSION",
    "JAVA_VERSION",
    "RUBY_VERSION",
    "PHP_VERSION",
    "DOTNET_VERSION",
    "BUN_VERSION",
    "DENO_VERSION",
};

static void want_variable(void *arg, const char *name)
{
    struct identity_rules *r = arg;

    for (size_t i = 0; i < r->n_variables; i++) {
        if (strcmp(r->variables[i], name) == 0)
            return;
    }
    if (r->n_variables == VARIABLES_MAX)
        r->has_too_many = true;
    else
        r->variables[r->n_variables++] = name;
}

static void learn_host(struct identity_rules *r)
{
    char text[64] = "";
    const char *node = getenv("NODE_NAME");

    (void)uname(&r->system);
    if (gethostname(r->host_name, sizeof(r->host_name) - 1) < 0)
        r->host_name[0] = '\0';
    snprintf(r->node_name, sizeof(r->node_name), "%s", node ? node : "");
    CLEANUP(closep) int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    struct bytes machine = bytes_trim((struct bytes){(uint8_t *)text, n < 0 ? 0 : (size_t)n});
    uint8_t sound[16];
    if (hex_decode(machine, sound, sizeof(sound)))
        snprintf(r->host_id, sizeof(r->host_id), "%.*s", (int)machine.len,
                 (const char *)machine.data);
}

static int check_list(const struct config_list *list, const char *name, struct error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        int r = identity_check_pattern(list->items[i], err);
        if (r < 0)
            return error_prefix(err, r, "%s", name);
    }
    return 0;
}

static int check_patterns(struct identity_rules *rules, const struct agent_config *c,
                          struct error *err)
{
    int r = check_list(&c->include, "include", err);

    if (r == 0)
        r = check_list(&c->exclude, "exclude", err);
    if (r == 0)
        r = check_list(&c->node_attach, "node.attach", err);
    for (size_t i = 0; i < c->type_rules.n && r == 0; i++) {
        r = identity_type_rule(c->type_rules.items[i], &rules->type_rules[i].kinds,
                               &rules->type_rules[i].pattern, err);
        if (r < 0)
            return error_prefix(err, r, "type_rules");
    }
    return r;
}

static void want_all(struct identity_rules *r)
{
    const struct config_list *list = &r->config->env_attributes;

    for (size_t i = 0; i < ARRAY_SIZE(other_variables); i++)
        want_variable(r, other_variables[i]);
    for (size_t i = 0; i < KNOWN; i++)
        want_variable(r, identity_known[i].variable);
    rule_list_variables(&r->rules, want_variable, r);
    for (size_t i = 0; i < list->n; i++) {
        struct bytes item = bytes_of(list->items[i]);
        const uint8_t *is = bytes_find_byte(item, '=');
        r->names[i] = must_copy(bytes_head(item, is ? (size_t)(is - item.data) : item.len));
        want_variable(r, r->names[i]);
    }
}

int identity_rules_new(const struct agent_config *c, struct identity_rules **ret, struct error *err)
{
    CLEANUP(identity_rules_freep) struct identity_rules *rules = must_calloc(1, sizeof(*rules));
    int r = check_patterns(rules, c, err);

    if (r < 0)
        return r;
    rules->config = c;
    r = rule_list_read(c->rules, &rules->rules, err);
    if (r < 0)
        return error_prefix(err, r, "rules");
    want_all(rules);
    if (rules->has_too_many)
        return error_set(err, -EINVAL,
                         "rules and privacy.env name too many variables: %d are always looked at, "
                         "and %d is the limit of all",
                         (int)(ARRAY_SIZE(other_variables) + KNOWN), VARIABLES_MAX);
    learn_host(rules);
    *ret = TAKE_PTR(rules);
    return 0;
}

void identity_rules_free(struct identity_rules *r)
{
    if (!r)
        return;
    rule_list_done(&r->rules);
    for (size_t i = 0; i < CONFIG_LIST_MAX; i++)
        free(r->names[i]);
    free(r);
}

const char *const *identity_variables(const struct identity_rules *r)
{
    return r->variables;
}

uint32_t identity_all_kinds(const struct identity_rules *r)
{
    uint32_t all = 0;

    for (size_t i = 0; i < r->config->type_rules.n; i++)
        all |= r->type_rules[i].kinds;
    return all;
}
