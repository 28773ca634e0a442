#include "server/tenant_limits.h"

#include "base/must.h"

struct tenant_limits {
    struct tenant_limit_values defaults;
    const struct clock *clock;
};

static struct tenant_limit_values of_config(const struct server_config *config)
{
    return (struct tenant_limit_values){
        .bytes_per_s = config->tenant_bytes_per_s,
        .profiles_per_s = config->tenant_profiles_per_s,
        .series_max = config->tenant_series_max,
        .queries_max = config->tenant_queries_max,
    };
}

struct tenant_limits *tenant_limits_new(const struct server_config *config,
                                        const struct clock *clock)
{
    struct tenant_limits *l = must_calloc(1, sizeof(*l));

    l->defaults = of_config(config);
    l->clock = clock;
    return l;
}

void tenant_limits_free(struct tenant_limits *l)
{
    free(l);
}

int tenant_limits_reload(struct tenant_limits *l, const struct server_config *config,
                         struct catalog *catalog, struct error *err)
{
    (void)catalog;
    (void)err;
    l->defaults = of_config(config);
    return 0;
}

struct tenant_limit_values tenant_limits_of(struct tenant_limits *l, struct bytes tenant)
{
    (void)tenant;
    return l->defaults;
}

int limits_take_ingest(struct tenant_limits *l, struct bytes tenant, uint64_t bytes,
                       uint64_t profiles, int64_t *ret_retry_after_ms, struct error *err)
{
    (void)l;
    (void)tenant;
    (void)bytes;
    (void)profiles;
    (void)ret_retry_after_ms;
    (void)err;
    return 0;
}

int limits_begin_query(struct tenant_limits *l, struct bytes tenant, struct error *err)
{
    (void)l;
    (void)tenant;
    (void)err;
    return 0;
}

void limits_end_query(struct tenant_limits *l, struct bytes tenant)
{
    (void)l;
    (void)tenant;
}
