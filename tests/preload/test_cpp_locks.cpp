// The locks of C++ are pthread's underneath; and vesta.h is C++ as well.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vesta/vesta.h>

#include "preload/own_ring.h"

__attribute__((constructor)) static void begin()
{
    own_ring_restart("lock,threads,custom", "1");
}

static std::mutex mutex;
static std::shared_mutex shared;
static std::timed_mutex timed;
static std::condition_variable condition;
static bool is_told;

extern "C" {
PLACE void cpp_waits_mutex()
{
    std::lock_guard<std::mutex> lock(mutex);
}
PLACE void cpp_waits_shared()
{
    std::shared_lock<std::shared_mutex> lock(shared);
}
PLACE void cpp_waits_unique()
{
    std::unique_lock<std::shared_mutex> lock(shared);
}
PLACE void cpp_waits_timed()
{
    if (timed.try_lock_for(std::chrono::seconds(10)))
        timed.unlock();
}
PLACE void cpp_waits_condition()
{
    std::unique_lock<std::mutex> lock(mutex);
    condition.wait_for(lock, std::chrono::seconds(10), [] { return is_told; });
}
}

static int failures, number;

static void check(const char *name, bool is_right)
{
    printf("%s %d - %s\n", is_right ? "ok" : "not ok", ++number, name);
    failures += !is_right;
}

static bool was_recorded(const char *name, int what)
{
    uint64_t at = 0;

    while (const preload_record *r = own_ring_next(&at, PRELOAD_LOCK))
        if (r->what == what && r->value > 5000000 && own_stack_has(r->stack, name))
            return true;
    return false;
}

template <typename Hold, typename Let> static void wait(void (*place)(), Hold hold, Let let)
{
    own_ring_forget();
    hold();
    std::atomic<bool> is_there{false}; // on a busy machine threads come late
    std::thread waiter([&] {
        is_there = true;
        place();
    });
    while (!is_there)
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    let();
    waiter.join();
}

int main()
{
    printf("1..7\n");
    wait(
        cpp_waits_mutex, [] { mutex.lock(); }, [] { mutex.unlock(); });
    check("std::mutex", was_recorded("cpp_waits_mutex", PRELOAD_WHAT_MUTEX));
    wait(
        cpp_waits_shared, [] { shared.lock(); }, [] { shared.unlock(); });
    check("std::shared_mutex, shared", was_recorded("cpp_waits_shared", PRELOAD_WHAT_READ_LOCK));
    wait(
        cpp_waits_unique, [] { shared.lock_shared(); }, [] { shared.unlock_shared(); });
    check("std::shared_mutex", was_recorded("cpp_waits_unique", PRELOAD_WHAT_WRITE_LOCK));
    wait(
        cpp_waits_timed, [] { timed.lock(); }, [] { timed.unlock(); });
    check("std::timed_mutex", was_recorded("cpp_waits_timed", PRELOAD_WHAT_MUTEX));
    wait(
        cpp_waits_condition, [] {},
        [] {
            std::lock_guard<std::mutex> lock(mutex);
            is_told = true;
            condition.notify_all();
        });
    check("std::condition_variable", was_recorded("cpp_waits_condition", PRELOAD_WHAT_CONDITION));

    uint64_t at = 0;
    check("std::thread", own_ring_next(&at, PRELOAD_THREAD) != nullptr);

    const uint8_t trace[16] = {1}, span[8] = {2};
    vesta_span_set(trace, span);
    vesta_sample("cpp/count", 9);
    vesta_span_clear();
    at = 0;
    const preload_record *r = own_ring_next(&at, PRELOAD_CUSTOM);
    check("vesta.h", r && r->value == 9 && memcmp(r->span_id, span, 8) == 0);
    return failures > 0;
}
