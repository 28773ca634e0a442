/* When the library comes and goes. */
#include <errno.h>
#include <pthread.h>

#include "preload/hooks_alloc.h"
#include "preload/inside.h"

/* Others' code may have run before: what it allocated has found the functions already, and maybe
 * made the segment. */
static __attribute__((constructor)) void library_starts(void)
{
    int error = errno;
    resolve_all();
    operators_start();
    struct preload_thread *t = &preload_thread;
    t->busy_at = (uintptr_t)__builtin_frame_address(0);
    t->busy++;
    segment_ensure();
    t->busy--;
    t->alloc_left = 0;
    t->alloc_rate = 0;
    /* The kernel tells children already; this is for kernels that cannot. */
    pthread_atfork(NULL, NULL, segment_forked);
    errno = error;
}

static __attribute__((destructor)) void library_ends(void)
{
    segment_over();
}
