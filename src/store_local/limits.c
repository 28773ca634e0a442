/* Whether something may be written now: the disk and the memory. */
#include <errno.h>
#include <inttypes.h>

#include "store_local/append.h"
#include "store_local/epoch.h"
#include "store_local/memtable.h"

#define MS_NS ((int64_t)1000000)

#define SPACE_CHECK_NS  (100 * MS_NS)
#define MEMORY_CHECK_NS (10 * MS_NS)
#define MEMORY_WAIT_MS  1000
#define RESERVE_MIN     ((uint64_t)64 << 20)

static int check_space(struct local *l, struct error *err)
{
    int64_t now = clock_monotonic_ns(l->clock);
    uint64_t room = 0, total = 0;
    char have[BUDGET_TEXT_MAX], want[BUDGET_TEXT_MAX];

    if (!l->is_full && l->space_checked_at != 0 && now - l->space_checked_at < SPACE_CHECK_NS)
        return 0;
    int r = fs_space(l->fs, &room, &total, err);
    if (r < 0)
        return r;
    l->space_checked_at = now ? now : 1;
    uint64_t reserve = l->options.disk_reserve;
    if (reserve == 0)
        reserve = total / 100 > RESERVE_MIN ? total / 100 : RESERVE_MIN;
    l->is_full = room < reserve;
    if (!l->is_full)
        return 0;
    return error_set(err, -ENOSPC,
                     "disk nearly full: %s free, and writes are refused below %s to keep the store "
                     "sound",
                     budget_text((size_t)room, have), budget_text((size_t)reserve, want));
}

/* Epochs are many: they are added up now and then, memtables every time. */
static size_t memory_used(struct local *l)
{
    int64_t now = clock_monotonic_ns(l->clock);

    if (l->memory_checked_at == 0 || now - l->memory_checked_at >= MEMORY_CHECK_NS) {
        l->memory_checked_at = now ? now : 1;
        l->memory_used = 0;
        for (size_t i = 0; i < l->epochs.len; i++)
            l->memory_used += epoch_bytes(l->epochs.data[i]);
    }
    return l->memory_used + memtable_bytes(l->head) + memtable_bytes(l->frozen) + l->source_bytes +
           local_cache_bytes(l);
}

static void want_flush(struct local *l)
{
    l->flush_wanted = true;
    pthread_cond_signal(&l->wake);
}

/* True when it was woken, false when the time is over. */
static bool wait_until(struct local *l, const struct timespec *end)
{
    return pthread_cond_timedwait(&l->committed, &l->lock, end) == 0;
}

static int check_memory(struct local *l, struct error *err)
{
    size_t limit = l->options.memory_limit, used = memory_used(l);
    char text[BUDGET_TEXT_MAX], used_text[BUDGET_TEXT_MAX];
    struct timespec end;

    if (memtable_bytes(l->head) > limit / 4 || used > limit / 8 * 7)
        want_flush(l);
    if (used <= limit)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += MEMORY_WAIT_MS / 1000;
    do {
        if (local_evict_epochs(l, used - limit) > 0)
            l->memory_checked_at = 0;
        used = memory_used(l);
        if (used <= limit)
            return 0;
        want_flush(l);
    } while (l->has_background && !l->is_dead && wait_until(l, &end));
    return error_set(err, -EAGAIN,
                     "memory limit of %s reached: %s are in use until a flush is done",
                     budget_text(limit, text), budget_text(used, used_text));
}

int local_may_write(struct local *l, struct error *err)
{
    if (l->options.read_only)
        return error_set(err, -EROFS, "the store is open for reading only");
    int r = check_memory(l, err);
    if (local_is_dead(l, NULL))
        return local_dead_error(l, err);
    if (r < 0)
        return r;
    r = check_space(l, err);
    if (r == 0 && l->is_unsettled) {
        want_flush(l);
        r = error_set(err, -EAGAIN, "what was recovered has not been written again yet");
    }
    return r;
}
