/*
 * Libraries that go: what was learned about the code that was there is forgotten. Those that come
 * are noticed as they are met.
 */
#include <dlfcn.h>

#include "preload/code_modules.h"
#include "preload/inside.h"

#ifdef __GLIBC__ /* musl's stay */

static int (*real_close)(void *);

__attribute__((constructor)) static void resolve_close(void)
{
    __atomic_store_n((void **)&real_close, resolve_next("dlclose", NULL), __ATOMIC_RELEASE);
}

__attribute__((visibility("default"))) int dlclose(void *library)
{
    if (!__atomic_load_n(&real_close, __ATOMIC_ACQUIRE))
        resolve_close();
    int r = real_close(library);
    modules_unloaded();
    return r;
}
#endif
