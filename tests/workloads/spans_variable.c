/* The variable, in the program or in a library of its own. */
#include "spans.h"

__attribute__((visibility("default"))) __thread struct span_record *otel_thread_ctx_v1;

__attribute__((noinline)) void span_enter(struct span_record *record)
{
    otel_thread_ctx_v1 = record;
}
