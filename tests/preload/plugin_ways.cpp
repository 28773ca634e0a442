// Plugins that are hard on whoever stands before operator new; which one is said when it is made.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <semaphore.h>

static int *volatile kept;

#ifdef STARTS_THREAD
// It is loaded when a thread of it has allocated: the dynamic linker's lock is held meanwhile.
static sem_t ready;

static void *allocates(void *)
{
    kept = new int(1);
    sem_post(&ready);
    return nullptr;
}

__attribute__((constructor)) static void starts()
{
    pthread_t thread;
    sem_init(&ready, 0, 0);
    if (pthread_create(&thread, nullptr, allocates, nullptr) == 0)
        sem_wait(&ready);
}
#endif

#ifdef HAS_POOL
// Some of the operators are its own; what is not from here is not to come back here.
static char pool[1 << 16];
static std::size_t used;

void *operator new(std::size_t n)
{
    void *p = pool + used;
    used += (n + 15) & ~static_cast<std::size_t>(15);
    return p;
}

void operator delete(void *p) noexcept
{
    if (static_cast<char *>(p) < pool || static_cast<char *>(p) >= pool + sizeof(pool))
        std::abort();
}

void operator delete(void *p, std::size_t) noexcept
{
    operator delete(p);
}
#endif

#ifdef HAS_POOL
// Needs no runtime, so none is seen by others.
extern "C" int plugin_main()
{
    kept = new int(3);
    delete kept;
    return setenv("HAS_POOL", "1", 1);
}
#else
static bool throws()
{
    volatile std::size_t much = static_cast<std::size_t>(1) << 62;
    try {
        kept = static_cast<int *>(operator new(much));
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

extern "C" int plugin_main()
{
    kept = new int(3);
    delete kept;
    kept = new (std::nothrow) int(4);
    delete kept;
    return std::getenv("HAS_POOL") || throws() ? 0 : 1;
}
#endif
