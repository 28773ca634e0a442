#include "formats/valgrind_frame.h"

/* Takes the number behind the last ':' off *s. */
static bool take_number(struct bytes *s, int64_t *ret)
{
    for (size_t i = s->len; i-- > 0;) {
        if (s->data[i] != ':')
            continue;
        if (!bytes_to_i64(bytes_from(*s, i + 1), ret))
            return false;
        s->len = i;
        return true;
    }
    return false;
}

/* What stands in the brackets at the end: a source line, or the file the code is in. */
static void read_place(struct dict *d, struct bytes place, struct function *f, struct line *line,
                       struct location *l)
{
    int64_t first, second;

    if (bytes_start_with(place, BYTES("in "))) {
        l->mapping =
            dict_mapping(d, (struct mapping){.file = dict_string(d, bytes_from(place, 3))});
        return;
    }
    if (take_number(&place, &first)) {
        line->line = first;
        if (take_number(&place, &second)) { /* "file.rs:12:34" of Rust's dhat */
            line->line = second;
            line->column = first;
        }
    }
    f->file = dict_string(d, place);
}

uint32_t valgrind_location(struct dict *d, struct bytes text)
{
    const uint8_t *colon = bytes_find(text, BYTES(": "));
    struct location l = {0};
    struct function f = {0};
    struct line line = {0};

    if (colon && bytes_start_with(text, BYTES("0x")) &&
        bytes_to_hex(bytes_head(text, (size_t)(colon - text.data)), &l.address))
        text = bytes_from(text, (size_t)(colon - text.data) + 2);
    if (text.len > 0 && text.data[text.len - 1] == ')') {
        size_t at = text.len;
        while (at > 1 && !(text.data[at - 2] == ' ' && text.data[at - 1] == '('))
            at--;
        if (at > 1) {
            read_place(d, bytes_head(bytes_from(text, at), text.len - at - 1), &f, &line, &l);
            text = bytes_head(text, at - 2);
        }
    }
    if (!bytes_are(text, "???"))
        f.name = dict_string(d, text);
    l.type = dict_cstring(d, "native");
    line.function = dict_function(d, f);
    return dict_location(d, l, &line, line.function ? 1 : 0);
}
