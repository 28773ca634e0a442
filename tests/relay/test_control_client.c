#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "net/http_server.h"
#include "relay/agent_id.h"
#include "relay/control_client.h"

#define SECOND ((int64_t)1000000000)
#define MS     ((int64_t)1000000)

/* ---- what the rest of the relay would do */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[4096], logged[4096];
static unsigned n_told, n_logged;
static const char *token;

void relay_tell(struct relay_child *c, enum relay_kind kind, struct bytes data)
{
    (void)c;
    pthread_mutex_lock(&lock);
    if (kind == RELAY_DIRECTIVE) {
        snprintf(told, sizeof(told), "%.*s", (int)data.len, (const char *)data.data);
        n_told++;
    }
    pthread_mutex_unlock(&lock);
}

void relay_log(const struct relay_child *c, enum relay_level level, const char *fmt, ...)
{
    (void)c;
    (void)level;
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&lock);
    vsnprintf(logged, sizeof(logged), fmt, args);
    n_logged++;
    pthread_mutex_unlock(&lock);
    va_end(args);
}

int relay_authorization(const struct relay_child *c, struct buf *ret, struct error *err)
{
    (void)err;
    (void)c;
    if (token)
        buf_addf(ret, "Bearer %s", token);
    return token != NULL;
}

/* ---- a server of a test's own */

struct world {
    struct http_server *server;
    struct relay_child child;
    struct control_client *client;
    char url[64], seen[32][1024]; /* "POST /path?query auth\nbody" */
    unsigned n_seen;
    /* What it does. */
    bool forgets, is_other_product, is_closed;
    int status; /* of all answers; 0: 200 */
    char directive[512];
    uint64_t number;
    unsigned n_heartbeats, n_polls;
};

static void reply(struct http_exchange *x, int status, const char *body)
{
    struct http_reply r = {.status = status};
    buf_add_str(&r.body, body);
    if (status == 503)
        http_reply_header(&r, "retry-after", BYTES("1"));
    http_reply_send(x, &r);
}

struct held {
    struct world *w;
    struct http_exchange *x;
    uint64_t after;
    int64_t until;
};

/* A long poll. */
static void *hold(void *arg)
{
    struct held *h = arg;
    char body[600];
    for (;;) {
        pthread_mutex_lock(&lock);
        bool is_over = h->w->number != h->after || h->w->is_closed ||
                       clock_monotonic_ns(clock_real()) >= h->until || h->x->cancelled;
        snprintf(body, sizeof(body), "{\"directive\":%s}", h->w->directive);
        pthread_mutex_unlock(&lock);
        if (is_over)
            break;
        poll(NULL, 0, 5);
    }
    reply(h->x, 200, body);
    free(h);
    return NULL;
}

static void on_request(void *ctx, struct http_exchange *x)
{
    struct world *w = ctx;
    struct bytes auth = http_header_value(&x->request, "authorization"), text;
    struct buf scratch = {0};
    bool is_heartbeat = bytes_are(x->request.path, "/api/v1/agents/heartbeat");
    char body[600];
    uint64_t after = 0;
    int64_t wait = 0;

    pthread_mutex_lock(&lock);
    snprintf(w->seen[w->n_seen++ % 32], 1024, "%.*s %.*s?%.*s %.*s\n%.*s",
             (int)x->request.method.len, (const char *)x->request.method.data,
             (int)x->request.path.len, (const char *)x->request.path.data,
             (int)x->request.query.len, (const char *)x->request.query.data, (int)auth.len,
             (const char *)auth.data, (int)x->request.body.len, (const char *)x->request.body.data);
    snprintf(body, sizeof(body), "{\"directive\":%s}", w->directive);
    int status = w->is_other_product ? 404 : w->status;
    if (is_heartbeat) {
        w->n_heartbeats++;
        w->forgets = false;
    } else {
        w->n_polls++;
        if (w->forgets)
            status = 404;
    }
    pthread_mutex_unlock(&lock);

    if (http_query_value(x->request.query, "after", &scratch, &text))
        (void)bytes_to_u64(text, &after);
    if (http_query_value(x->request.query, "wait", &scratch, &text))
        (void)bytes_to_duration(text, &wait);
    buf_done(&scratch);
    if (status != 0 || is_heartbeat) {
        reply(x, status ? status : 200, status ? "{\"error\":\"no\"}" : body);
        return;
    }
    struct held *h = malloc(sizeof(*h));
    *h = (struct held){w, x, after, clock_monotonic_ns(clock_real()) + wait};
    pthread_t thread;
    pthread_create(&thread, NULL, hold, h);
    pthread_detach(thread);
}

static int on_head(void *ctx, struct http_exchange *x, struct http_reply *refusal)
{
    (void)ctx;
    (void)x;
    (void)refusal;
    return 0;
}

static void on_done(void *ctx, struct http_exchange *x, int status, uint64_t sent)
{
    (void)ctx;
    (void)x;
    (void)status;
    (void)sent;
}

static void on_refuse(void *ctx, struct http_exchange *x, int status, struct http_reply *refusal)
{
    (void)ctx;
    (void)x;
    (void)status;
    (void)refusal;
}

static void direct(struct world *w, uint64_t number, const char *more)
{
    pthread_mutex_lock(&lock);
    w->number = number;
    snprintf(w->directive, sizeof(w->directive), "{\"number\":%llu,%s}", (unsigned long long)number,
             more);
    pthread_mutex_unlock(&lock);
}

static void serve(struct world *w, const char *address)
{
    struct http_listen listen = {.address = address};
    struct error err;
    if (http_server_start(
            &(struct http_server_options){.service = {on_head, on_request, on_refuse, on_done, w},
                                          .listens = &listen,
                                          .n_listens = 1,
                                          .loops = 1},
            &w->server, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    snprintf(w->url, sizeof(w->url), "http://%s", http_server_address(w->server, 0));
}

static void world_init(struct world *w)
{
    *w = (struct world){0};
    told[0] = logged[0] = '\0';
    n_told = n_logged = 0;
    token = NULL;
    direct(w, 0, "\"mode\":\"normal\"");
    serve(w, "127.0.0.1:0");
}

static void start_client(struct world *w)
{
    struct error err;
    int r = control_client_start(&w->child,
                                 &(struct control_options){.server = w->url,
                                                           .id = "host 1&x",
                                                           .heartbeat_ns = 600 * MS,
                                                           .gap_ns = 100 * MS,
                                                           .retry_ns = 20 * MS,
                                                           .retry_max_ns = 200 * MS,
                                                           .deaf_ns = 500 * MS},
                                 &w->client, &err);
    if (r < 0)
        exit(1);
}

static void say_status(struct world *w, const char *json)
{
    control_client_message(w->client, RELAY_STATUS, bytes_of(json));
}

static void world_done(struct world *w)
{
    pthread_mutex_lock(&lock);
    w->is_closed = true;
    pthread_mutex_unlock(&lock);
    if (w->client)
        control_client_stop(w->client);
    http_server_free(w->server);
}

#define UNTIL(t, condition)                                                                        \
    do {                                                                                           \
        bool is_so_ = false;                                                                       \
        for (int i_ = 0; i_ < 1000 && !is_so_; i_++) {                                             \
            pthread_mutex_lock(&lock);                                                             \
            is_so_ = (condition);                                                                  \
            pthread_mutex_unlock(&lock);                                                           \
            if (!is_so_)                                                                           \
                poll(NULL, 0, 10);                                                                 \
        }                                                                                          \
        if (!is_so_)                                                                               \
            printf("# %s:%d: never: %s\n", __FILE__, __LINE__, #condition);                        \
        (t)->failures += !is_so_;                                                                  \
    } while (0)

#define STATUS                                                                                     \
    "{\"mode\":\"normal\",\"rate\":19,\"samples\":123,\"lost\":4,"                                 \
    "\"types\":[\"cpu\",\"wall\",\"\"],\"cost\":{\"cpu_percent\":0.5,\"bpf_ns\":3,"                \
    "\"memory_bytes\":1024},"                                                                      \
    "\"services\":[\"checkout\",\"bad\\u0001\",\"\"],\"processes\":[{\"pid\":1}]}"

static void it_announces_itself_and_waits_for_directives(struct test *t)
{
    struct world w;
    world_init(&w);
    token = "secret";
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, w.n_polls > 0);
    CHECK(t, strstr(w.seen[0], "POST /api/v1/agents/heartbeat? Bearer secret\n{"));
    CHECK(t, strstr(w.seen[0], "\"id\":\"host 1&x\",\"kind\":\"agent\",\"version\":\"" VESTA_VERSION
                               "\",\"host\":\""));
    CHECK(t, strstr(w.seen[0], "\"services\":[\"checkout\"],\"mode\":\"normal\",\"rate\":19,"
                               "\"samples\":123,\"lost\":4,\"types\":[\"cpu\",\"wall\"],"
                               "\"cpu_percent\":0.5,\"memory_bytes\":1024,\"time_ns\":\"1"));
    CHECK(t, strstr(w.seen[1], "GET /api/v1/agents/directive?id=host%201%26x&after=0&wait="));
    CHECK(t, strstr(logged, "host 1&x takes directives from http://127.0.0.1:"));
    CHECK_STR(t, told, "{\"number\":0,\"mode\":\"normal\",\"types\":[],\"reason\":\"\"}");
    UNTIL(t, w.n_heartbeats >= 3); /* every so often */
    world_done(&w);
}

static void a_directive_reaches_the_agent_at_once_with_how_long_it_lasts(struct test *t)
{
    struct world w;
    world_init(&w);
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, w.n_polls > 0);
    int64_t begin = clock_monotonic_ns(clock_real());
    char until[64], more[256];
    time_t in_a_minute = time(NULL) + 60;
    struct tm tm;
    gmtime_r(&in_a_minute, &tm);
    strftime(until, sizeof(until), "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(more, sizeof(more),
             "\"mode\":\"burst\",\"rate\":199,\"types\":[\"cpu\"],\"until\":\"%s\","
             "\"reason\":\"because\"",
             until);
    direct(&w, 7, more);
    UNTIL(t, strstr(told, "\"number\":7,\"mode\":\"burst\",\"rate\":199,\"types\":[\"cpu\"]"));
    CHECK(t, clock_monotonic_ns(clock_real()) - begin < SECOND);
    const char *lasts = strstr(told, "\"lasts\":");
    CHECK(t, lasts && atof(lasts + 8) > 55 && atof(lasts + 8) <= 61);
    CHECK(t, strstr(told, "\"reason\":\"because\""));
    direct(&w, 8, "\"mode\":\"low\"");
    UNTIL(t, strstr(told, "\"number\":8,\"mode\":\"low\""));
    world_done(&w);
}

static void a_change_of_what_the_agent_does_is_told_soon(struct test *t)
{
    struct world w;
    world_init(&w);
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, w.n_polls > 0);
    CHECK_INT(t, w.n_heartbeats, 1);
    say_status(&w, "{\"mode\":\"low\",\"rate\":5,\"samples\":124,\"lost\":4,\"services\":[]}");
    UNTIL(t, w.n_heartbeats == 2);
    bool is_told = false;
    for (unsigned i = 0; i < w.n_seen; i++)
        is_told |= strstr(w.seen[i], "\"mode\":\"low\",\"rate\":5") != NULL;
    CHECK(t, is_told);
    world_done(&w);
}

static void the_servers_password_is_shown_to_nobody(struct test *t)
{
    struct world w;
    world_init(&w);
    char url[sizeof(w.url)];
    snprintf(url, sizeof(url), "http://me:secret@%.32s", w.url + strlen("http://"));
    memcpy(w.url, url, sizeof(url));
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, n_logged == 1);
    CHECK(t, strstr(logged, "takes directives from http://127.0.0.1:"));
    struct buf json = {0};
    control_part.status(w.client, &json);
    CHECK(t, strstr(buf_cstr(&json), "\"server\":\"http://127.0.0.1:"));
    CHECK(t, !strstr(buf_cstr(&json), "secret"));
    buf_done(&json);
    world_done(&w);
}

static void a_server_that_has_forgotten_it_is_told_again(struct test *t)
{
    struct world w;
    world_init(&w);
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, w.n_polls > 0);
    pthread_mutex_lock(&lock);
    w.forgets = true;
    unsigned before = w.n_heartbeats;
    pthread_mutex_unlock(&lock);
    direct(&w, 3, "\"mode\":\"off\""); /* ends the poll, and the next one is refused */
    UNTIL(t, w.n_heartbeats > before && !w.forgets);
    UNTIL(t, strstr(told, "\"number\":3,\"mode\":\"off\""));
    CHECK_INT(t, n_logged, 1); /* nothing to tell people */
    world_done(&w);
}

static void a_server_that_is_down_is_tried_again_and_again(struct test *t)
{
    struct world w;
    world_init(&w);
    char address[64];
    snprintf(address, sizeof(address), "%s", http_server_address(w.server, 0));
    http_server_free(w.server);
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, n_logged == 1);
    CHECK(t, strstr(logged, "no directives for now: could not connect to"));
    poll(NULL, 0, 300);
    CHECK_INT(t, n_logged, 1); /* said once */
    CHECK_INT(t, n_told, 0);
    serve(&w, address);
    UNTIL(t, n_told > 0);
    CHECK(t, strstr(logged, "takes directives from"));
    struct buf json = {0};
    control_part.status(w.client, &json);
    CHECK(t, strstr(buf_cstr(&json), "\"answers\":true"));
    CHECK(t, !strstr(buf_cstr(&json), "trouble"));
    buf_done(&json);
    world_done(&w);
}

static void refusals_are_told_once_and_not_repeated_quickly(struct test *t)
{
    static const struct {
        int status;
        bool is_other_product;
        const char *text;
    } rows[] = {
        {401, false, "answered 401 Unauthorized: no"},
        {503, false, "answered 503 Service Unavailable: no"},
        {0, true, "answered 404 Not Found: no"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        world_init(&w);
        w.status = rows[i].status;
        w.is_other_product = rows[i].is_other_product;
        start_client(&w);
        say_status(&w, STATUS);
        UNTIL(t, n_logged == 1);
        if (!strstr(logged, rows[i].text))
            CHECK_STR(t, logged, rows[i].text);
        pthread_mutex_lock(&lock);
        unsigned n = w.n_heartbeats;
        pthread_mutex_unlock(&lock);
        poll(NULL, 0, 150);
        CHECK_INT(t, n_logged, 1);
        CHECK_INT(t, w.n_heartbeats, n);
        CHECK_INT(t, w.n_polls, 0);
        struct buf json = {0}, text = {0};
        control_part.status(w.client, &json);
        CHECK(t, strstr(buf_cstr(&json), "\"answers\":false,\"trouble\":\"http://127.0.0.1:"));
        control_part.metrics(w.client, &text);
        CHECK(t, strstr(buf_cstr(&text), "vesta_agent_control_up 0\n"));
        buf_done(&json);
        buf_done(&text);
        world_done(&w);
    }
}

static void answers_that_make_no_sense_are_failures(struct test *t)
{
    struct world w;
    world_init(&w);
    snprintf(w.directive, sizeof(w.directive), "[\"x\"]");
    start_client(&w);
    say_status(&w, STATUS);
    UNTIL(t, n_logged == 1);
    CHECK(t, strstr(logged, "no directives for now: directive at byte"));
    CHECK_INT(t, n_told, 0);
    direct(&w, 1, "\"mode\":\"off\"");
    UNTIL(t, n_told > 0);
    world_done(&w);
}

static void a_server_that_accepts_and_says_nothing_does_not_hold_up_the_end(struct test *t)
{
    struct world w;
    world_init(&w);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    CHECK_INT(t, bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(t, listen(fd, 5), 0);
    getsockname(fd, (struct sockaddr *)&a, &len);
    snprintf(w.url, sizeof(w.url), "http://127.0.0.1:%d", ntohs(a.sin_port));
    start_client(&w);
    say_status(&w, STATUS);
    poll(NULL, 0, 100);
    int64_t begin = clock_monotonic_ns(clock_real());
    world_done(&w);
    CHECK(t, clock_monotonic_ns(clock_real()) - begin < SECOND);
    close(fd);
}

static void status_that_is_no_json_is_ignored(struct test *t)
{
    struct world w;
    world_init(&w);
    start_client(&w);
    say_status(&w, "{\"mode\":");
    say_status(&w, "");
    control_client_message(w.client, RELAY_METRICS, BYTES("x"));
    UNTIL(t, w.n_polls > 0); /* it goes without, after a while */
    CHECK(t, strstr(w.seen[0], "\"services\":[],\"mode\":\"normal\""));
    world_done(&w);
}

/* ---- who it is */

static void the_id_is_kept_in_the_state_folder(struct test *t)
{
    struct scratch dir;
    struct error err;
    char a[AGENT_ID_MAX], b[AGENT_ID_MAX];
    scratch_init(&dir);
    CHECK_INT(t, agent_id_find("", dir.path, a, &err), 0);
    CHECK(t, strlen(a) > 17);
    CHECK_INT(t, agent_id_find("", dir.path, b, &err), 0);
    CHECK_STR(t, b, a);
    CHECK_INT(t, agent_id_find("mine", dir.path, b, &err), 0);
    CHECK_STR(t, b, "mine");

    remove(scratch_name(&dir, "agent-id"));
    CHECK_INT(t, agent_id_find("", dir.path, b, &err), 0);
    CHECK(t, strcmp(a, b) != 0);
    scratch_done(&dir);
}

static void without_a_folder_the_id_follows_from_the_machine(struct test *t)
{
    struct error err = {""};
    char a[AGENT_ID_MAX], b[AGENT_ID_MAX];
    int r = agent_id_find("", "/nowhere/at/all", a, &err);
    CHECK_INT(t, agent_id_find("", "/nowhere/at/all", b, &err), r);
    if (r == 0)
        CHECK_STR(t, a, b);
    else
        CHECK(t, strstr(err.text, "could not write \"/nowhere/at/all/agent-id\""));
    CHECK(t, a[0] != '\0');
    CHECK_INT(t, agent_id_find("", "", b, &err), r == 0 ? 0 : -ENOENT);
}

static void a_damaged_id_is_not_used(struct test *t)
{
    struct scratch dir;
    struct error err;
    char id[AGENT_ID_MAX];
    scratch_init(&dir);
    FILE *f = fopen(scratch_name(&dir, "agent-id"), "w");
    fputs("a b\x01\n", f);
    fclose(f);
    (void)agent_id_find("", dir.path, id, &err);
    CHECK(t, id[0] && !strchr(id, ' '));
    scratch_done(&dir);
}

static const struct test_case cases[] = {
    TEST(it_announces_itself_and_waits_for_directives),
    TEST(a_directive_reaches_the_agent_at_once_with_how_long_it_lasts),
    TEST(a_change_of_what_the_agent_does_is_told_soon),
    TEST(the_servers_password_is_shown_to_nobody),
    TEST(a_server_that_has_forgotten_it_is_told_again),
    TEST(a_server_that_is_down_is_tried_again_and_again),
    TEST(refusals_are_told_once_and_not_repeated_quickly),
    TEST(answers_that_make_no_sense_are_failures),
    TEST(a_server_that_accepts_and_says_nothing_does_not_hold_up_the_end),
    TEST(status_that_is_no_json_is_ignored),
    TEST(the_id_is_kept_in_the_state_folder),
    TEST(without_a_folder_the_id_follows_from_the_machine),
    TEST(a_damaged_id_is_not_used),
};
TEST_MAIN(cases)
