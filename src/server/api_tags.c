#include "query/tag_table.h"
#include "server/api_mask.h"
#include "server/api_merged.h"
#include "server/server_internal.h"

/* Attributes of samples: what programs say from inside about what they were doing. */

#define VALUES     100
#define VALUES_MAX 10000
#define TAGS_MAX   1000

static void write_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_i64(w, value);
}

/* What tagfocus and tagignore take for it; nothing where they cannot say it. */
static void write_filter(struct json_writer *w, bool has_filter, struct buf *filter)
{
    if (has_filter) {
        json_key(w, "filter");
        json_string(w, buf_bytes(filter));
    }
    buf_clear(filter);
}

static void write_row(struct json_writer *w, const struct tag_table *t, const struct tag_row *row)
{
    CLEANUP(buf_done) struct buf filter = {0};

    json_begin_object(w);
    json_key(w, "name");
    json_string(w, dict_text(t->dict, row->name));
    write_filter(w, tag_table_any_filter(t, row, &filter), &filter);
    write_number(w, "total", row->total);
    write_number(w, "not_set", row->not_set);
    write_number(w, "other", row->other);
    write_number(w, "repeated", row->repeated);
    json_key(w, "all_values");
    json_u64(w, row->n_all);
    json_key(w, "values");
    json_begin_array(w);
    for (size_t i = 0; i < row->n_values; i++) {
        const struct tag_total *v = &row->values[i];
        json_begin_object(w);
        json_key(w, "value");
        json_string(w, dict_text(t->dict, v->text));
        write_number(w, "total", v->value);
        write_filter(w, tag_table_value_filter(t, v, &filter), &filter);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static int reply_tags(struct api_query *q, struct api_merged *m, const struct tag_table *t,
                      struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    struct json_writer w = {.out = &out};

    json_begin_object(&w);
    api_merged_head(q, m, &w);
    json_key(&w, "all_tags");
    json_u64(&w, t->n_all);
    json_key(&w, "tags");
    json_begin_array(&w);
    for (size_t i = 0; i < t->rows.len && !buf_full(&out); i++)
        write_row(&w, t, &t->rows.data[i]);
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    if (buf_full(&out))
        return buf_error(&out, err);
    api_reply(q, "application/json", &out);
    return 0;
}

static int run_tags(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    CLEANUP(tag_table_done) struct tag_table t = {0};
    struct tag_table_options o = {.name = api_text(q, "name"), .rows_max = TAGS_MAX};
    uint64_t limit;

    int r = api_number(q, "limit", VALUES_MAX, VALUES, &limit, err);
    q->query.with_labels = true;
    if (r == 0)
        r = api_merge(q, &m, err);
    if (r == 0)
        r = api_mask(q->call->server->mask, m.profile, err);
    if (r < 0)
        return r;
    o.type = m.type;
    o.values_max = (size_t)limit;
    r = tag_table_build(m.profile, &o, &t, err);
    return r < 0 ? r : reply_tags(q, &m, &t, err);
}

/* Rules of masking may change: no tag. */
static int handle(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_tags, err);
}

const struct route api_tag_routes[] = {
    API_ROUTE("tags", 0, "Attributes of samples, with what each of their values spends",
              API_P_MERGE "name: only this attribute; "
                          "limit: values of each attribute, default 100; "),
    {0},
};
