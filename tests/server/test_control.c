#include <errno.h>

#include "lib/calls.h"
#include "server/control_state.h"

#define JSON "application/json"

static struct http_reply post(struct calls *c, const char *target, const char *body)
{
    return call_post(c, target, JSON, bytes_of(body));
}

static void an_agent_is_there_once_it_says_so(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = post(&c, "/api/v1/agents/heartbeat",
                               "{\"id\":\"a1\",\"kind\":\"agent\",\"version\":\"0.1.0\",\"host\":"
                               "\"h1\",\"services\":[\"shop\",\"cart\"],\"rate\":19,\"lost\":3}");
    CHECK_INT(t, r.status, 200);
    CHECK(t, reply_has(&r, "{\"directive\":{\"number\":0,\"mode\":\"normal\"}}"));
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/agents");
    CHECK(t, reply_has(&r, "\"id\":\"a1\""));
    CHECK(t, reply_has(&r, "\"services\":[\"shop\",\"cart\"]"));
    CHECK(t, reply_has(&r, "\"lost\":3"));
    http_reply_done(&r);
    calls_end(&c);
}

static void an_agent_tells_what_it_takes_and_its_clock(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = post(&c, "/api/v1/agents/heartbeat",
                               "{\"id\":\"a1\",\"types\":[\"cpu\",\"wall\"],\"cpu_percent\":0.25,"
                               "\"memory_bytes\":4096,\"time_ns\":\"1000000000\"}");
    CHECK_INT(t, r.status, 200);
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/agents");
    CHECK(t, reply_has(&r, "\"types\":[\"cpu\",\"wall\"]"));
    CHECK(t, reply_has(&r, "\"cpu_percent\":0.25,\"memory_bytes\":4096,\"skew_ns\":\"-1"));
    http_reply_done(&r);
    /* One that says nothing of it has none; what makes no sense is none either. */
    r = post(&c, "/api/v1/agents/heartbeat", "{\"id\":\"a1\",\"cpu_percent\":-1}");
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/agents");
    CHECK(t, !reply_has(&r, "cpu_percent"));
    CHECK(t, !reply_has(&r, "skew_ns"));
    http_reply_done(&r);
    calls_end(&c);
}

static void directives_that_hold_are_listed(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = post(&c, "/api/v1/agents/directive",
                               "{\"mode\":\"burst\",\"service\":\"shop\",\"duration\":\"1m\","
                               "\"types\":[\"cpu\"],\"reason\":\"a look\"}");
    CHECK_INT(t, r.status, 200);
    http_reply_done(&r);
    r = post(&c, "/api/v1/agents/directive",
             "{\"mode\":\"burst\",\"host\":\"h1\",\"duration\":\"1ns\"}");
    http_reply_done(&r);
    /* Nobody has to be there to be meant. The second one is over. */
    r = call_get(&c, "/api/v1/agents");
    CHECK(t, reply_has(&r, "{\"agents\":[],\"directives\":[{\"number\":1,\"mode\":\"burst\","
                           "\"types\":[\"cpu\"],\"until\":\""));
    CHECK(t,
          reply_has(&r, "\"reason\":\"a look\",\"agent\":\"\",\"service\":\"shop\",\"host\":\"\","
                        "\"issued\":\""));
    CHECK(t, !reply_has(&r, "h1"));
    http_reply_done(&r);
    calls_end(&c);
}

static void a_directive_reaches_those_it_means(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r =
        post(&c, "/api/v1/agents/heartbeat", "{\"id\":\"a1\",\"services\":[\"shop\"]}");
    http_reply_done(&r);
    r = post(&c, "/api/v1/agents/heartbeat", "{\"id\":\"a2\",\"services\":[\"mail\"]}");
    http_reply_done(&r);
    r = post(&c, "/api/v1/agents/directive",
             "{\"mode\":\"burst\",\"service\":\"shop\",\"rate\":199,\"duration\":\"60s\","
             "\"types\":[\"cpu\",\"wall\"],\"reason\":\"slo\"}");
    CHECK_INT(t, r.status, 200);
    CHECK(t, reply_has(&r, "\"number\":1"));
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/admin/audit");
    CHECK(t, reply_has(&r, "agents.direct"));
    CHECK(t, reply_has(&r, "service \\\"shop\\\""));
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/agents/directive?id=a1");
    CHECK(t, reply_has(&r, "\"mode\":\"burst\",\"rate\":199,\"types\":[\"cpu\",\"wall\"]"));
    http_reply_done(&r);
    r = call_get(&c, "/api/v1/agents/directive?id=a2&wait=10ms");
    CHECK(t, reply_has(&r, "{\"number\":0,\"mode\":\"normal\"}"));
    http_reply_done(&r);
    calls_end(&c);
}

static void bad_directives_change_nothing(struct test *t)
{
    static const struct {
        const char *body, *text;
    } cases[] = {
        {"{}", "needs a \\\"mode\\\""},
        {"{\"mode\":\"fast\"}", "off, low, normal or burst"},
        {"{\"mode\":\"burst\"}", "needs a \\\"duration\\\""},
        {"{\"mode\":\"low\",\"rate\":-1}", "must be 0 to 10000"},
        {"{\"mode\":\"low\",\"duration\":\"soon\"}", "60s, 5m, 1h"},
        {"{\"mode\":\"low\",\"sevrice\":\"x\"}", "unknown key \\\"sevrice\\\""},
        {"[", "directive at byte"},
    };
    struct calls c;
    calls_begin(t, &c);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http_reply r = post(&c, "/api/v1/agents/directive", cases[i].body);
        CHECK_INT(t, r.status, 400);
        CHECK(t, reply_has(&r, cases[i].text));
        if (!reply_has(&r, cases[i].text))
            printf("# %.*s\n", (int)r.body.len, r.body.data);
        http_reply_done(&r);
    }
    struct http_reply r = call_get(&c, "/api/v1/agents/directive?id=nobody");
    CHECK_INT(t, r.status, 404);
    http_reply_done(&r);
    calls_end(&c);
}

static void what_is_kept_has_a_bound(struct test *t)
{
    struct control_state *s = calloc(1, sizeof(*s));
    struct control_name id;
    char text[32];

    for (int i = 0; i < CONTROL_AGENTS_MAX + 10; i++) {
        snprintf(text, sizeof(text), "agent-%d", i);
        CHECK(t, control_name_set(&id, bytes_of(text)));
        control_agent_seen(s, BYTES("default"), &id, i);
    }
    CHECK_INT(t, s->n_agents, CONTROL_AGENTS_MAX);
    CHECK(t, control_agent_find(s, BYTES("default"), &id) != NULL);
    control_name_set(&id, BYTES("agent-3"));
    CHECK(t, control_agent_find(s, BYTES("default"), &id) == NULL);
    CHECK(t, control_agent_find(s, BYTES("other"), &id) == NULL);
    for (int i = 0; i <= CONTROL_DIRECTIVES_MAX; i++) {
        struct control_directive d = {.tenant = "default", .mode = MODE_LOW};
        struct error err = {""};
        snprintf(d.service.text, sizeof(d.service.text), "s%d", i);
        CHECK_INT(t, control_direct(s, &d, 0, &err), i < CONTROL_DIRECTIVES_MAX ? 0 : -EBUSY);
    }
    control_state_done(s);
    free(s);
}

static void the_newest_directive_holds_until_it_is_over(struct test *t)
{
    struct control_state *s = calloc(1, sizeof(*s));
    struct control_name id = {"a"};
    struct control_agent *a = control_agent_seen(s, BYTES("default"), &id, 0);
    struct control_directive low = {.tenant = "default", .mode = MODE_LOW};
    struct control_directive burst = {
        .tenant = "default", .mode = MODE_BURST, .agent = {"a"}, .until_ns = 100};
    struct control_directive foreign = {.tenant = "other", .mode = MODE_OFF};

    CHECK_INT(t, control_direct(s, &low, 0, NULL), 0);
    CHECK_INT(t, control_direct(s, &burst, 0, NULL), 0);
    CHECK_INT(t, control_direct(s, &foreign, 0, NULL), 0);
    CHECK_INT(t, control_effective(s, a, 50)->mode, MODE_BURST);
    CHECK_INT(t, control_effective(s, a, 100)->mode, MODE_LOW);
    control_state_done(s);
    free(s);
}

static const struct test_case cases[] = {
    TEST(an_agent_is_there_once_it_says_so),
    TEST(an_agent_tells_what_it_takes_and_its_clock),
    TEST(directives_that_hold_are_listed),
    TEST(a_directive_reaches_those_it_means),
    TEST(bad_directives_change_nothing),
    TEST(what_is_kept_has_a_bound),
    TEST(the_newest_directive_holds_until_it_is_over),
};
TEST_MAIN(cases)
