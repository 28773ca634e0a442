#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Who held a lock, and where it was taken: a small table of acquisitions that had to wait, which
 * are those of locks that hurt. Newer ones replace older ones. No locks; an entry that is being
 * written is passed over.
 */

/* This thread took it just now. Called before it can give it back. */
void holder_remember(const void *lock, uint32_t tid, uint32_t stack, uint64_t at_ns);

/* Where `owner`, who has the lock, was last seen taking it; 0: not known. When it took it again
 * since, without waiting, that was not noticed. */
uint32_t holder_stack(const void *lock, uint32_t owner);

/*
 * Where the lock was taken by whom a thread waited for longest; 0: not known. `first` is the stack
 * of who had it when the wait began. That, or who took it last before the wait ended: others
 * between them are not remembered.
 */
uint32_t holder_stack_since(const void *lock, uint32_t first, uint64_t since_ns, uint64_t until_ns);

/* The thread that holds it now, or writes; 0 if that cannot be told. musl does not tell for mutexes
 * of the default kind and for writers, and nobody tells who reads. */
uint32_t holder_of_mutex(const pthread_mutex_t *m);
uint32_t holder_of_rwlock(const pthread_rwlock_t *l);

/* Whether a mutex is one of the common kinds, whose trylock does what lock does when it is free. */
static inline bool holder_is_plain(const pthread_mutex_t *m)
{
#ifdef __GLIBC__
    enum { ROBUST = 16, INHERIT = 32, PROTECT = 64 };
    return !(__atomic_load_n(&m->__data.__kind, __ATOMIC_RELAXED) & (ROBUST | INHERIT | PROTECT));
#else
    (void)m;
    return true;
#endif
}

/* Of the other kinds: whether another thread has it. */
bool holder_is_other(const pthread_mutex_t *m);
