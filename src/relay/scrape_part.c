#include "relay/scrape_part.h"

#include "scrape/scrape.h"

#define PROFILE_MEMORY ((uint64_t)64 << 20)

/* Scraping as a part of the relay: what it reads is exported like what the agent made. */

static void profiles(void *arg, struct bytes otlp)
{
    relay_export(arg, otlp);
}

static void say(void *arg, int level, const char *text)
{
    relay_log(arg, (enum relay_level)level, "scrape: %s", text);
}

static int start(struct relay_child *c, void **ret, struct error *err)
{
    struct scrape_options o = {.configs = c->config->scrape_configs,
                               .finds_local_go = c->config->scrape_local_go,
                               .resource = &c->config->resource,
                               .profiles = profiles,
                               .log = say,
                               .arg = c,
                               .memory_max = PROFILE_MEMORY};
    struct scrape *s = NULL;

    if (!o.configs && !o.finds_local_go)
        return 0;
    int r = scrape_start(&o, &s, err);
    if (r == 0)
        *ret = s;
    return r;
}

static void message(void *part, enum relay_kind kind, struct bytes data, int fd)
{
    (void)fd;
    if (kind == RELAY_TARGETS)
        scrape_set_local(part, data);
}

static void stop(void *part)
{
    scrape_stop(part);
}

static void metrics(void *part, struct buf *text)
{
    scrape_metrics(part, text);
}

static void status(void *part, struct buf *json)
{
    buf_add_str(json, "\"scrape\":");
    scrape_status(part, json);
}

const struct relay_part scrape_part = {.name = "scraping",
                                       .start = start,
                                       .message = message,
                                       .stop = stop,
                                       .metrics = metrics,
                                       .status = status};
