#include "scrape/node_window.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "scrape/cdp.h"
#include "scrape/v8_turn.h"
#include "wire/json.h"

#define MESSAGE_MAX ((size_t)8 << 20)

/* `require` is there while this is evaluated, and not later. The call ends the conversation; it
 * works in the middle of a loop that never ends, as no timer would. */
#define CLOSE_INSPECTOR                                                                            \
    "{\"expression\":\"try{require('inspector').close()}catch(e){process._debugEnd()}\","          \
    "\"includeCommandLineAPI\":true,\"silent\":true,\"returnByValue\":true}"

/*
 * Node handles the signal twice: at once, in the middle of whatever runs, and when its event loop
 * comes around, which would open what we have closed by then. So the loop is waited for, twice: the
 * first time may be in the same round.
 */
#define AWAIT_LOOP                                                                                 \
    "{\"expression\":\"new Promise(r=>setImmediate(()=>setImmediate(r)))\","                       \
    "\"awaitPromise\":true,\"silent\":true,\"returnByValue\":true}"
#define LOOP_NS ((int64_t)2 * 1000000000)

#define ASK_PID "{\"expression\":\"process.pid\",\"silent\":true,\"returnByValue\":true}"

/* Our package leaves such marks in the programs that it is at work in. */
#define ASK_PACKAGE                                                                                \
    "{\"expression\":\"Object.getOwnPropertySymbols(globalThis)"                                   \
    ".filter(s=>String(s).startsWith('Symbol(vesta.node.')).length\","                             \
    "\"silent\":true,\"returnByValue\":true}"

/* ---- Whether it is the right one */

/* {"result": {"type": "number", "value": 4711}} */
static uint64_t read_number(struct bytes json)
{
    struct budget budget;
    uint64_t number = 0;

    budget_init(&budget, (size_t)1 << 20);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!bytes_are(key, "result")) {
            json_skip(r);
            continue;
        }
        json_enter_object(r);
        for (struct bytes inner; json_next_key(r, &inner);) {
            if (bytes_are(inner, "value") && json_peek(r) == JSON_NUMBER)
                number = json_get_u64(r);
            else
                json_skip(r);
        }
    }
    return json_failed(r) ? 0 : number;
}

static int ask_number(struct cdp *c, const char *params, uint64_t *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf answer = {0};
    int r = cdp_call(c, "Runtime.evaluate", params, &answer, err);

    if (r == 0)
        *ret = read_number(buf_bytes(&answer));
    return r;
}

static int check_pid(struct cdp *c, uint32_t pid, struct error *err)
{
    uint64_t theirs;
    int r = ask_number(c, ASK_PID, &theirs, err);

    if (r < 0)
        return r;
    if (theirs != pid)
        return error_set(err, -EXDEV, "the inspector is that of process %llu, not of %u",
                         (unsigned long long)theirs, pid);
    return 0;
}

static int check_package(struct cdp *c, struct error *err)
{
    uint64_t marks;
    int r = ask_number(c, ASK_PACKAGE, &marks, err);

    if (r < 0)
        return r;
    return marks ? error_set(err, -EALREADY, "the program profiles itself") : 0;
}

/* ---- The window */

static int begin_cpu(struct cdp *c, int64_t sampling_ns, struct error *err)
{
    char params[64];
    int r = cdp_call(c, "Profiler.enable", NULL, NULL, err);

    snprintf(params, sizeof(params), "{\"interval\":%lld}", (long long)(sampling_ns / 1000));
    if (r == 0)
        r = cdp_call(c, "Profiler.setSamplingInterval", params, NULL, err);
    if (r == 0)
        r = cdp_call(c, "Profiler.start", NULL, NULL, err);
    return r;
}

/* V8 has one profiler of allocations: where somebody else uses it, ours would end theirs. */
static int begin_heap(struct cdp *c, uint64_t bytes, bool *ret_begun, struct error *err)
{
    char params[64];
    int r = cdp_call(c, "HeapProfiler.getSamplingProfile", NULL, NULL, err);

    *ret_begun = r == -EREMOTEIO; /* there is none */
    if (r != -EREMOTEIO)
        return r;
    snprintf(params, sizeof(params), "{\"samplingInterval\":%llu}", (unsigned long long)bytes);
    return cdp_call(c, "HeapProfiler.startSampling", params, NULL, err);
}

struct taken {
    struct buf cpu, heap;
    int64_t start_ns, end_ns;
};

static int take_window(struct cdp *c, const struct node_window *w, struct taken *ret,
                       struct error *err)
{
    enum cdp_why why;
    bool takes_heap = false;
    /* Else a program that wants to end would wait for us; it says so from Node 12 on. */
    int r =
        cdp_call(c, "NodeRuntime.notifyWhenWaitingForDisconnect", "{\"enabled\":true}", NULL, err);

    if (r == 0 && w->takes_cpu)
        r = begin_cpu(c, w->sampling_ns, err);
    if (r == 0 && w->takes_heap)
        r = begin_heap(c, w->heap_bytes, &takes_heap, err);
    ret->start_ns = clock_wall_ns(clock_real());
    if (r == 0)
        r = cdp_wait(c, w->duration_ns, &why, err);
    ret->end_ns = clock_wall_ns(clock_real());
    if (ret->end_ns <= ret->start_ns)
        ret->end_ns = ret->start_ns + 1;
    if (r == 0 && w->takes_cpu)
        r = cdp_call(c, "Profiler.stop", NULL, &ret->cpu, err);
    if (r == 0 && takes_heap)
        r = cdp_call(c, "HeapProfiler.stopSampling", NULL, &ret->heap, err);
    return r;
}

static void close_inspector(struct cdp *c, struct node_window_result *ret)
{
    /* Who is ending lets go of everything as soon as we do. */
    if (cdp_is_ending(c)) {
        ret->is_closed = true;
        return;
    }
    int r = cdp_call_for(c, LOOP_NS, "Runtime.evaluate", AWAIT_LOOP, NULL, NULL);
    ret->may_reopen = r == -ETIMEDOUT;
    if (cdp_is_ending(c))
        ret->is_closed = true;
    else
        ret->is_closed = cdp_call_last(c, "Runtime.evaluate", CLOSE_INSPECTOR, NULL) == 0;
}

static int send_profiles(const struct node_window *w, const struct taken *taken, size_t *ret,
                         struct error *err)
{
    CLEANUP(buf_done) struct buf otlp = {0};
    struct v8_turn_input in = {.cpu = buf_bytes(&taken->cpu),
                               .heap = buf_bytes(&taken->heap),
                               .sampling_ns = w->sampling_ns,
                               .heap_bytes = w->heap_bytes,
                               .attributes = w->attributes,
                               .mask = w->mask,
                               .start_ns = taken->start_ns,
                               .end_ns = taken->end_ns,
                               .memory_max = w->memory_max};
    int r = v8_turn(&in, &otlp, ret, err);

    if (r == 0 && otlp.len > 0)
        w->profiles(w->arg, buf_bytes(&otlp));
    return r;
}

int node_window_run(const struct node_window *w, struct node_window_result *ret, struct error *err)
{
    struct cdp_options o = {.fd = w->fd, .stop_fd = w->stop_fd, .message_max = MESSAGE_MAX};
    bool takes_any = w->takes_cpu || w->takes_heap;
    struct taken taken = {0};
    struct cdp *c = NULL;

    *ret = (struct node_window_result){0};
    int r = cdp_open(&o, &c, err);
    if (r < 0)
        return r;
    ret->is_inspector = true;
    r = check_pid(c, w->pid, err);
    if (r == 0 && takes_any)
        r = check_package(c, err);
    ret->is_own = r == -EALREADY;
    if (r == 0 && takes_any)
        r = take_window(c, w, &taken, err);
    if (r != -EXDEV)
        close_inspector(c, ret);
    cdp_free(c); /* before the rest: the port is open for as short as can be */
    if (r == 0 && takes_any)
        r = send_profiles(w, &taken, &ret->n_samples, err);
    buf_done(&taken.cpu);
    buf_done(&taken.heap);
    return r;
}
