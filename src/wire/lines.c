#include "wire/lines.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)

void lines_init(struct lines *l, struct input *in, struct budget *budget)
{
    *l = (struct lines){.in = in, .budget = budget};
}

void lines_done(struct lines *l)
{
    budget_free(l->budget, l->data, l->cap);
    l->data = NULL;
    l->cap = 0;
}

static bool fail(struct lines *l, int r)
{
    l->failure = r;
    return false;
}

/* Moves what is left to the front and reads more behind it. False at the end or on failure. */
static bool refill(struct lines *l)
{
    if (l->pos > 0) {
        memmove(l->data, l->data + l->pos, l->end - l->pos);
        l->end -= l->pos;
        l->pos = 0;
    }
    if (l->end == l->cap) {
        size_t new_cap = l->cap ? l->cap * 2 : CHUNK_BYTES;
        void *p = l->data;
        if (!budget_resize(l->budget, &p, l->cap, new_cap))
            return fail(l, budget_error(l->budget, &l->error));
        l->data = p;
        l->cap = new_cap;
    }
    ssize_t n = input_read(l->in, l->data + l->end, l->cap - l->end, &l->error);
    if (n < 0)
        return fail(l, (int)n);
    l->at_end = n == 0;
    l->end += (size_t)n;
    return n > 0;
}

static struct bytes without_cr(struct bytes line)
{
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

/* Hands out `len` bytes; `skip` more (the newline) are behind them. */
static bool hand_out(struct lines *l, size_t len, size_t skip, struct bytes *ret)
{
    *ret = without_cr((struct bytes){l->data + l->pos, len});
    l->pos += len + skip;
    l->searched = 0;
    l->number++;
    return true;
}

bool lines_next(struct lines *l, struct bytes *ret_line)
{
    if (l->failure < 0)
        return false;
    if (budget_failed(l->budget))
        return fail(l, budget_error(l->budget, &l->error));
    for (;;) {
        struct bytes rest = {l->data + l->pos, l->end - l->pos};
        const uint8_t *nl = bytes_find_byte(bytes_from(rest, l->searched), '\n');
        if (nl)
            return hand_out(l, (size_t)(nl - rest.data), 1, ret_line);
        l->searched = rest.len;
        if (l->at_end || !refill(l))
            break;
    }
    if (l->failure < 0 || l->pos == l->end)
        return false;
    return hand_out(l, l->end - l->pos, 0, ret_line);
}

int lines_result(const struct lines *l, struct error *err)
{
    if (l->failure == 0)
        return 0;
    return error_set(err, l->failure, "%s", l->error.text);
}

int lines_refuse(const struct lines *l, const char *what, const char *why, struct error *err)
{
    return error_set(err, -EBADMSG, "%s at line %llu: %s", what, (unsigned long long)l->number,
                     why);
}
