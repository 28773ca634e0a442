#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Scoped ownership: a variable marked CLEANUP(fn) has fn(&variable) called when it leaves scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Defines fn##p, the CLEANUP handler of a destructor that accepts NULL. */
#define DEFINE_CLEANUP(type, fn)                                                                   \
    static inline void fn##p(type *p)                                                              \
    {                                                                                              \
        fn(*p);                                                                                    \
    }

/* Hands ownership on: yields p and leaves NULL (or -1) behind, so the CLEANUP does nothing. */
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void fclosep(FILE **f)
{
    if (*f)
        fclose(*f);
}
