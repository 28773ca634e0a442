#include "base/budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

struct budget_kept {
    struct budget_kept *next;
    void *block;
    size_t size;
};

const char *budget_text(size_t n, char text[BUDGET_TEXT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)n;
    size_t u = 0;

    while (v >= 1024 && u + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1024;
        u++;
    }
    snprintf(text, BUDGET_TEXT_MAX, v < 10 && u > 0 ? "%.1f %s" : "%.0f %s", v, units[u]);
    return text;
}

int budget_error(const struct budget *b, struct error *err)
{
    char limit[BUDGET_TEXT_MAX], asked[BUDGET_TEXT_MAX], used[BUDGET_TEXT_MAX];

    return error_set(err, -ENOBUFS, "memory limit of %s reached: %s in use and %s more needed",
                     budget_text(b->limit, limit), budget_text(b->asked ? b->stood : b->used, used),
                     budget_text(b->asked, asked));
}

static void keep(struct budget_keep *k, void *block, size_t size)
{
    struct budget_kept *kept = must_calloc(1, sizeof(*kept));
    *kept = (struct budget_kept){.next = k->first, .block = block, .size = size};
    k->first = kept;
    k->bytes += size;
}

/* A block that readers may have: it never moves, and never shrinks in place for the same reason. */
static bool resize_kept(struct budget *b, void **p, size_t old_size, size_t new_size)
{
    if (new_size <= old_size) {
        budget_give(b, old_size - new_size);
        return true;
    }
    if (!budget_take(b, new_size))
        return false;
    void *bigger = malloc(new_size);
    if (!bigger) {
        budget_give(b, new_size);
        budget_fail(b, new_size);
        return false;
    }
    memcpy(bigger, *p, old_size);
    keep(b->keep, *p, old_size);
    *p = bigger;
    return true;
}

bool budget_resize(struct budget *b, void **p, size_t old_size, size_t new_size)
{
    if (b->keep && *p)
        return resize_kept(b, p, old_size, new_size);
    if (new_size > old_size && !budget_take(b, new_size - old_size))
        return false;
    void *moved = realloc(*p, new_size ? new_size : 1);
    if (!moved) {
        if (new_size > old_size) {
            budget_give(b, new_size - old_size);
            budget_fail(b, new_size - old_size);
        }
        return false;
    }
    if (new_size < old_size)
        budget_give(b, old_size - new_size);
    *p = moved;
    return true;
}

void budget_free(struct budget *b, void *p, size_t size)
{
    if (p && b->keep)
        keep(b->keep, p, size);
    else
        budget_drop(b, p, size);
}

void budget_drop(struct budget *b, void *p, size_t size)
{
    if (!p)
        return;
    free(p);
    budget_give(b, size);
}

void budget_reclaim(struct budget *b)
{
    struct budget_kept *kept = b->keep ? b->keep->first : NULL;

    if (!kept)
        return;
    *b->keep = (struct budget_keep){0};
    for (struct budget_kept *next; kept; kept = next) {
        next = kept->next;
        budget_drop(b, kept->block, kept->size);
        free(kept);
    }
}
