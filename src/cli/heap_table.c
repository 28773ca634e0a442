#include "cli/heap_table.h"

#include <inttypes.h>

#include "formats/heapsnapshot.h"

#define ROWS_SHOWN 20

void heap_table_text(const struct profile *p, struct buf *out)
{
    struct heap_summary s;

    if (!heap_summarize(p, &s))
        return;
    buf_addf(out,
             "Constructors: %zu, those that retain most first, in bytes\n%12s %12s %12s %12s\n",
             s.rows.len, "count", "shallow", "retained", "detached");
    for (size_t i = 0; i < s.rows.len && i < ROWS_SHOWN; i++) {
        const struct heap_row *row = &s.rows.data[i];
        buf_addf(out, "%12" PRId64 " %12" PRId64 " %12" PRId64 " %12" PRId64 "  %s\n", row->count,
                 row->shallow, row->retained, row->detached, dict_cstr(p->dict, row->constructor));
    }
    heap_summary_done(&s);
}

void heap_table_json(const struct profile *p, struct json_writer *w)
{
    struct heap_summary s;

    if (!heap_summarize(p, &s))
        return;
    json_key(w, "constructors");
    json_begin_array(w);
    for (size_t i = 0; i < s.rows.len; i++) {
        const struct heap_row *row = &s.rows.data[i];
        json_begin_object(w);
        json_key(w, "name");
        json_string(w, dict_text(p->dict, row->constructor));
        json_key(w, "type");
        json_string(w, dict_text(p->dict, row->type));
        json_key(w, "count");
        json_i64(w, row->count);
        json_key(w, "shallow");
        json_i64(w, row->shallow);
        json_key(w, "retained");
        json_i64(w, row->retained);
        json_key(w, "detached");
        json_i64(w, row->detached);
        json_end_object(w);
    }
    json_end_array(w);
    heap_summary_done(&s);
}
