#include <string.h>

#include "preload/context_find.h"
#include "preload/inside.h"
#include "preload/process_context.h"
#include "preload/thread_record.h"

/* All labels of a sample. This is on the stack of whoever allocates, so it is small. */
#define LABELS_MAX 1024

static size_t key_name(const struct thread_record *from, unsigned number, char to[256])
{
    const char *name;
    size_t n;

    if (!thread_record_is_ours(from))
        return context_find_key(number, to);
    if (!context_key_name(number, &name, &n))
        return 0;
    memcpy(to, name, n);
    return n;
}

/* Whether a later one has the same key: the last counts. */
static bool is_repeated(const uint8_t *attrs, size_t at, size_t size)
{
    for (size_t i = at + 2u + attrs[at + 1]; i + 2 <= size; i += 2u + attrs[i + 1]) {
        if (attrs[i] == attrs[at] && i + 2u + attrs[i + 1] <= size)
            return true;
    }
    return false;
}

/* Names in place of numbers. Keys without a name are left out, and what does not fit. */
static uint32_t labels_of(const struct thread_record *from)
{
    uint8_t labels[LABELS_MAX];
    char name[256];
    size_t size = from->attrs_size, used = 0;

    if (size > sizeof(from->attrs))
        size = sizeof(from->attrs);
    for (size_t i = 0; i + 2 <= size;) {
        const uint8_t *entry = from->attrs + i;
        size_t value_n = entry[1];
        if (i + 2 + value_n > size)
            break;
        size_t name_n = is_repeated(from->attrs, i, size) ? 0 : key_name(from, entry[0], name);
        i += 2 + value_n;
        if (name_n == 0 || used + 2 + name_n + value_n > sizeof(labels))
            continue;
        labels[used] = (uint8_t)name_n;
        labels[used + 1] = (uint8_t)value_n;
        memcpy(labels + used + 2, name, name_n);
        memcpy(labels + used + 2 + name_n, entry + 2, value_n);
        used += 2 + name_n + value_n;
    }
    return used ? segment_text(PRELOAD_TEXT_LABELS, labels, used, 0) : 0;
}

void span_fill(struct preload_record *r)
{
    static const uint8_t none[sizeof(r->trace_id)];
    const struct thread_record *from = otel_thread_ctx_v1;

    if (!from || from->valid != 1)
        return;
    if (memcmp(from->trace_id, none, sizeof(r->trace_id)) != 0 &&
        memcmp(from->span_id, none, sizeof(r->span_id)) != 0) {
        memcpy(r->trace_id, from->trace_id, sizeof(r->trace_id));
        memcpy(r->span_id, from->span_id, sizeof(r->span_id));
    }
    if (from->attrs_size > 0)
        r->labels = labels_of(from);
}
