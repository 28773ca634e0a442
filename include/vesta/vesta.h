#ifndef VESTA_VESTA_H
#define VESTA_VESTA_H

/*
 * What a program can say about itself to profilers: which span each thread is in, labels, who the
 * process is, and samples of its own. C11 and C++; this header is the manual.
 *
 *     #include <vesta/vesta.h>
 *
 *     vesta_process_publish("shop", NULL, 0);
 *     ...
 *     vesta_span_set(trace_id, span_id);
 *     vesta_label_set("http.route", "/cart");
 *     handle(request);
 *     vesta_label_clear("http.route");
 *     vesta_span_clear();
 *
 * Link with -lvesta-context (libvesta-context.so or .a; it needs libc alone). The span and the
 * labels are published as OpenTelemetry says (OTEP 4947 for threads, OTEP 4719 for the process), so
 * vesta-agent and other profilers of the host link their samples to spans. No profiler is needed,
 * and none is slowed down: setting a span writes 24 bytes of this thread's memory.
 *
 * With libvesta-preload.so in the process (`vesta run -- CMD`) these very functions are the
 * library's: its samples of allocations, locks and threads carry span and labels, and
 * vesta_sample() has somewhere to go.
 *
 * With the archive, let the linker export the variable that profilers look for:
 *
 *     cc app.c -lvesta-context -Wl,--export-dynamic-symbol=otel_thread_ctx_v1
 *
 * Functions that return an int return 0, or a negative errno. None of them touches errno or ends
 * the program.
 */

#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VESTA_API __attribute__((visibility("default")))

/* ---- The thread that calls ---- */

/* It works for this span from now on. Ids are in the order of W3C's traceparent; a trace id of
 * zeros is no span. Async-signal-safe. */
VESTA_API void vesta_span_set(const uint8_t trace_id[16], const uint8_t span_id[8]);

/* It works for no span. Labels stay. Async-signal-safe. */
VESTA_API void vesta_span_clear(void);

/*
 * Gives it a label, in place of an earlier one of the same key. A value is cut to 255 bytes,
 * between characters. A process has at most 255 keys, of up to 127 bytes each: keys are kinds of
 * things
 * ("http.route"), never ids. The first use of a key publishes it, as vesta_process_publish(NULL,
 * NULL, 0) does when nothing was published before.
 *
 * -EINVAL: the key is empty or too long. -ENOSPC: too many keys, or more than 612 bytes of labels;
 * the key has no value then, rather than an old one.
 */
VESTA_API int vesta_label_set(const char *key, const char *value);

/* Takes it away; nothing happens when there is none. */
VESTA_API void vesta_label_clear(const char *key);

/* ---- The process ---- */

struct vesta_attribute {
    const char *key, *value;
};

/*
 * Says who this process is: service.name and other attributes of its resource. What is not among
 * the arguments is taken from OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, so NULL, NULL, 0 is
 * the environment alone. May be called again: the new replaces the old. A child made by fork() says
 * the same.
 *
 * A process has one such context: where another SDK publishes one already, leave it to that.
 *
 * -EINVAL: an attribute without a key. -E2BIG: more than 16 KiB. Others: the kernel refuses the
 * memory.
 */
VESTA_API int vesta_process_publish(const char *service_name,
                                    const struct vesta_attribute *attributes, size_t n_attributes);

/* ---- Samples of your own ---- */

/*
 * This value, here: with the stack of the caller, the span and the labels of the thread. The name
 * is "type/unit", at most 255 bytes, for instance "cache_misses/count" or "rendered/bytes"; keep it
 * among few. It goes to libvesta-preload.so when that is in the process and samples of this kind
 * are wanted. Otherwise nothing happens, at the cost of a call. Async-signal-safe.
 */
VESTA_API void vesta_sample(const char *name, uint64_t value);

/* Switches sampling by libvesta-preload.so off in this process, and on again as it was: for parts
 * of a program that must not be disturbed. It cannot switch on what no reader asked for. */
VESTA_API void vesta_profiling_set(bool is_on);

#ifdef __cplusplus
}
#endif

#endif
