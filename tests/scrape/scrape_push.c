/*
 * Scraping alone, for tests: `scrape_push CONFIG URL` reads scrape_configs of a file (as the agent
 * does), and sends what comes of them to the OTLP address of a server, until it is killed or its
 * input ends. `status`, `metrics` and `local JSON` on a line of the input are answered on the
 * output, an empty line behind each answer.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/agent_config.h"
#include "net/http_client.h"
#include "scrape/scrape.h"

static char url[512];

static void push(void *arg, struct bytes otlp)
{
    CLEANUP(http_client_freep)
    struct http_client *client = http_client_new(&(struct http_client_options){.total_s = 10});
    const struct http_header type = {BYTES("content-type"), BYTES("application/x-protobuf")};
    const struct http_fetch f = {.url = url, .body = otlp, .headers = &type, .n_headers = 1};
    struct http_answer answer;
    struct error err = {""};
    struct budget budget;

    (void)arg;
    budget_init(&budget, 1 << 20);
    int r = http_fetch(client, &f, &budget, &answer, &err);
    if (r == 0) {
        if (answer.status != 200)
            (void)http_answer_error(&answer, url, &err);
        http_answer_done(&budget, &answer);
    }
    if (err.text[0])
        fprintf(stderr, "%s\n", err.text);
}

static void say(void *arg, int level, const char *text)
{
    (void)arg;
    fprintf(stderr, "%d %s\n", level, text);
}

static void answer_lines(struct scrape *s)
{
    static char line[65536];

    while (fgets(line, sizeof(line), stdin)) {
        CLEANUP(buf_done) struct buf out = {0};
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "status") == 0)
            scrape_status(s, &out);
        else if (strcmp(line, "metrics") == 0)
            scrape_metrics(s, &out);
        else if (strncmp(line, "local ", 6) == 0)
            scrape_set_local(s, bytes_of(line + 6));
        printf("%s\n\n", buf_cstr(&out));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    const char *args[] = {"--config", argc > 1 ? argv[1] : ""};
    const struct config_input in = {.args = args, .n_args = 2};
    struct scrape *s = NULL;
    struct error err = {""};

    if (argc != 3)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    snprintf(url, sizeof(url), "%s/v1development/profiles", argv[2]);
    int r = agent_config_load(&in, &config, &err);
    if (r == 0) {
        const struct agent_config *a = agent_config_of(config);
        r = scrape_start(&(struct scrape_options){.configs = a->scrape_configs,
                                                  .finds_local_go = a->scrape_local_go,
                                                  .resource = &a->resource,
                                                  .profiles = push,
                                                  .log = say},
                         &s, &err);
    }
    if (r < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    answer_lines(s);
    scrape_stop(s);
    return 0;
}
