#include "host/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

struct identity_rules {
    const struct agent_config *config;
};

struct identity {
    char *service;
};

int identity_rules_new(const struct agent_config *c, struct identity_rules **ret, struct error *err)
{
    struct identity_rules *r = must_calloc(1, sizeof(*r));

    (void)err;
    r->config = c;
    *ret = r;
    return 0;
}

void identity_rules_free(struct identity_rules *r)
{
    free(r);
}

const char *const *identity_variables(const struct identity_rules *r)
{
    static const char *const names[] = {"OTEL_SERVICE_NAME", NULL};

    (void)r;
    return names;
}

uint32_t identity_all_kinds(const struct identity_rules *r)
{
    (void)r;
    return 0;
}

struct identity *identity_of_host(const struct identity_rules *r)
{
    (void)r;
    return must_calloc(1, sizeof(struct identity));
}

static struct bytes variable(struct bytes all, const char *name)
{
    size_t n = strlen(name);

    while (all.len > 0) {
        size_t len = strnlen((const char *)all.data, all.len);
        if (len > n && all.data[n] == '=' && memcmp(all.data, name, n) == 0)
            return (struct bytes){all.data + n + 1, len - n - 1};
        all = bytes_from(all, len < all.len ? len + 1 : len);
    }
    return (struct bytes){0};
}

struct identity *identity_new(const struct identity_rules *r, const struct inspect_process *p)
{
    struct identity *i = must_calloc(1, sizeof(*i));
    struct bytes name = variable(p->environ, "OTEL_SERVICE_NAME");

    (void)r;
    i->service = must_copy(name.len > 0 ? name : p->comm);
    return i;
}

void identity_add_facts(struct identity *i, const struct identity_rules *r,
                        const struct parse_facts *facts)
{
    (void)i;
    (void)r;
    (void)facts;
}

void identity_free(struct identity *i)
{
    if (i)
        free(i->service);
    free(i);
}

bool identity_is_wanted(const struct identity *i)
{
    (void)i;
    return true;
}

uint32_t identity_kinds(const struct identity *i)
{
    (void)i;
    return 0;
}

bool identity_attribute(const struct identity *i, size_t n, struct bytes *ret_key,
                        struct bytes *ret_value)
{
    if (n > 0 || !i->service)
        return false;
    *ret_key = bytes_of("service.name");
    *ret_value = bytes_of(i->service);
    return true;
}

bool identity_sample_attribute(const struct identity *i, struct bytes attrs, uint32_t *at,
                               struct bytes *ret_key, struct bytes *ret_value)
{
    (void)i;
    (void)attrs;
    (void)at;
    (void)ret_key;
    (void)ret_value;
    return false;
}
