#include "cli/fetch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* What the wait is for: seconds the URL asks the other side to measure, or 0. */
static int seconds_of(const char *url)
{
    const char *at = strstr(url, "seconds=");
    uint64_t v = 0;

    if (!at || (at[-1] != '?' && at[-1] != '&'))
        return 0;
    at += 8;
    return bytes_to_u64((struct bytes){(const uint8_t *)at, strspn(at, "0123456789")}, &v) &&
                   v < 86400
               ? (int)v
               : 0;
}

static void complete_url(const char *url, const struct options *o, struct buf *b)
{
    const char *path = strstr(url, "://") + 3;

    path += strcspn(path, "/?#");
    buf_add_str(b, url);
    if (*path == '\0' || strcmp(path, "/") == 0)
        buf_add_str(b, *path ? "debug/pprof/profile" : "/debug/pprof/profile");
    if (o->seconds > 0 && seconds_of(url) == 0)
        buf_addf(b, "%sseconds=%d", strchr(url, '?') ? "&" : "?", o->seconds);
}

struct progress {
    int seconds;
    bool shown;
};

static void show_progress(void *arg, const struct http_progress *http)
{
    struct progress *p = arg;

    if (http->seconds < 0.3)
        return;
    p->shown = true;
    if (http->received > 0)
        fprintf(stderr, "\r\033[Kfetching: %.1f s, %.1f KB", http->seconds,
                (double)http->received / 1000);
    else if (p->seconds > 0)
        fprintf(stderr, "\r\033[Kprofiling: %.0f of %d s", http->seconds, p->seconds);
    else
        fprintf(stderr, "\r\033[Kwaiting: %.0f s", http->seconds);
    fflush(stderr);
}

int fetch_url(const char *url, const struct options *o, struct budget *b, struct http_body *ret,
              struct error *err)
{
    CLEANUP(buf_done) struct buf full = {0};
    complete_url(url, o, &full);
    struct progress progress = {.seconds = seconds_of(buf_cstr(&full))};
    bool terminal = isatty(STDERR_FILENO);
    if (!terminal && progress.seconds > 0)
        fprintf(stderr, "fetching %s (%d s)\n", buf_cstr(&full), progress.seconds);

    struct http_client_options get = {
        .connect_s = o->timeout,
        .silence_s = o->timeout > 0 ? o->timeout : 60 + progress.seconds + progress.seconds / 2,
        .progress = terminal ? show_progress : NULL,
        .progress_arg = &progress,
    };
    int r = http_get(buf_cstr(&full), &get, b, ret, err);
    if (progress.shown)
        fputs("\r\033[K", stderr);
    return r;
}
