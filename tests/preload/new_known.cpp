// All kinds of operator new and delete; says "allocated OBJECTS BYTES live OBJECTS BYTES". A
// library when made as one: then plugin_main() is the program.
#include <cstdio>
#include <cstdlib>
#include <new>

static std::size_t objects, bytes;
static volatile std::size_t too_much = static_cast<std::size_t>(1) << 62;

static void *counted(void *p, std::size_t n)
{
    if (!p)
        std::abort();
    objects++;
    bytes += n;
    return p;
}

static void one_of_each(std::size_t n)
{
    std::align_val_t line{64};
    operator delete(counted(operator new(n), n));
    operator delete(counted(operator new(n), n), n);
    operator delete[](counted(operator new[](n), n));
    operator delete[](counted(operator new[](n), n), n);
    operator delete(counted(operator new(n, std::nothrow), n), std::nothrow);
    operator delete[](counted(operator new[](n, std::nothrow), n), std::nothrow);
    operator delete(counted(operator new(n, line), n), line);
    operator delete(counted(operator new(n, line), n), n, line);
    operator delete[](counted(operator new[](n, line), n), line);
    operator delete[](counted(operator new[](n, line, std::nothrow), n), n, line);
    operator delete(counted(operator new(n, line, std::nothrow), n), line, std::nothrow);
    operator delete(static_cast<void *>(nullptr));
}

static bool throws()
{
    bool thrown = false;
    try {
        operator delete(operator new(too_much));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    return thrown && operator new(too_much, std::nothrow) == nullptr;
}

extern "C" int plugin_main()
{
    static void *kept[100];
    for (std::size_t i = 0; i < 4000; i++)
        one_of_each(i % 900);
    for (auto &p : kept)
        p = counted(operator new(5000), 5000);
    // mimalloc, when it is C, aborts: also without us.
    const char *allocator = std::getenv("TORTURE_ALLOCATOR");
    if (!(allocator && allocator[0] == 'm') && !throws())
        return 1;
    std::printf("allocated %zu %zu live 100 500000\n", objects, bytes);
    return 0;
}

#ifndef AS_PLUGIN
int main()
{
    return plugin_main();
}
#endif
