#include "unwind/code_walk.h"

#define RETRIES_MAX 8
#define PLACES_SIZE (CODE_WALK_BYTES_MAX * sizeof(struct code_place))

bool code_is_sigreturn(struct bytes code)
{
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    _Static_assert(sizeof(sigreturn) == CODE_SIGRETURN_BYTES, "the length is that of the bytes");
    return bytes_start_with(code, (struct bytes){sigreturn, sizeof(sigreturn)});
}

bool code_walk_init(struct code_walk *w, struct budget *budget)
{
    void *places = NULL;

    *w = (struct code_walk){.budget = budget};
    if (!budget_resize(budget, &places, 0, PLACES_SIZE))
        return false;
    w->places = places;
    return true;
}

void code_walk_done(struct code_walk *w)
{
    if (!w->budget)
        return;
    vec_done(w->budget, &w->reached);
    vec_done(w->budget, &w->waiting);
    if (w->places)
        budget_free(w->budget, w->places, PLACES_SIZE);
    *w = (struct code_walk){0};
}

static bool decode(const struct code_walk *w, uint32_t at, struct x86_instruction *ret)
{
    return x86_decode(bytes_from(w->code, at), ret);
}

/* Marks the targets of calls and what addresses are taken of; padding too. */
static void find_starts(struct code_walk *w)
{
    struct x86_instruction i;

    for (uint32_t at = 0; at < w->code.len;) {
        if (!decode(w, at, &i)) {
            at++;
            continue;
        }
        uint32_t end = at + i.len;
        int64_t target = (int64_t)end + i.value;
        if ((i.kind == X86_CALL ||
             (i.kind == X86_CODE_ADDRESS && (w->va + (uint64_t)target) % 16 == 0)) &&
            target >= 0 && target < (int64_t)w->code.len)
            w->places[target].is_start = 1;
        if (code_is_sigreturn(bytes_from(w->code, at)))
            w->places[at].is_start = 1;
        if (i.kind == X86_NOP || w->code.data[at] == 0xcc || w->code.data[at] == 0)
            w->places[at].is_padding = 1;
        at = end;
    }
}

static bool is_same(const struct stack_frame_state *a, const struct stack_frame_state *b)
{
    return a->depth == b->depth && a->sp_is_lost == b->sp_is_lost && a->fp_at == b->fp_at;
}

static bool is_fresh(const struct stack_frame_state *s)
{
    return s->depth == 1 && s->fp_at == 0 && !s->sp_is_lost;
}

/* A way leads to `to` in this state: true when that was not reached yet. */
static bool reach(struct code_walk *w, int64_t to, const struct stack_frame_state *s)
{
    if (to < 0 || to >= (int64_t)w->code.len) {
        /* Leaves the piece: a call that does not come back here, or the end of what is seen. */
        w->n_tails += is_fresh(s);
        w->is_bad |= !is_fresh(s);
        return false;
    }
    struct code_place *p = &w->places[to];
    if (p->len > 0) {
        w->is_bad |= !is_same(&p->state, s);
        w->n_tails += p->is_good; /* the end is shared with a function before */
        return false;
    }
    if (!vec_push(w->budget, &w->reached, (uint32_t)to))
        return false;
    p->state = *s;
    p->len = 1; /* until it is decoded */
    w->furthest = to > w->furthest ? (uint32_t)to : w->furthest;
    return true;
}

/* A jump to where a function starts is a call that returns to this one's caller. */
static bool is_tail_call(struct code_walk *w, int64_t to, const struct stack_frame_state *s)
{
    return to >= 0 && to < (int64_t)w->code.len && w->places[to].is_start && is_fresh(s);
}

static void jump(struct code_walk *w, int64_t to, const struct stack_frame_state *s)
{
    if (!is_tail_call(w, to, s) && reach(w, to, s))
        vec_push(w->budget, &w->waiting, (uint32_t)to);
    else if (to >= 0 && to < (int64_t)w->code.len)
        w->n_tails += is_fresh(s);
}

static void call(struct code_walk *w, const struct stack_frame_state *s)
{
    w->n_calls++;
    w->is_bad |= !s->sp_is_lost && s->depth % 2 != 0;
}

/* Skips the padding at `at`; 0 when there is none. */
static uint32_t behind_padding(const struct code_walk *w, uint32_t at)
{
    uint32_t from = at;
    struct x86_instruction i;

    while (at < w->code.len && w->places[at].is_padding)
        at += decode(w, at, &i) ? i.len : 1;
    return at == from ? 0 : at;
}

/* What comes behind a call: nothing, when a function starts there. */
static bool call_returns(struct code_walk *w, uint32_t at)
{
    uint32_t next = behind_padding(w, at);

    if (at >= w->code.len || w->places[at].is_start)
        return false;
    next = next == 0 ? at : next;
    if ((w->va + next) % 16 != 0)
        return true;
    if (next >= w->code.len || w->places[next].is_start)
        return false;
    w->doubtful = next;
    return true;
}

/* One instruction. True when the way goes on behind it. */
static bool follow(struct code_walk *w, uint32_t end, const struct x86_instruction *i,
                   struct stack_frame_state *s)
{
    int64_t target = (int64_t)end + i->value;

    switch (i->kind) {
    case X86_JUMP:
        jump(w, target, s);
        return false;
    case X86_BRANCH:
        jump(w, target, s);
        return true;
    case X86_JUMP_AWAY:
        if (!is_fresh(s)) {
            w->has_table = true;
            w->at_table = *s;
            /* The first case mostly comes behind it. */
            if (end < w->code.len && end >= w->furthest)
                w->furthest = end + 1;
        }
        w->n_tails += is_fresh(s) && (w->n_calls > 0 || w->is_called);
        return false;
    case X86_JUMP_SLOT:
        w->n_tails++;
        return false;
    case X86_CALL:
    case X86_CALL_AWAY:
        call(w, s);
        return call_returns(w, end);
    case X86_RETURN:
        w->n_returns++;
        w->is_bad |= s->depth != 1 || s->sp_is_lost;
        return false;
    case X86_STOP:
        return false;
    default:
        return stack_frame_apply(s, i) || (w->is_bad = true, false);
    }
}

/* From one place until the way ends or joins another. */
static void follow_way(struct code_walk *w, uint32_t at)
{
    struct stack_frame_state s = w->places[at].state;
    struct x86_instruction i;

    for (;;) {
        if (!decode(w, at, &i)) {
            w->is_bad = true;
            return;
        }
        w->places[at].len = i.len & 15u;
        at += i.len;
        if (!follow(w, at, &i, &s) || w->is_bad)
            return;
        /* Running into the next function is no way to go on. */
        if (at >= w->code.len || w->places[at].is_start) {
            w->is_bad = true;
            return;
        }
        if (!reach(w, at, &s))
            return;
    }
}

static bool adds_up(const struct code_walk *w)
{
    return !w->is_bad && (w->n_returns > 0 || w->n_tails > 0 || w->n_calls > 0);
}

static void forget_reached(struct code_walk *w)
{
    for (size_t i = 0; i < w->reached.len; i++)
        w->places[w->reached.data[i]].len = 0;
}

static void follow_waiting(struct code_walk *w)
{
    while (w->waiting.len > 0 && !w->is_bad)
        follow_way(w, w->waiting.data[--w->waiting.len]);
}

/* What a function did not reach in its midst, and jumps by table lead to. */
static void follow_tables(struct code_walk *w, uint32_t start)
{
    for (uint32_t at = start; at < w->furthest && !w->is_bad && !budget_failed(w->budget);) {
        const struct code_place *p = &w->places[at];
        if (p->len > 0) {
            at += p->len;
        } else if (p->is_padding) {
            at = behind_padding(w, at);
        } else {
            if (p->is_start || !reach(w, at, &w->at_table))
                return;
            follow_way(w, at);
            follow_waiting(w);
        }
    }
}

static void walk_once(struct code_walk *w, uint32_t start)
{
    const struct stack_frame_state fresh = STACK_FRAME_START;

    w->is_bad = false;
    w->n_returns = w->n_tails = w->n_calls = 0;
    w->is_called = w->places[start].is_start;
    w->doubtful = w->furthest = 0;
    w->has_table = false;
    vec_clear(&w->reached);
    vec_clear(&w->waiting);
    if (!reach(w, start, &fresh))
        return;
    follow_way(w, start);
    follow_waiting(w);
    if (w->has_table)
        follow_tables(w, start);
}

/* The bytes up to the next function or the end. */
static uint32_t next_start(const struct code_walk *w, uint32_t at)
{
    while (at < w->code.len && !w->places[at].is_start)
        at++;
    return at;
}

/* Perhaps calls before padding do not return: tries it with the last of them first. */
static void retry(struct code_walk *w, uint32_t start)
{
    uint32_t tried[RETRIES_MAX];
    size_t n = 0;

    while (w->is_bad && w->doubtful > start && n < RETRIES_MAX) {
        forget_reached(w);
        w->places[w->doubtful].is_start = 1;
        tried[n++] = w->doubtful;
        walk_once(w, start);
    }
    for (size_t i = 0; i < n && w->is_bad; i++)
        w->places[tried[i]].is_start = 0;
}

/* Walks the function at `start`; returns where to look for the next one. */
static uint32_t walk_function(struct code_walk *w, uint32_t start)
{
    walk_once(w, start);
    retry(w, start);
    w->last_start = start;
    if (!adds_up(w)) {
        forget_reached(w);
        uint32_t end = next_start(w, start + 1);
        /* Where the program starts, sp need not add up. */
        w->n_bad += w->va + start == w->entry ? 0 : end - start;
        return end;
    }
    for (size_t i = 0; i < w->reached.len; i++) {
        struct code_place *p = &w->places[w->reached.data[i]];
        p->is_good = 1;
        w->n_good += p->len;
    }
    return start;
}

void code_walk_run(struct code_walk *w, struct bytes code, uint64_t va, uint64_t entry)
{
    w->code = bytes_head(code, CODE_WALK_BYTES_MAX);
    w->va = va;
    w->entry = entry;
    w->n_good = w->n_bad = 0;
    w->last_start = 0;
    memset(w->places, 0, w->code.len * sizeof(*w->places));
    find_starts(w);
    if (entry >= va && entry - va < w->code.len)
        w->places[entry - va].is_start = 1;
    for (uint32_t at = 0; at < w->code.len;) {
        const struct code_place *p = &w->places[at];
        if (p->is_good)
            at += p->len;
        else if (p->is_padding && !p->is_start)
            at = behind_padding(w, at);
        else
            at = walk_function(w, at);
    }
}
