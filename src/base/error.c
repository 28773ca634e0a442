#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int r, const char *fmt, ...)
{
    if (!err)
        return r;
    int saved = errno; /* %m in fmt must see the caller's errno */
    va_list ap;
    va_start(ap, fmt);
    errno = saved;
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    return r;
}

int error_prefix(struct error *err, int r, const char *fmt, ...)
{
    if (!err)
        return r;
    char where[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(where, sizeof(where), fmt, ap);
    va_end(ap);

    struct error why = *err;
    size_t n = strlen(where);
    size_t room = sizeof(err->text) - 1;
    memcpy(err->text, where, n);
    for (const char *from = ": ", *then = why.text; n < room && from; from = then, then = NULL) {
        size_t len = strlen(from);
        if (len > room - n)
            len = room - n;
        memcpy(err->text + n, from, len);
        n += len;
    }
    err->text[n] = '\0';
    return r;
}
