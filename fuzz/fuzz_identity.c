/*
 * A process that says anything about itself, its parts set apart by byte 0x1e: program, command
 * line, environment, control groups, process context, pod, attributes of a sample. Its attributes
 * have sound keys that come once, values that are UTF-8 without control characters, and a service.
 *
 * Links: host.
 */
#include "config/agent_config.h"
#include "fuzz.h"
#include "host/container.h"
#include "host/identity.h"
#include "wire/utf8.h"

static const char config_text[] =
    "include: ['service:*a*', '/usr/*', 'cgroup:*.service', 'uid:0']\n"
    "type_rules: ['wall: service:s*']\n"
    "privacy: {env: [A, B=b.name], cmdline: true}\n"
    "resource: [deployment.environment.name=prod]\n"
    "rules:\n"
    "  - match: {exe: '([a-z]+)$', cmdline: '--([a-z]+)=(\\S+)'}\n"
    "    set: {service.name: '$1-${cmdline.2}', x.y: '$0$$'}\n"
    "  - match: {env.A: '(.*)', cgroup: '(pod)?'}\n"
    "    set: {a: '$1', service.name: '${cgroup.1}'}\n";

static struct identity_rules *rules(void)
{
    static struct identity_rules *made;
    static struct config *c;

    if (!made) {
        struct config_input in = {.text = BYTES(config_text)};
        REQUIRE(agent_config_load(&in, &c, NULL) == 0);
        REQUIRE(identity_rules_new(agent_config_of(c), &made, NULL) == 0);
    }
    return made;
}

static struct bytes next_part(struct bytes *rest, size_t max)
{
    const uint8_t *end = bytes_find_byte(*rest, 0x1e);
    struct bytes part = bytes_head(*rest, end ? (size_t)(end - rest->data) : rest->len);

    *rest = bytes_from(*rest, part.len + 1);
    return bytes_head(part, max);
}

static void check(const struct identity *i)
{
    struct bytes key, value, other, ignored;
    size_t n;

    for (n = 0; identity_attribute(i, n, &key, &value); n++) {
        REQUIRE(key.len > 0 && key.len <= IDENTITY_KEY_MAX);
        REQUIRE(value.len > 0 && value.len <= IDENTITY_VALUE_MAX);
        REQUIRE(utf8_sound(value) == value.len && utf8_sound(key) == key.len);
        for (size_t k = 0; k < value.len; k++)
            REQUIRE(value.data[k] >= ' ' && value.data[k] != 0x7f);
        for (size_t k = 0; k < n; k++) {
            REQUIRE(identity_attribute(i, k, &other, &ignored));
            REQUIRE(!bytes_equal(other, key));
        }
    }
    REQUIRE(n <= IDENTITY_ATTRIBUTES_MAX);
    REQUIRE(identity_value(i, "service.name").len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes rest = {data, len}, key, value;
    struct inspect_process p = {.pid = 7, .comm = BYTES("comm")};
    struct parse_facts facts = {.is_go = len % 2, .go_version = "go1.22", .runtime = "go"};
    struct container_place place;
    uint32_t at = 0;

    p.exe = next_part(&rest, 4095);
    p.cmdline = next_part(&rest, 4096);
    p.environ = next_part(&rest, INSPECT_ENVIRON_MAX);
    p.cgroup = next_part(&rest, 8192);
    p.context = next_part(&rest, INSPECT_CONTEXT_MAX);
    p.pod = next_part(&rest, 255);
    p.pod_container = p.container_name = p.pod;
    struct bytes attrs = next_part(&rest, 512);

    container_place(p.cgroup, &place);
    REQUIRE(strlen(place.id) < sizeof(place.id) && !strchr(place.id, '/'));
    struct identity *i = identity_new(rules(), &p);
    check(i);
    identity_add_facts(i, rules(), &facts);
    check(i);
    while (identity_sample_attribute(i, attrs, &at, &key, &value))
        REQUIRE(at <= attrs.len && key.len > 0 && utf8_sound(value) == value.len);
    identity_free(i);
    return 0;
}
