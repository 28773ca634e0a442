#include "preload/stack_memory.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/inside.h"

#define PAGES_AT_ONCE 64

bool memory_probe(uintptr_t at)
{
    int was = errno, r;

    /*
     * The kernel reads the new mask before it looks at what to do with it, which is nothing that
     * there is: so nothing changes. Programs in sandboxes are allowed this call; those that were
     * made to read memory they often are not.
     */
    syscall(SYS_rt_sigprocmask, ~0, at, NULL, 8);
    r = errno;
    errno = was;
    return r == EINVAL;
}

bool memory_probe_range(uintptr_t at, size_t n)
{
    uintptr_t page = at & ~(uintptr_t)(STACK_PAGE - 1);

    if (n == 0 || at + n < at)
        return false;
    for (; page < at + n; page += STACK_PAGE)
        if (!memory_probe(page))
            return false;
    return true;
}

static bool is_trusted(uintptr_t at)
{
    return at >= preload_thread.stack_low && at < preload_thread.stack_end;
}

bool stack_memory_is_own(uintptr_t at)
{
    enum { PAGES_MAX = 256 };
    struct preload_thread *t = &preload_thread;
    uintptr_t page = at & ~(uintptr_t)(STACK_PAGE - 1);

    if (at >= t->stack_end || page == 0)
        return false;
    if (page < t->stack_low) {
        if ((t->stack_low - page) / STACK_PAGE > PAGES_MAX ||
            !memory_probe_range(page, t->stack_low - page))
            return false;
        t->stack_low = page;
    }
    return true;
}

/* The first stack may have to grow, and can. It has this much for itself: the kernel keeps all else
 * away from it. */
#define FIRST_STACK (64u << 20)

bool stack_memory_has_room(uintptr_t frame, size_t n)
{
    struct preload_thread *t = &preload_thread;
    uintptr_t at = (frame - n) & ~(uintptr_t)7;

    if (is_trusted(at) ||
        (t->is_first && frame < t->stack_end && t->stack_end - frame < FIRST_STACK))
        return true;
    if (!memory_probe(at))
        return false;
    /* It is on the page of the frame, or the next. */
    if (is_trusted(frame))
        t->stack_low = at & ~(uintptr_t)(STACK_PAGE - 1);
    return true;
}

void stack_memory_begin(struct stack_memory *m, uintptr_t sp)
{
    m->start = sp & ~(uintptr_t)(STACK_PAGE - 1); /* we are running on it */
    m->end = is_trusted(sp) ? preload_thread.stack_end : m->start + STACK_PAGE;
    m->is_whole = true;
}

/* What was found readable now meets what is known to be: from now on it is known, too. */
static void learn(struct stack_memory *m)
{
    struct preload_thread *t = &preload_thread;

    if (!m->is_whole || m->end < t->stack_low || m->end >= t->stack_end)
        return;
    m->end = t->stack_end;
    if (m->start < t->stack_low)
        t->stack_low = m->start;
}

static bool grow(struct stack_memory *m, uintptr_t page)
{
    while (m->end <= page) {
        if (!memory_probe(m->end))
            return false;
        m->end += STACK_PAGE;
        learn(m);
    }
    return true;
}

bool stack_memory_reach(struct stack_memory *m, uintptr_t at)
{
    uintptr_t page = at & ~(uintptr_t)(STACK_PAGE - 1);

    if (at % 8 != 0 || page == 0 || page > UINTPTR_MAX - 2 * (uintptr_t)STACK_PAGE)
        return false;
    if (stack_memory_has(m, at))
        return true;
    if (page >= m->end && (page - m->end) / STACK_PAGE < PAGES_AT_ONCE)
        return grow(m, page);
    /* Another stack, or a very large frame. */
    m->is_whole = false;
    if (is_trusted(at)) {
        m->start = preload_thread.stack_low;
        m->end = preload_thread.stack_end;
        return true;
    }
    if (!memory_probe(page))
        return false;
    m->start = page;
    m->end = page + STACK_PAGE;
    return true;
}

bool stack_memory_read(void *ctx, uint64_t at, uint64_t *ret)
{
    struct stack_memory *m = ctx;

    if (!stack_memory_has(m, at) && !stack_memory_reach(m, at))
        return false;
    *ret = stack_word(at);
    return true;
}
