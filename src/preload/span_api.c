#include <errno.h>
#include <string.h>
#include <vesta/vesta.h>

#include "preload/process_context.h"
#include "preload/thread_record.h"

__thread struct thread_record *otel_thread_ctx_v1;

static __thread struct thread_record own;
static __thread unsigned changes; /* that are under way: a signal handler's within a thread's */

/* A signal may come between any two of these, and read the record. */
#define FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static void change_begins(void)
{
    changes++;
    FENCE();
    own.valid = 0;
    FENCE();
}

/* A record that says nothing is not pointed to. One of another SDK is replaced only by something.
 */
static void change_ends(void)
{
    static const uint8_t none[sizeof(own.trace_id)];
    bool says_something =
        own.attrs_size > 0 || memcmp(own.trace_id, none, sizeof(own.trace_id)) != 0;

    FENCE();
    own.valid = changes == 1;
    FENCE();
    changes--;
    if (says_something)
        otel_thread_ctx_v1 = &own;
    else if (otel_thread_ctx_v1 == &own)
        otel_thread_ctx_v1 = NULL;
}

bool thread_record_is_ours(const struct thread_record *r)
{
    return r == &own;
}

void vesta_span_set(const uint8_t trace_id[16], const uint8_t span_id[8])
{
    change_begins();
    memcpy(own.trace_id, trace_id, sizeof(own.trace_id));
    memcpy(own.span_id, span_id, sizeof(own.span_id));
    change_ends();
}

void vesta_span_clear(void)
{
    change_begins();
    memset(own.trace_id, 0, sizeof(own.trace_id));
    memset(own.span_id, 0, sizeof(own.span_id));
    change_ends();
}

static void remove_label(int number)
{
    for (size_t i = 0; i < own.attrs_size;) {
        size_t size = 2u + own.attrs[i + 1];
        if (own.attrs[i] == number) {
            memmove(own.attrs + i, own.attrs + i + size, own.attrs_size - i - size);
            own.attrs_size = (uint16_t)(own.attrs_size - size);
            return;
        }
        i += size;
    }
}

/* How much of a value fits, without half a character of UTF-8 at its end. */
static size_t cut_value(const char *value)
{
    size_t n = strnlen(value, 256);

    if (n < 256)
        return n;
    for (n = 255; n > 252 && (value[n] & 0xc0) == 0x80;)
        n--;
    return n;
}

int vesta_label_set(const char *key, const char *value)
{
    size_t n = value ? cut_value(value) : 0;
    int kept = errno, r = 0;
    int number = key && key[0] ? context_key(key, strnlen(key, CONTEXT_KEY_SIZE_MAX + 1)) : -EINVAL;

    errno = kept;
    if (number < 0)
        return number;
    change_begins();
    remove_label(number);
    if (own.attrs_size + 2 + n <= sizeof(own.attrs)) {
        uint8_t *to = own.attrs + own.attrs_size;
        to[0] = (uint8_t)number;
        to[1] = (uint8_t)n;
        memcpy(to + 2, value ? value : "", n);
        own.attrs_size = (uint16_t)(own.attrs_size + 2 + n);
    } else {
        r = -ENOSPC;
    }
    change_ends();
    return r;
}

void vesta_label_clear(const char *key)
{
    int number = key ? context_key_known(key, strnlen(key, CONTEXT_KEY_SIZE_MAX + 1)) : -1;

    if (number < 0)
        return;
    change_begins();
    remove_label(number);
    change_ends();
}
