#include "config/yaml_events.h"

#include <errno.h>
#include <string.h>

int yaml_events_init(struct yaml_events *y, struct bytes text, struct error *err)
{
    *y = (struct yaml_events){.err = err};
    if (!yaml_parser_initialize(&y->parser))
        return error_set(err, -ENOMEM, "out of memory");
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y->parser, text.len ? text.data : (const uint8_t *)"", text.len);
    return 0;
}

void yaml_events_done(struct yaml_events *y)
{
    yaml_event_delete(&y->event);
    yaml_parser_delete(&y->parser);
}

static int syntax_error(struct yaml_events *y)
{
    const yaml_parser_t *p = &y->parser;
    size_t line = p->problem_mark.line + 1;

    if (p->error == YAML_MEMORY_ERROR)
        return error_set(y->err, -ENOMEM, "out of memory");
    if (p->error == YAML_READER_ERROR)
        return error_set(y->err, -EINVAL, "byte %zu: %s", p->problem_offset + 1,
                         p->problem ? p->problem : "not YAML");
    /* The library's words for the commonest mistake do not name it. */
    if (p->problem && strstr(p->problem, "cannot start any token"))
        return error_set(y->err, -EINVAL,
                         "line %zu, column %zu: %s (tabs do not indent in YAML; texts that begin "
                         "with %% @ or ` stand in quotes)",
                         line, p->problem_mark.column + 1, p->problem);
    return error_set(y->err, -EINVAL, "line %zu: %s", line, p->problem ? p->problem : "not YAML");
}

int yaml_events_next(struct yaml_events *y)
{
    yaml_event_delete(&y->event);
    if (!yaml_parser_parse(&y->parser, &y->event))
        return syntax_error(y);
    const yaml_event_t *e = &y->event;
    y->line = (unsigned)e->start_mark.line + 1;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor || tag || e->type == YAML_ALIAS_EVENT)
        return error_set(y->err, -EINVAL, "line %u: %s are not allowed here", y->line,
                         tag ? "tags" : "anchors and aliases");
    return 0;
}

int yaml_events_enter(struct yaml_events *y, bool *ret_is_empty)
{
    int r = yaml_events_next(y); /* the stream's start */

    if (r == 0)
        r = yaml_events_next(y);
    if (r < 0)
        return r;
    *ret_is_empty = y->event.type == YAML_STREAM_END_EVENT;
    return *ret_is_empty ? 0 : yaml_events_next(y);
}

int yaml_events_leave(struct yaml_events *y)
{
    int r = yaml_events_next(y); /* the document's end */

    if (r == 0)
        r = yaml_events_next(y);
    if (r == 0 && y->event.type != YAML_STREAM_END_EVENT)
        r = error_set(y->err, -EINVAL, "line %u: a second document is not read", y->line);
    return r;
}

struct bytes yaml_events_scalar(const struct yaml_events *y)
{
    return (struct bytes){y->event.data.scalar.value, y->event.data.scalar.length};
}

bool yaml_events_is_nothing(const struct yaml_events *y)
{
    struct bytes s = yaml_events_scalar(y);

    return y->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (s.len == 0 || bytes_are(s, "~") || bytes_are(s, "null"));
}
