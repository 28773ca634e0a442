#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process_table.h"
#include "host/parse.h"
#include "host/worker.h"

/*
 * Where the threads of a process say which span they are in (docs/context.md): found from what its
 * files say, and, where the dynamic linker chose the place, from words in its memory. What those
 * words are is the process's word: a wrong one makes the probe read what is not there.
 */

/* A search: while n_words is not 0, that many words at address `at` must be read to go on. Then
 * place.kind tells whether it was found. */
struct thread_context_search {
    struct thread_context_place place;
    uint64_t at;
    uint32_t n_words; /* at most 2 */
    uint16_t machine;
    uint8_t model;     /* enum parse_tls */
    bool is_not_ready; /* it is there, but the linker has not come so far */
};

/* By the TLS variable of a file that is mapped with this bias. */
void thread_context_of_file(const struct parse_facts *f, uint64_t bias, bool is_program,
                            bool is_musl, struct thread_context_search *ret);
/* Goes on with the words. */
void thread_context_words(struct thread_context_search *s, const uint64_t *words);

/* By labels of goroutines; kind is THREAD_CONTEXT_NONE for versions that are too old. */
struct thread_context_place thread_context_of_go(const struct parse_facts *f);

/* Looks for it and tells the table, now or later. `p` is known, its files are. */
void thread_context_find(struct process_table *t, struct worker *inspector, struct process *p);
