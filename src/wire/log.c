#include "wire/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/json.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static int level_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
        if (strcmp(name, level_names[i]) == 0)
            return (int)i;
    return LOG_LEVEL_INFO;
}

static void add_clean(const char *text, struct buf *out)
{
    for (; *text; text++) {
        uint8_t c = (uint8_t)*text;
        if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\x%02x", c);
        else
            buf_add_byte(out, c);
    }
}

static void add_json_line(int level, const char *when, const char *text, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "time");
    json_cstring(&w, when);
    json_key(&w, "level");
    json_cstring(&w, level_names[level]);
    json_key(&w, "message");
    json_cstring(&w, text);
    json_end_object(&w);
}

void log_write(struct log_style style, int level, const char *fmt, va_list ap)
{
    CLEANUP(buf_done) struct buf line = {0};
    char text[1024], when[40];
    struct timespec now;
    struct tm tm;

    if (level < level_of(style.level))
        return;
    vsnprintf(text, sizeof(text), fmt, ap);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(when + n, sizeof(when) - n, ".%03ldZ", now.tv_nsec / 1000000);
    if (strcmp(style.format, "json") == 0) {
        add_json_line(level, when, text, &line);
    } else {
        buf_addf(&line, "%s %-5s ", when, level_names[level]);
        add_clean(text, &line);
    }
    buf_add_byte(&line, '\n');
    (void)!write(STDERR_FILENO, line.data, line.len);
}
