#include "relay/directive.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/budget.h"
#include "wire/json.h"

#define SECOND    ((int64_t)1000000000)
#define READ_MAX  ((size_t)1 << 20)
#define TIMES_MAX ((int64_t)4102444800) /* the year 2100 */

static void copy_name(char *to, size_t size, struct bytes text)
{
    size_t n = text.len < size - 1 ? text.len : size - 1;
    if (n > 0)
        memcpy(to, text.data, n);
    to[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)to[i] < 0x20 || to[i] == 0x7f)
            to[i] = '?';
}

static bool time_of(struct bytes text, const char *format, const char **ret_rest, int64_t *ret_ns,
                    char scratch[64])
{
    struct tm tm = {0};
    copy_name(scratch, 64, text);
    *ret_rest = strptime(scratch, format, &tm);
    if (!*ret_rest)
        return false;
    time_t seconds = timegm(&tm);
    if (seconds < 0 || seconds > TIMES_MAX)
        return false;
    *ret_ns = (int64_t)seconds * SECOND;
    return true;
}

bool directive_time(struct bytes text, int64_t *ret_ns)
{
    char scratch[64];
    const char *rest;
    int64_t ns;

    if (!time_of(text, "%Y-%m-%dT%H:%M:%S", &rest, &ns, scratch))
        return false;
    if (*rest == '.') {
        int64_t unit = SECOND / 10;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            ns += (*rest - '0') * unit;
    }
    if (strcmp(rest, "Z") != 0)
        return false;
    *ret_ns = ns;
    return true;
}

static void read_types(struct json_reader *r, struct directive *d)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        struct bytes name = json_get_string(r);
        if (d->n_types < DIRECTIVE_TYPES_MAX)
            copy_name(d->types[d->n_types++], DIRECTIVE_NAME_MAX, name);
    }
}

static void read_key(struct json_reader *r, struct bytes key, struct directive *d)
{
    if (bytes_are(key, "number")) {
        d->number = json_get_u64(r);
    } else if (bytes_are(key, "mode")) {
        copy_name(d->mode, sizeof(d->mode), json_get_string(r));
    } else if (bytes_are(key, "rate")) {
        d->rate = json_get_double(r);
        if (!(d->rate >= 0 && d->rate <= 1e6))
            json_fail(r, "\"rate\" is no number of samples per second");
    } else if (bytes_are(key, "types")) {
        read_types(r, d);
    } else if (bytes_are(key, "until")) {
        struct bytes text = json_get_string(r);
        if (!json_failed(r) && !directive_time(text, &d->until_ns))
            json_fail(r, "\"until\" is no time");
    } else if (bytes_are(key, "lasts")) {
        double seconds = json_get_double(r);
        d->lasts_ns = seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : 0;
    } else if (bytes_are(key, "reason")) {
        copy_name(d->reason, sizeof(d->reason), json_get_string(r));
    } else {
        json_skip(r);
    }
}

static void read_object(struct json_reader *r, struct directive *d, bool is_outer)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (is_outer && bytes_are(key, "directive"))
            read_object(r, d, false);
        else
            read_key(r, key, d);
    }
}

int directive_read(struct bytes json, struct directive *ret, struct error *err)
{
    struct budget budget;
    budget_init(&budget, READ_MAX);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    struct directive d = {0};

    json_reader_set_text(r, json, 0);
    read_object(r, &d, true);
    if (!json_failed(r) && d.mode[0] == '\0')
        json_fail(r, "a directive has no \"mode\"");
    int result = json_finish(r, "directive", err);
    if (result == 0)
        *ret = d;
    return result;
}

void directive_write(const struct directive *d, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "number");
    json_u64(&w, d->number);
    json_key(&w, "mode");
    json_cstring(&w, d->mode);
    if (d->rate > 0) {
        json_key(&w, "rate");
        json_double(&w, d->rate);
    }
    json_key(&w, "types");
    json_begin_array(&w);
    for (size_t i = 0; i < d->n_types; i++)
        json_cstring(&w, d->types[i]);
    json_end_array(&w);
    if (d->until_ns > 0) {
        char text[40];
        time_t seconds = d->until_ns / SECOND;
        struct tm tm;
        gmtime_r(&seconds, &tm);
        size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(text + n, sizeof(text) - n, ".%09dZ", (int)(d->until_ns % SECOND));
        json_key(&w, "until");
        json_cstring(&w, text);
    }
    if (d->lasts_ns > 0) {
        json_key(&w, "lasts");
        json_double(&w, (double)d->lasts_ns / 1e9);
    }
    json_key(&w, "reason");
    json_cstring(&w, d->reason);
    json_end_object(&w);
}

void directive_count_from(struct directive *d, struct bytes date, int64_t wall_ns)
{
    char scratch[64];
    const char *rest;
    int64_t now;

    if (d->until_ns == 0)
        return;
    if (!time_of(date, "%a, %d %b %Y %H:%M:%S GMT", &rest, &now, scratch))
        now = wall_ns;
    d->lasts_ns = d->until_ns > now ? d->until_ns - now : 1;
}

bool directive_same(const struct directive *a, const struct directive *b)
{
    if (a->number != b->number || strcmp(a->mode, b->mode) != 0 || a->rate < b->rate ||
        a->rate > b->rate || a->until_ns != b->until_ns || a->n_types != b->n_types)
        return false;
    for (size_t i = 0; i < a->n_types; i++)
        if (strcmp(a->types[i], b->types[i]) != 0)
            return false;
    return true;
}
