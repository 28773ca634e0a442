#include "cli/terminal.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "cli/color.h"

/* The length of one of our colours at the start of text, or 0. */
static size_t color_length(struct bytes text)
{
    static const char *const all[] = {COLOR_BOLD, COLOR_RED,   COLOR_YELLOW, COLOR_GREEN,
                                      COLOR_DIM,  COLOR_ERROR, COLOR_END};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (bytes_start_with(text, bytes_of(all[i])))
            return strlen(all[i]);
    }
    return 0;
}

/* The length of a character at the start of text that may not reach a terminal, or 0. */
static size_t harmful_length(struct bytes text, unsigned *ret)
{
    const uint8_t *s = text.data;

    *ret = s[0];
    if (s[0] < 0x20 || s[0] == 0x7f)
        return s[0] != '\n' && s[0] != '\t';
    if (text.len >= 2 && s[0] == 0xc2 && s[1] < 0xa0) { /* C1 controls */
        *ret = s[1];
        return 2;
    }
    if (text.len < 3 || s[0] != 0xe2 || (s[1] != 0x80 && s[1] != 0x81))
        return 0;
    *ret = 0x2000u | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    bool turns = (*ret >= 0x202a && *ret <= 0x202e) || (*ret >= 0x2066 && *ret <= 0x2069);
    return turns ? 3 : 0;
}

void terminal_clean(struct bytes text, struct buf *out)
{
    size_t i = 0, from = 0;

    while (i < text.len) {
        unsigned c;
        size_t n = harmful_length(bytes_from(text, i), &c);
        size_t ours = c == '\033' ? color_length(bytes_from(text, i)) : 0;
        if (n == 0 || ours > 0) {
            i += ours ? ours : 1;
            continue;
        }
        buf_add(out, text.data + from, i - from);
        buf_addf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
        from = i += n;
    }
    buf_add(out, text.data + from, i - from);
}

void terminal_say(struct bytes text)
{
    CLEANUP(buf_done) struct buf clean = {0};

    terminal_clean(text, &clean);
    if (clean.len > 0)
        fwrite(clean.data, 1, clean.len, stderr);
}
