#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/agent_config.h"
#include "host/container.h"
#include "host/identity.h"
#include "host/identity_context.h"
#include "host/identity_internal.h"
#include "lib/test.h"
#include "wire/protobuf.h"

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UUID "1b4e28ba-2fa1-11d2-883f-0016d3cca427"

/* A process as texts, and what becomes of it. */
struct given {
    const char *exe;
    struct bytes cmdline, environ, context;
    const char *cgroup, *config;
    uint32_t uid;
    const char *container_name, *container_service, *pod, *pod_container;
    const struct parse_facts *facts;
};

struct known {
    struct config *config;
    struct identity_rules *rules;
    struct identity *found;
    struct inspect_process p;
};

static struct bytes text(const char *s)
{
    return s ? bytes_of(s) : (struct bytes){0};
}

static void know(struct test *t, const struct given *g, struct known *k)
{
    struct error err = {{0}};
    struct config_input in = {.text = text(g->config)};

    *k = (struct known){.config = NULL};
    if (!g->config)
        in.text = BYTES("# nothing\n");
    CHECK_INT(t, agent_config_load(&in, &k->config, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, identity_rules_new(agent_config_of(k->config), &k->rules, &err), 0);
    CHECK_STR(t, err.text, "");
    k->p = (struct inspect_process){.pid = 4711,
                                    .uid = g->uid,
                                    .exe = text(g->exe),
                                    .comm = BYTES("comm"),
                                    .cmdline = g->cmdline,
                                    .environ = g->environ,
                                    .context = g->context,
                                    .cgroup = text(g->cgroup),
                                    .container_name = text(g->container_name),
                                    .container_service = text(g->container_service),
                                    .pod = text(g->pod),
                                    .pod_container = text(g->pod_container)};
    k->found = identity_new(k->rules, &k->p);
    identity_add_facts(k->found, k->rules, g->facts);
}

static void forget(struct known *k)
{
    identity_free(k->found);
    identity_rules_free(k->rules);
    config_free(k->config);
}

static const char *value(const struct known *k, const char *key)
{
    static char texts[4][600];
    static int next;
    struct bytes v = identity_value(k->found, key);
    char *out = texts[next++ % 4];

    snprintf(out, 600, "%.*s", (int)v.len, v.data ? (const char *)v.data : "");
    return out;
}

/* The service's name alone. */
static const char *service(struct test *t, const struct given *g)
{
    struct known k;
    static char name[600];

    know(t, g, &k);
    snprintf(name, sizeof(name), "%s", value(&k, "service.name"));
    forget(&k);
    return name;
}

static void services_are_named_in_the_stated_order(struct test *t)
{
    struct buf context = {0};
    size_t resource = pb_begin(&context, 1), pair = pb_begin(&context, 1);
    pb_put_bytes(&context, 1, BYTES("service.name"));
    size_t any = pb_begin(&context, 2);
    pb_put_bytes(&context, 1, BYTES("by-context"));
    pb_end(&context, any);
    pb_end(&context, pair);
    pb_end(&context, resource);

    struct given g = {
        .exe = "/usr/sbin/nginx",
        .cgroup = "0::/system.slice/front.service\n",
        .environ =
            BYTES("DD_SERVICE=by-vendor\0OTEL_RESOURCE_ATTRIBUTES=service.name=by-attributes\0"
                  "OTEL_SERVICE_NAME=by-name\0"),
        .context = buf_bytes(&context),
        .config = "rules:\n"
                  "  - match: {exe: '/([a-z]+)$'}\n"
                  "    set: {service.name: 'by-rule-$1'}\n"};
    CHECK_STR(t, service(t, &g), "by-rule-nginx");
    g.config = NULL;
    CHECK_STR(t, service(t, &g), "by-name");
    g.environ.len -= sizeof("OTEL_SERVICE_NAME=by-name");
    CHECK_STR(t, service(t, &g), "by-attributes");
    g.environ.len = sizeof("DD_SERVICE=by-vendor");
    CHECK_STR(t, service(t, &g), "by-context");
    g.context.len = 0;
    CHECK_STR(t, service(t, &g), "by-vendor");
    g.environ.len = 0;
    CHECK_STR(t, service(t, &g), "front");
    g.cgroup = NULL;
    CHECK_STR(t, service(t, &g), "nginx");
    g.exe = NULL;
    CHECK_STR(t, service(t, &g), "comm");
    buf_done(&context);
}

static void containers_name_services(struct test *t)
{
    struct given g = {.exe = "/app/server",
                      .cgroup = "0::/system.slice/docker-" ID64 ".scope\n",
                      .container_name = "shop-web-1",
                      .container_service = "web"};
    struct known k;

    CHECK_STR(t, service(t, &g), "web");
    g.container_service = NULL;
    CHECK_STR(t, service(t, &g), "shop-web-1");
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "container.id"), ID64);
    CHECK_STR(t, value(&k, "container.name"), "shop-web-1");
    CHECK_STR(t, value(&k, "systemd.unit"), "");
    forget(&k);
    /* A pod: its container, or its deployment when all containers are called so. */
    g = (struct given){.exe = "/app/server",
                       .cgroup = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
                                 "pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/"
                                 "cri-containerd-" ID64 ".scope\n",
                       .pod = "checkout-7d9f8b6c5d-x2x4z",
                       .pod_container = "istio-proxy"};
    CHECK_STR(t, service(t, &g), "istio-proxy");
    g.pod_container = "app";
    CHECK_STR(t, service(t, &g), "checkout");
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "k8s.pod.uid"), UUID);
    CHECK_STR(t, value(&k, "k8s.pod.name"), "checkout-7d9f8b6c5d-x2x4z");
    CHECK_STR(t, value(&k, "k8s.deployment.name"), "checkout");
    CHECK_STR(t, value(&k, "k8s.container.name"), "app");
    forget(&k);
    /* By the downward API alone; a pod's hostname is its name. */
    g = (struct given){.exe = "/app/server",
                       .environ = BYTES("KUBERNETES_SERVICE_HOST=10.0.0.1\0HOSTNAME=cart-0\0"
                                        "POD_NAMESPACE=shop\0NODE_NAME=n1\0")};
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "k8s.pod.name"), "cart-0");
    CHECK_STR(t, value(&k, "k8s.namespace.name"), "shop");
    CHECK_STR(t, value(&k, "k8s.node.name"), "n1");
    CHECK_STR(t, value(&k, "k8s.deployment.name"), "");
    forget(&k);
    /* Out of Kubernetes these names mean nothing. */
    g.environ = BYTES("HOSTNAME=cart-0\0POD_NAME=x\0NAMESPACE=y\0");
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "k8s.pod.name"), "");
    CHECK_STR(t, value(&k, "k8s.namespace.name"), "");
    forget(&k);
}

static void interpreters_are_named_by_what_they_run(struct test *t)
{
    static const struct {
        const char *exe;
        struct bytes cmdline;
        const char *name;
    } all[] = {
        {"/usr/bin/python3.11", BYTES("python3\0-u\0-X\0dev\0/srv/shop/worker_pool.py\0--x\0"),
         "worker_pool"},
        {"/usr/bin/python3.11", BYTES("python3\0-m\0acme.shop\0--port\0008080\0"), "acme.shop"},
        {"/usr/bin/python3.11", BYTES("python3\0/srv/shop/manage.py\0runserver\0"), "shop"},
        {"/usr/bin/python3.11", BYTES("python3\0main.py\0"), "main"},
        {"/usr/bin/python3.11", BYTES("python3\0-c\0import secret\0"), "python3.11"},
        {"/usr/bin/python3.11", BYTES("python3\0"), "python3.11"},
        {"/usr/bin/python3.11", BYTES(""), "python3.11"},
        {"/usr/local/bin/python3.12",
         BYTES("/usr/local/bin/python3.12\0/usr/local/bin/gunicorn\0"
               "app:app\0"),
         "gunicorn"},
        {"/usr/bin/node",
         BYTES("node\0--max-old-space-size=512\0-r\0./trace.js\0/app/dist/index.js\0"), "index"},
        {"/usr/bin/node", BYTES("node\0/srv/cart/dist/index.js\0"), "cart"},
        {"/usr/bin/node", BYTES("node\0/srv/cart/pay.mjs\0"), "pay"},
        {"/usr/bin/java", BYTES("java\0-Xmx1g\0-jar\0/opt/shop-1.4.2-SNAPSHOT.jar\0"), "shop"},
        {"/usr/bin/java", BYTES("java\0-cp\0/a:/b\0-Dx=y\0com.acme.Billing\0arg\0"), "Billing"},
        {"/usr/bin/java", BYTES("java\0-cp\0/a:/b\0com.acme.billing.Main\0arg\0"), "billing"},
        {"/usr/bin/java", BYTES("java\0-Dotel.service.name=claimed\0-jar\0/opt/x.jar\0"),
         "claimed"},
        {"/usr/bin/ruby3.1", BYTES("puma 5.6.4 (tcp://0.0.0.0:3000) [storefront]\0"), "storefront"},
        {"/usr/bin/ruby", BYTES("ruby\0-I\0lib\0/srv/jobs.rb\0"), "jobs"},
        {"/usr/bin/dotnet", BYTES("dotnet\0/app/Acme.Shop.dll\0"), "Acme.Shop"},
        {"/bin/bash", BYTES("bash\0/opt/backup.sh\0"), "backup"},
        {"/bin/bash", BYTES("bash\0/dev/fd/3\0"), "bash"},
        {"/memfd:sealed-12ab", BYTES("x\0"), "comm"},
        {"/usr/bin/pythonista", BYTES("pythonista\0/srv/x.py\0"), "pythonista"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct given g = {.exe = all[i].exe, .cmdline = all[i].cmdline};
        CHECK_STR(t, service(t, &g), all[i].name);
    }
}

static void command_line_and_environment_stay_here_unless_allowed(struct test *t)
{
    struct given g = {.exe = "/usr/bin/python3.11",
                      .cmdline = BYTES("python3\0x.py\0--password=hunter2\0"),
                      .environ = BYTES("TEAM=blue\0REGION=eu\0SECRET=s3\0")};
    struct known k;

    know(t, &g, &k);
    struct bytes key, of;
    for (size_t i = 0; identity_attribute(k.found, i, &key, &of); i++) {
        CHECK(t, !bytes_find(of, BYTES("hunter2")));
        CHECK(t, !bytes_find(of, BYTES("blue")));
    }
    forget(&k);
    g.config = "privacy: {env: [REGION, TEAM=team.name], cmdline: true}\n";
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "process.environment_variable.REGION"), "eu");
    CHECK_STR(t, value(&k, "team.name"), "blue");
    CHECK_STR(t, value(&k, "process.command_line"), "python3 x.py --password=hunter2");
    bool asks = false;
    for (const char *const *v = identity_variables(k.rules); *v; v++)
        asks |= strcmp(*v, "TEAM") == 0;
    CHECK(t, asks);
    forget(&k);
}

static void what_we_see_wins_over_what_is_claimed(struct test *t)
{
    struct given g = {
        .exe = "/usr/bin/evil",
        .cgroup = "0::/system.slice/docker-" ID64 ".scope\n",
        .environ = BYTES("OTEL_RESOURCE_ATTRIBUTES=process.pid=1,container.id=other,host.name=bank,"
                         "vesta.x=1,service.version=1%2E2,bad key=3,service.instance.id=i%201\0")};
    struct known k;
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "process.pid"), "");
    CHECK_STR(t, value(&k, "container.id"), ID64);
    CHECK_STR(t, value(&k, "host.name"), host);
    CHECK_STR(t, value(&k, "vesta.x"), "");
    CHECK_STR(t, value(&k, "bad key"), "");
    CHECK_STR(t, value(&k, "service.version"), "1.2");
    CHECK_STR(t, value(&k, "service.instance.id"), "i 1");
    CHECK_STR(t, value(&k, "os.type"), "linux");
    struct bytes key, of;
    for (size_t i = 0; identity_attribute(k.found, i, &key, &of); i++) {
        struct bytes other;
        for (size_t n = 0; n < i; n++) {
            CHECK(t, identity_attribute(k.found, n, &other, &of));
            CHECK(t, !bytes_equal(other, key));
        }
    }
    forget(&k);
}

static void one_fault_makes_all_claims_void(struct test *t)
{
    static const char *const all[] = {
        "OTEL_RESOURCE_ATTRIBUTES=service.version=1,service.name=a%2",
        "OTEL_RESOURCE_ATTRIBUTES=service.version=1,service.name",
        "OTEL_RESOURCE_ATTRIBUTES=service.version=1,=x",
        "OTEL_RESOURCE_ATTRIBUTES=service.version=1,service.name=%zz",
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct given g = {.exe = "/bin/x", .environ = bytes_of(all[i])};
        struct known k;
        know(t, &g, &k);
        CHECK_STR(t, value(&k, "service.name"), "x");
        CHECK_STR(t, value(&k, "service.version"), "");
        forget(&k);
    }
}

static void hostile_texts_are_made_sound(struct test *t)
{
    struct buf long_name = {0};
    struct known k;

    buf_add_str(&long_name, "OTEL_SERVICE_NAME=");
    for (int i = 0; i < 300; i++)
        buf_add_str(&long_name, "\xc3\xa4"); /* two bytes each */
    struct given g = {.exe = "/bin/x",
                      .environ = BYTES("OTEL_SERVICE_NAME= a\n\x1b[31m\xff"
                                       "b \0")};
    CHECK_STR(t, service(t, &g),
              "a  [31m\xef\xbf\xbd"
              "b");
    g.environ = buf_bytes(&long_name);
    know(t, &g, &k);
    CHECK_INT(t, identity_value(k.found, "service.name").len, IDENTITY_VALUE_MAX);
    forget(&k);
    buf_done(&long_name);
    /* More attributes than there is room for, and names that are too long. */
    struct buf many = {0};
    buf_add_str(&many, "OTEL_RESOURCE_ATTRIBUTES=");
    for (int i = 0; i < 500; i++)
        buf_addf(&many, "k%d=v,", i);
    g.environ = buf_bytes(&many);
    know(t, &g, &k);
    struct bytes key, of;
    CHECK(t, identity_attribute(k.found, IDENTITY_CLAIMS_MAX - 1, &key, &of));
    CHECK(t, !identity_attribute(k.found, IDENTITY_ATTRIBUTES_MAX, &key, &of));
    CHECK(t, identity_value(k.found, "service.name").len > 0);
    forget(&k);
    buf_done(&many);
}

static void versions_and_builds_are_found(struct test *t)
{
    struct parse_facts facts = {.is_go = true,
                                .go_version = "go1.22.1",
                                .go_module_version = "v1.9.0",
                                .vcs_revision = "abcdef0123"};
    struct given g = {.exe = "/app/api",
                      .facts = &facts,
                      .environ = BYTES("DD_ENV=staging\0GIT_BRANCH=main\0DEPLOYMENT_ID=d7\0")};
    struct known k;

    know(t, &g, &k);
    CHECK_STR(t, value(&k, "service.version"), "v1.9.0");
    CHECK_STR(t, value(&k, "vcs.ref.head.revision"), "abcdef0123");
    CHECK_STR(t, value(&k, "vcs.ref.head.name"), "main");
    CHECK_STR(t, value(&k, "deployment.environment.name"), "staging");
    CHECK_STR(t, value(&k, "deployment.id"), "d7");
    CHECK_STR(t, value(&k, "process.runtime.name"), "go");
    CHECK_STR(t, value(&k, "process.runtime.version"), "go1.22.1");
    forget(&k);
    snprintf(facts.go_module_version, sizeof(facts.go_module_version), "(devel)");
    g.environ = BYTES("GIT_COMMIT=fromenv\0");
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "service.version"), "");
    CHECK_STR(t, value(&k, "vcs.ref.head.revision"), "fromenv");
    forget(&k);
    g = (struct given){.exe = "/usr/bin/python3.11"};
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "process.runtime.name"), "cpython");
    CHECK_STR(t, value(&k, "process.runtime.version"), "3.11");
    forget(&k);
    g.environ = BYTES("PYTHON_VERSION=3.11.7\0NODE_VERSION=20\0");
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "process.runtime.version"), "3.11.7");
    forget(&k);
}

/* Java's launcher and Debian's node know nothing of themselves. */
static void the_library_that_is_the_runtime_tells_its_version(struct test *t)
{
    struct parse_facts none = {0}, node = {.runtime = "nodejs", .runtime_version = "20.19.2"},
                       jvm = {.runtime = "jvm", .runtime_version = "21"};
    struct given g = {.exe = "/usr/bin/node", .facts = &none};
    struct known k;

    know(t, &g, &k);
    CHECK_STR(t, value(&k, "process.runtime.name"), "nodejs");
    identity_add_library(k.found, k.rules, &jvm);
    CHECK_STR(t, value(&k, "process.runtime.version"), "");
    identity_add_library(k.found, k.rules, &node);
    CHECK_STR(t, value(&k, "process.runtime.version"), "20.19.2");
    forget(&k);
    g.environ = BYTES("OTEL_RESOURCE_ATTRIBUTES=process.runtime.version=mine\0");
    know(t, &g, &k);
    identity_add_library(k.found, k.rules, &node);
    CHECK_STR(t, value(&k, "process.runtime.version"), "mine");
    forget(&k);
}

static void filters_decide_who_is_wanted(struct test *t)
{
    static const struct {
        const char *config;
        bool is_wanted;
    } all[] = {
        {"# all\n", true},
        {"include: [nginx]\n", true},
        {"include: ['ngin?']\n", true},
        {"include: [apache]\n", false},
        {"include: [apache, 'service:front*']\n", true},
        {"include: ['/usr/*/nginx']\n", true},
        {"include: ['/usr/bin/*']\n", false},
        {"include: ['uid:33']\n", true},
        {"include: ['uid:34']\n", false},
        {"include: ['pid:4711']\n", true},
        {"include: ['cgroup:/system.slice/*']\n", true},
        {"include: ['cgroup:/user.slice/*']\n", false},
        {"exclude: ['service:front']\n", false},
        {"include: [nginx]\nexclude: ['uid:33']\n", false},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct given g = {.exe = "/usr/sbin/nginx",
                          .uid = 33,
                          .cgroup = "0::/system.slice/front.service\n",
                          .config = all[i].config};
        struct known k;
        know(t, &g, &k);
        if (identity_is_wanted(k.found) != all[i].is_wanted)
            printf("# %s", all[i].config);
        CHECK(t, identity_is_wanted(k.found) == all[i].is_wanted);
        CHECK(t, identity_is_wanted(k.found) == !identity_why_not(k.found));
        forget(&k);
    }
    struct given g = {.exe = "/usr/sbin/nginx", .environ = BYTES("VESTA_PROFILING=off\0")};
    struct known k;
    know(t, &g, &k);
    CHECK(t, !identity_is_wanted(k.found));
    CHECK_STR(t, identity_why_not(k.found), "its VESTA_PROFILING says off");
    forget(&k);
}

static void types_are_added_by_rule(struct test *t)
{
    struct given g = {.exe = "/usr/sbin/nginx",
                      .config = "type_rules:\n  - 'wall,offcpu: service:ngin*'\n"
                                "  - 'lock: uid:7'\n  - 'threads: pid:4711'\n"};
    struct known k;

    know(t, &g, &k);
    CHECK_INT(t, identity_kinds(k.found), 2 | 4 | 32);
    CHECK_INT(t, identity_all_kinds(k.rules), 2 | 4 | 8 | 32);
    forget(&k);
}

static void who_may_be_attached_to_is_named(struct test *t)
{
    static const struct {
        const char *config;
        bool may_attach;
    } all[] = {
        {"", false},
        {"node.attach: ['service:cart']\n", true},
        {"node.attach: ['service:other', '/usr/bin/no*']\n", true},
        {"node.attach: ['service:other']\n", false},
        {"node.attach: ['*']\nexclude: ['service:cart']\n", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct given g = {.exe = "/usr/bin/node",
                          .environ = BYTES("OTEL_SERVICE_NAME=cart\0"),
                          .config = all[i].config};
        struct known k;
        know(t, &g, &k);
        CHECK(t, identity_may_attach(k.found) == all[i].may_attach);
        forget(&k);
    }
}

static void labels_of_go_are_read_by_name(struct test *t)
{
    struct parse_facts facts = {.is_go = true};
    struct given g = {.exe = "/app/api", .facts = &facts};
    struct bytes attrs = BYTES("\x04\x03userbob\x01\x00k\x02\x05oo"), key, of;
    struct known k;
    uint32_t at = 0;

    know(t, &g, &k);
    CHECK(t, identity_sample_attribute(k.found, attrs, &at, &key, &of));
    CHECK(t, bytes_are(key, "user") && bytes_are(of, "bob"));
    CHECK(t, identity_sample_attribute(k.found, attrs, &at, &key, &of));
    CHECK(t, bytes_are(key, "k") && of.len == 0);
    CHECK(t, !identity_sample_attribute(k.found, attrs, &at, &key, &of));
    forget(&k);
}

static void the_host_has_an_identity_of_its_own(struct test *t)
{
    struct given g = {.exe = "/bin/x",
                      .config = "resource: [deployment.environment.name=prod]\n",
                      .environ = BYTES("DD_ENV=dev\0")};
    struct known k;

    know(t, &g, &k);
    CHECK_STR(t, value(&k, "deployment.environment.name"), "prod");
    struct identity *host = identity_of_host(k.rules);
    CHECK(t, identity_value(host, "host.name").len > 0);
    CHECK(t, bytes_are(identity_value(host, "os.type"), "linux"));
    CHECK(t, bytes_are(identity_value(host, "deployment.environment.name"), "prod"));
    CHECK(t, identity_value(host, "service.name").len == 0);
    identity_free(host);
    forget(&k);
}

static void globs_match_in_bounded_time(struct test *t)
{
    struct buf text_of = {0};

    for (int i = 0; i < 4000; i++)
        buf_add_byte(&text_of, 'a');
    CHECK(t, !glob_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", buf_bytes(&text_of)));
    CHECK(t, glob_matches("*a*", buf_bytes(&text_of)));
    CHECK(t, glob_matches("", BYTES("")));
    CHECK(t, !glob_matches("", BYTES("a")));
    CHECK(t, glob_matches("**", BYTES("")));
    CHECK(t, glob_matches("a*c?e", BYTES("abbbcde")));
    CHECK(t, !glob_matches("a*c?e", BYTES("abbbce")));
    buf_done(&text_of);
}

static void rules_use_all_that_they_match(struct test *t)
{
    struct given g = {.exe = "/opt/acme/billing/bin/serve",
                      .cmdline = BYTES("serve\0--shard=7\0--tenant\0blue\0"),
                      .environ = BYTES("STAGE=canary\0"),
                      .config = "rules:\n"
                                "  - match:\n"
                                "      exe: '^/opt/acme/([a-z]+)/'\n"
                                "      cmdline: '--shard=(\\d+).*--tenant (\\w+)'\n"
                                "      env.STAGE: '.+'\n"
                                "    set:\n"
                                "      service.name: '$1'\n"
                                "      shard: 's${cmdline.1}-${cmdline.2}'\n"
                                "      stage: 'early'\n"
                                "      was: '${env.STAGE.0}'\n"
                                "      price: '$$1'\n"
                                "  - match: {env.MISSING: '.*'}\n"
                                "    set: {service.name: never}\n"
                                "  - match: {comm: 'comm'}\n"
                                "    set: {stage: later, team: core}\n"};
    struct known k;

    know(t, &g, &k);
    CHECK_STR(t, value(&k, "service.name"), "billing");
    CHECK_STR(t, value(&k, "shard"), "s7-blue");
    CHECK_STR(t, value(&k, "stage"), "later");
    CHECK_STR(t, value(&k, "was"), "canary");
    CHECK_STR(t, value(&k, "price"), "$1");
    CHECK_STR(t, value(&k, "team"), "core");
    forget(&k);
}

static void wrong_configurations_are_refused_with_their_line(struct test *t)
{
    static const struct {
        const char *config, *why;
    } all[] = {
        {"rules:\n  - match: {exe: '('}\n    set: {a: b}\n", "rules: line 2: "},
        {"rules:\n  - match: {path: 'x'}\n    set: {a: b}\n",
         "rules: line 2: a rule cannot match \"path\": there are exe, comm, cmdline, cgroup and "
         "env.NAME"},
        {"rules:\n  - match: {exe: 'x'}\n",
         "rules: line 2: a rule needs \"set\" with something in it"},
        {"rules:\n  - set: {a: b}\n", "rules: line 2: a rule needs \"match\" with something in it"},
        {"rules:\n  - match: {exe: 'x'}\n    sets: {a: b}\n",
         "rules: line 3: a rule has \"match\" and \"set\", but no \"sets\""},
        {"rules:\n  - x\n", "rules: line 2: a rule has \"match\" and \"set\""},
        {"include: ['uid:me']\n", "include: \"uid:me\" has no number behind its colon"},
        {"exclude: ['user:me']\n",
         "exclude: \"user:me\" is no pattern: there are service:, cgroup:, uid:, "
         "pid:, and globs on programs"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct config *c = NULL;
        struct identity_rules *rules = NULL;
        struct error err = {{0}};
        int r =
            agent_config_load(&(struct config_input){.text = bytes_of(all[i].config)}, &c, &err);
        if (r == 0)
            r = identity_rules_new(agent_config_of(c), &rules, &err);
        CHECK_INT(t, r, -EINVAL);
        if (strncmp(err.text, all[i].why, strlen(all[i].why)) != 0)
            CHECK_STR(t, err.text, all[i].why);
        config_free(c);
    }
}

static void control_groups_of_all_runtimes_are_understood(struct test *t)
{
    static const struct {
        const char *cgroup, *id, *pod, *unit;
    } all[] = {
        {"0::/\n", "", "", ""},
        {"", "", "", ""},
        {"garbage\n:\n::\n1:2\n", "", "", ""},
        {"0::/system.slice/docker-" ID64 ".scope\n", ID64, "", ""},
        {"12:memory:/docker/" ID64 "\n1:name=systemd:/docker/" ID64 "\n", ID64, "", ""},
        {"4:cpu:/kubepods/burstable/pod" UUID "/" ID64 "\n", ID64, UUID, ""},
        {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-"
         "pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/crio-" ID64 ".scope\n",
         ID64, UUID, ""},
        {"0::/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/" ID64 "\n", ID64,
         "0123456789abcdef0123456789abcdef", ""},
        {"0::/../../kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice/cri-containerd-" ID64
         ".scope\n",
         ID64, UUID, ""},
        {"0::/machine.slice/libpod-" ID64 ".scope/container\n", ID64, "", ""},
        {"0::/machine.slice/libpod-conmon-" ID64 ".scope\n", "", "", ""},
        {"0::/system.slice/containerd.service/kubepods-burstable-pod1b4e28ba_2fa1_11d2_883f_"
         "0016d3cca427.slice:cri-containerd:" ID64 "\n",
         ID64, UUID, ""},
        {"1:name=systemd:/ecs/0123456789abcdef0123456789abcdef/"
         "0123456789abcdef0123456789abcdef-1234567890\n",
         "0123456789abcdef0123456789abcdef-1234567890", "", ""},
        {"0::/garden/" UUID "\n", UUID, "", ""},
        /* Docker in Docker: the innermost. */
        {"0::/docker/" ID64 "/docker/"
         "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n",
         "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "", ""},
        {"0::/system.slice/nginx.service\n", "", "", "nginx.service"},
        {"0::/system.slice/system-getty.slice/my\\x2dapp@1.service\n", "", "", "my-app@1.service"},
        {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n", "", "",
         "web.service"},
        {"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "", "", ""},
        {"0::/user.slice/user-1000.slice/session-3.scope\n", "", "", ""},
        /* v1: only systemd's own tree has units. */
        {"5:cpu:/system.slice/other.service\n1:name=systemd:/system.slice/a.service\n", "", "",
         "a.service"},
        {"0::/docker-0123.scope\n", "", "", ""},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct container_place p;
        container_place(bytes_of(all[i].cgroup), &p);
        CHECK_STR(t, p.id, all[i].id);
        CHECK_STR(t, p.pod_uid, all[i].pod);
        CHECK_STR(t, p.unit, all[i].unit);
    }
}

static void deployments_are_told_by_their_pods(struct test *t)
{
    CHECK(t, bytes_are(container_deployment(BYTES("my-shop-7d9f8b6c5d-x2x4z")), "my-shop"));
    CHECK(t, container_deployment(BYTES("my-shop-0")).len == 0);
    CHECK(t, container_deployment(BYTES("node-exporter-x2x4z")).len == 0);
    CHECK(t, container_deployment(BYTES("a-hello-world")).len == 0);
    CHECK(t, container_deployment(BYTES("")).len == 0);
}

static void write_file(const char *root, const char *path, const char *content)
{
    char whole[512], *slash;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    (void)!write(fd, content, strlen(content));
    close(fd);
}

static void names_come_from_files_of_kubelet_and_runtimes(struct test *t)
{
    char root[] = "/tmp/vesta-containers-XXXXXX", command[128];
    struct container_place p = {.id = ID64, .pod_uid = UUID};
    struct container_names n;

    CHECK(t, mkdtemp(root) != NULL);
    CHECK(t, !container_names(&p, root, &n));
    write_file(root, "/var/log/pods/shop_cart-0_" UUID "/cart/0.log", "");
    write_file(root, "/var/log/pods/shop_other-0_11111111-2fa1-11d2-883f-0016d3cca427/x/0.log", "");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.pod, "cart-0");
    CHECK_STR(t, n.pod_namespace, "shop");
    CHECK_STR(t, n.pod_container, "cart");
    /* With a second one nobody can tell which it is... */
    write_file(root, "/var/log/pods/shop_cart-0_" UUID "/sidecar/0.log", "");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.pod_container, "");
    /* ...but by a log that has its id. */
    write_file(root, "/var/log/containers/cart-0_shop_side-car-" ID64 ".log", "");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.pod_container, "side-car");
    p.pod_uid[0] = '\0';
    write_file(
        root, "/var/lib/docker/containers/" ID64 "/config.v2.json",
        "{\"Name\":\"/shop-web-1\",\"State\":{\"x\":[1,{}]},\"Config\":{\"Image\":\"shop:1\","
        "\"Labels\":{\"com.docker.compose.service\":\"web\",\"x\":null}}}");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.name, "shop-web-1");
    CHECK_STR(t, n.image, "shop:1");
    CHECK_STR(t, n.service, "web");
    write_file(root, "/var/lib/docker/containers/" ID64 "/config.v2.json", "{\"Name\": [[[");
    CHECK(t, !container_names(&p, root, &n));
    write_file(
        root, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID64 "/config.json",
        "{\"ociVersion\":\"1\",\"annotations\":{\"io.kubernetes.cri.sandbox-name\":\"pay-1\","
        "\"io.kubernetes.cri.sandbox-namespace\":\"bank\","
        "\"io.kubernetes.cri.container-name\":\"pay\"}}");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.pod, "pay-1");
    CHECK_STR(t, n.pod_namespace, "bank");
    CHECK_STR(t, n.pod_container, "pay");
    write_file(root, "/var/lib/containers/storage/overlay-containers/containers.json",
               "[{\"id\":\"other\",\"names\":[\"no\"]},7,{\"names\":[\"db\"],\"id\":\"" ID64
               "\"}]");
    CHECK(t, container_names(&p, root, &n));
    CHECK_STR(t, n.name, "db");
    snprintf(command, sizeof(command), "rm -r %s", root);
    CHECK_INT(t, system(command), 0);
}

static void put_pair(struct buf *out, uint32_t field, const char *key, const char *v)
{
    size_t pair = pb_begin(out, field);
    pb_put_bytes(out, 1, bytes_of(key));
    size_t any = pb_begin(out, 2);
    pb_put_bytes(out, 1, bytes_of(v));
    pb_end(out, any);
    pb_end(out, pair);
}

static void a_process_context_tells_attributes_and_keys_of_threads(struct test *t)
{
    static struct identity_thread_schema schema;
    struct buf b = {0};
    struct known k;

    size_t resource = pb_begin(&b, 1);
    put_pair(&b, 1, "service.name", "ctx");
    put_pair(&b, 1, "process.pid", "1");
    size_t pair = pb_begin(&b, 1);
    pb_put_bytes(&b, 1, BYTES("answer"));
    size_t any = pb_begin(&b, 2);
    pb_put_u64(&b, 3, 42);
    pb_end(&b, any);
    pb_end(&b, pair);
    pb_end(&b, resource);
    put_pair(&b, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
    pair = pb_begin(&b, 2);
    pb_put_bytes(&b, 1, BYTES("threadlocal.attribute_key_map"));
    any = pb_begin(&b, 2);
    size_t list = pb_begin(&b, 5);
    static const char *const keys[] = {"http.route", "user.id"};
    for (int i = 0; i < 2; i++) {
        size_t one = pb_begin(&b, 1);
        pb_put_bytes(&b, 1, bytes_of(keys[i]));
        pb_end(&b, one);
    }
    pb_end(&b, list);
    pb_end(&b, any);
    pb_end(&b, pair);

    struct given g = {.exe = "/bin/x", .context = buf_bytes(&b)};
    know(t, &g, &k);
    CHECK_STR(t, value(&k, "service.name"), "ctx");
    CHECK_STR(t, value(&k, "answer"), "42");
    CHECK_STR(t, value(&k, "process.pid"), "");
    struct bytes attrs = BYTES("\x01\x02me\x07\x01x\x00\x03/ab\x00\x01\xff\x00\x09cut");
    struct bytes key, of;
    uint32_t at = 0;
    CHECK(t, identity_sample_attribute(k.found, attrs, &at, &key, &of));
    CHECK(t, bytes_are(key, "user.id") && bytes_are(of, "me"));
    CHECK(t, identity_sample_attribute(k.found, attrs, &at, &key, &of));
    CHECK(t, bytes_are(key, "http.route") && bytes_are(of, "/ab"));
    CHECK(t, !identity_sample_attribute(k.found, attrs, &at, &key, &of));
    CHECK_STR(t, value(&k, "threadlocal.schema_version"), "");
    CHECK_INT(t, identity_threads(k.found), IDENTITY_THREADS_TLS);
    CHECK(t, identity_misses_key(k.found, attrs));
    CHECK(t, !identity_misses_key(k.found, BYTES("\x01\x02me\x00\x01x")));
    CHECK(t, !identity_misses_key(k.found, BYTES("\x01\x02me\x07")));
    forget(&k);
    identity_context_threads(buf_bytes(&b), &schema);
    CHECK(t, bytes_are(schema.version, "tlsdesc_v1_dev"));
    CHECK_INT(t, schema.n_keys, 2);
    CHECK(t, bytes_are(schema.keys[1], "user.id"));
    /* Cut anywhere, it is read as far as it goes. */
    for (size_t n = 0; n < b.len; n++) {
        identity_context_threads((struct bytes){b.data, n}, &schema);
        CHECK(t, schema.n_keys <= 2);
    }
    buf_done(&b);
}

static const struct test_case cases[] = {
    TEST(services_are_named_in_the_stated_order),
    TEST(containers_name_services),
    TEST(interpreters_are_named_by_what_they_run),
    TEST(command_line_and_environment_stay_here_unless_allowed),
    TEST(what_we_see_wins_over_what_is_claimed),
    TEST(one_fault_makes_all_claims_void),
    TEST(hostile_texts_are_made_sound),
    TEST(versions_and_builds_are_found),
    TEST(the_library_that_is_the_runtime_tells_its_version),
    TEST(filters_decide_who_is_wanted),
    TEST(types_are_added_by_rule),
    TEST(who_may_be_attached_to_is_named),
    TEST(labels_of_go_are_read_by_name),
    TEST(the_host_has_an_identity_of_its_own),
    TEST(globs_match_in_bounded_time),
    TEST(rules_use_all_that_they_match),
    TEST(wrong_configurations_are_refused_with_their_line),
    TEST(control_groups_of_all_runtimes_are_understood),
    TEST(deployments_are_told_by_their_pods),
    TEST(names_come_from_files_of_kubelet_and_runtimes),
    TEST(a_process_context_tells_attributes_and_keys_of_threads),
};
TEST_MAIN(cases)
