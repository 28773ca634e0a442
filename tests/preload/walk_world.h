#pragma once

/* What the walker needs of the rest of the library, and what tests of it share. Included once. */
#include <dlfcn.h>
#include <unwind.h>

#include "lib/test.h"
#include "preload/inside.h"
#include "preload/walk_shapes.h"

__thread struct preload_thread preload_thread;

#define TOLD_MAX 64
static struct told {
    struct preload_module m;
    char path[512];
} told[TOLD_MAX];
static uint32_t n_told;

uint32_t segment_text(enum preload_text_kind kind, const void *data, size_t n, uint16_t flags)
{
    (void)kind, (void)data, (void)n, (void)flags;
    return 1;
}

void segment_module(const struct preload_module *m, const char *path)
{
    if (n_told == TOLD_MAX)
        return;
    told[n_told].m = *m;
    snprintf(told[n_told].path, sizeof(told[0].path), "%s", path);
    n_told++;
}

/* A stack, as the walker has it and as libgcc does. */
struct two_stacks {
    uint64_t ours[PRELOAD_FRAMES_MAX], theirs[PRELOAD_FRAMES_MAX + 64];
    size_t n_ours, n_theirs;
    uint16_t flags;
    bool ours_only;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *c, void *ctx)
{
    struct two_stacks *s = ctx;

    if (s->n_theirs == sizeof(s->theirs) / sizeof(s->theirs[0]))
        return _URC_END_OF_STACK;
    s->theirs[s->n_theirs++] = _Unwind_GetIP(c);
    return _URC_NO_REASON;
}

/* A shape_fn. */
__attribute__((noinline, visibility("default"))) void take_stacks(void *ctx);
void take_stacks(void *ctx)
{
    struct two_stacks *s = ctx;

    s->n_ours = walk_addresses(s->ours, PRELOAD_FRAMES_MAX, &s->flags);
    s->n_theirs = 0;
    if (!s->ours_only)
        _Unwind_Backtrace(take_frame, s);
    __asm__ volatile("" ::: "memory");
}

static uint64_t plain(uint64_t address)
{
    return address & ~PRELOAD_EXACT;
}

/* The same but for the first, which are two calls of one function. */
static inline bool same_stacks(const struct two_stacks *s)
{
    size_t n = s->n_theirs;

    if (n > 0 && s->theirs[n - 1] == 0)
        n--;
    if (s->n_ours != n)
        return false;
    for (size_t i = 1; i < n; i++)
        if (plain(s->ours[i]) != s->theirs[i])
            return false;
    return true;
}

static inline void print_stacks(const struct two_stacks *s)
{
    for (size_t i = 0; i < s->n_ours || i < s->n_theirs; i++) {
        Dl_info d = {0};
        uint64_t a = i < s->n_ours ? s->ours[i] : 0, b = i < s->n_theirs ? s->theirs[i] : 0;
        dladdr((void *)(uintptr_t)(b ? b : plain(a)), &d);
        printf("# %16" PRIx64 " %16" PRIx64 " %s %s\n", a, b, d.dli_sname ? d.dli_sname : "?",
               d.dli_fname ? d.dli_fname : "?");
    }
}

/* The names of the frames up to main, without the first one, with spaces between. */
static inline const char *names_of(const struct two_stacks *s)
{
    static char text[4096];
    size_t at = 0;

    text[0] = 0;
    for (size_t i = 1; i < s->n_ours && at < sizeof(text) - 100; i++) {
        Dl_info d = {0};
        bool is_exact = s->ours[i] & PRELOAD_EXACT;
        dladdr((void *)(uintptr_t)(plain(s->ours[i]) - !is_exact), &d);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "",
                               d.dli_sname ? d.dli_sname : "?");
        if (d.dli_sname && strcmp(d.dli_sname, "main") == 0)
            break;
    }
    return text;
}

#define CHECK_SAME(t, s)                                                                           \
    do {                                                                                           \
        CHECK(t, same_stacks(s));                                                                  \
        if (!same_stacks(s))                                                                       \
            print_stacks(s);                                                                       \
    } while (0)
