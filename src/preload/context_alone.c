#include <dlfcn.h>
#include <vesta/vesta.h>

/*
 * libvesta-context without the preloaded library: there is nothing to sample with. When that
 * library is there its own functions come before these; but not before those of an archive, which
 * are the program's own. So these look for it, once.
 */

static void (*preload_sample)(const char *, uint64_t);
static void (*preload_set)(bool);
static bool has_looked;

static void look(void)
{
    if (__atomic_load_n(&has_looked, __ATOMIC_ACQUIRE))
        return;
    void *sample = dlsym(RTLD_DEFAULT, "vesta_preload_sample");
    void *set = dlsym(RTLD_DEFAULT, "vesta_preload_set");
    __atomic_store_n((void **)&preload_sample, sample, __ATOMIC_RELAXED);
    __atomic_store_n((void **)&preload_set, set, __ATOMIC_RELAXED);
    __atomic_store_n(&has_looked, true, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void at_start(void)
{
    look();
}

/* A jump, so that the sample is its caller's. */
void vesta_sample(const char *name, uint64_t value)
{
    look();
    if (preload_sample)
        preload_sample(name, value);
}

void vesta_profiling_set(bool is_on)
{
    look();
    if (preload_set)
        preload_set(is_on);
}
