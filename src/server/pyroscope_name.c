#include "server/pyroscope_name.h"

#include <errno.h>

#include "base/cleanup.h"

/* ---- app{key=value} */

static int bad_name(const char *why, struct bytes at, struct error *err)
{
    return error_set(err, -EINVAL, "name: %s \"%.*s\"", why, at.len > 80 ? 80 : (int)at.len,
                     (const char *)at.data);
}

static bool has_controls(struct bytes s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] == 0x7f)
            return true;
    }
    return false;
}

/* Takes what stands before the byte c off *rest, and c itself; all of it when there is no c. */
static struct bytes take_until(struct bytes *rest, uint8_t c)
{
    const uint8_t *at = bytes_find_byte(*rest, c);
    size_t len = at ? (size_t)(at - rest->data) : rest->len;
    struct bytes part = bytes_head(*rest, len);

    *rest = bytes_from(*rest, len + 1);
    return part;
}

int pyroscope_name_parse(struct bytes name, struct pyroscope_name *ret, struct error *err)
{
    struct bytes rest = name;

    ret->n_labels = 0;
    ret->app = bytes_trim(take_until(&rest, '{'));
    if (ret->app.len == 0)
        return bad_name("no application in", name, err);
    if (has_controls(name))
        return error_set(err, -EINVAL, "name: there is a control character in it");
    rest = take_until(&rest, '}');
    while (rest.len > 0) {
        struct bytes pair = take_until(&rest, ',');
        struct bytes value = pair, key = bytes_trim(take_until(&value, '='));
        if (bytes_trim(pair).len == 0)
            continue;
        if (key.len == 0 || !bytes_find_byte(pair, '='))
            return bad_name("not key=value:", pair, err);
        if (ret->n_labels == PYROSCOPE_LABELS_MAX)
            return error_set(err, -EINVAL, "name: more than %d labels", PYROSCOPE_LABELS_MAX);
        ret->labels[ret->n_labels++] = (struct label){key, bytes_trim(value)};
    }
    return 0;
}

/* ---- What was measured */

static const struct pyroscope_measure measures[] = {
    {"cpu", "samples", "cpu", "nanoseconds", "process_cpu", true, false},
    {"itimer", NULL, "cpu", "nanoseconds", "process_cpu", true, false},
    {"wall", NULL, "wall", "nanoseconds", "wall", true, false},
    {"inuse_objects", NULL, "inuse_objects", "count", "memory", false, true},
    {"inuse_space", NULL, "inuse_space", "bytes", "memory", false, true},
    {"alloc_objects", "objects", "alloc_objects", "count", "memory", false, false},
    {"alloc_space", "bytes", "alloc_space", "bytes", "memory", false, false},
    {"goroutines", "goroutines", "goroutine", "count", "goroutine", false, true},
    {"mutex_count", "lock_samples", "contentions", "count", "mutex", false, false},
    {"mutex_duration", "lock_nanoseconds", "delay", "nanoseconds", "mutex", false, false},
    {"block_count", NULL, "contentions", "count", "block", false, false},
    {"block_duration", NULL, "delay", "nanoseconds", "block", false, false},
    {"lock_count", NULL, "contentions", "count", "block", false, false},
    {"lock_duration", NULL, "delay", "nanoseconds", "block", false, false},
    {"alloc_in_new_tlab_objects", NULL, "alloc_in_new_tlab_objects", "count", "memory", false,
     false},
    {"alloc_in_new_tlab_bytes", NULL, "alloc_in_new_tlab_bytes", "bytes", "memory", false, false},
    {"alloc_outside_tlab_objects", NULL, "alloc_outside_tlab_objects", "count", "memory", false,
     false},
    {"alloc_outside_tlab_bytes", NULL, "alloc_outside_tlab_bytes", "bytes", "memory", false, false},
    {"live", NULL, "live", "count", "memory", false, true},
    {"exceptions", "exceptions", "exceptions", "count", "exceptions", false, false},
};

const struct pyroscope_measure *pyroscope_measure_of(struct bytes *app, struct bytes units)
{
    const uint8_t *dot = app->len ? memrchr(app->data, '.', app->len) : NULL;
    size_t at = dot ? (size_t)(dot - app->data) : 0;

    for (size_t i = 0; at > 0 && i < ARRAY_SIZE(measures); i++) {
        if (bytes_are(bytes_from(*app, at + 1), measures[i].suffix)) {
            *app = bytes_head(*app, at);
            return &measures[i];
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(measures); i++) {
        if (measures[i].units && bytes_are(units, measures[i].units))
            return &measures[i];
    }
    return &measures[0];
}

int pyroscope_measure_apply(const struct pyroscope_measure *m, uint32_t rate, struct profile *p,
                            struct error *err)
{
    struct dict *d = p->dict;

    if (m->is_time && rate == 0)
        return 0;
    p->types[0] = (struct value_type){dict_cstring(d, m->type), dict_cstring(d, m->unit)};
    if (!m->is_time)
        return 0;
    p->period = 1000000000 / rate;
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t n = p->values[0][i];
        if (__builtin_mul_overflow(n, p->period, &p->values[0][i]))
            return error_set(err, -EINVAL,
                             "%lld samples at %u a second are more nanoseconds than can be counted",
                             (long long)n, rate);
    }
    return 0;
}

/* ---- Agents */

const char *pyroscope_language(struct bytes spy)
{
    static const struct {
        const char *spy, *language;
    } known[] = {
        {"gospy", "go"},   {"nodespy", "nodejs"},   {"javaspy", "java"}, {"pyspy", "python"},
        {"rbspy", "ruby"}, {"dotnetspy", "dotnet"}, {"phpspy", "php"},   {"pyroscope-rs", "rust"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (bytes_are(spy, known[i].spy))
            return known[i].language;
    }
    return NULL;
}
