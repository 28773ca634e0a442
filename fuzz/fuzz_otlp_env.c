/* Variables and addresses of any kind: settings are made or refused, and what is made is sound. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "fuzz.h"
#include "net/url.h"
#include "relay/otlp_env.h"

#define LINES 12

static void check(const struct export_settings *s)
{
    struct url u;

    for (size_t i = 0; i < s->n_targets; i++) {
        REQUIRE(s->targets[i].name[0] != '\0');
        REQUIRE(s->targets[i].kind == EXPORT_FILE || url_parse(s->targets[i].url, &u, NULL) == 0);
    }
    REQUIRE(!s->server || url_parse(s->server, &u, NULL) == 0);
    for (size_t i = 0; i < s->n_headers; i++)
        for (size_t j = 0; j < s->headers[i].value.len; j++)
            REQUIRE(s->headers[i].value.data[j] >= 0x20 || s->headers[i].value.data[j] == '\t');
    REQUIRE(s->timeout_ns > 0);
}

/* A line each: the first ones are variables, the last three an exporter, a header and a server. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(freep) char *text = must_copy((struct bytes){data, len});
    const char *env[LINES + 1] = {0};
    struct agent_config config = {0};
    struct export_settings s;
    size_t n = 0;

    for (char *rest = text, *line; n < LINES && (line = strsep(&rest, "\n"));)
        env[n++] = line;
    if (n > 3 && env[n - 1][0]) {
        config.server = env[n - 1];
        config.headers.items[config.headers.n++] = env[n - 2];
        config.exporters.items[config.exporters.n++] = env[n - 3];
    }
    if (export_settings_make(&config, env, &s, NULL) == 0) {
        check(&s);
        export_settings_done(&s);
    }
    return 0;
}
