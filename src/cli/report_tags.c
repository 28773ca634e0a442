/* tags: what each label value accounts for. */
#include <errno.h>

#include "cli/report_internal.h"
#include "profile/tag_totals.h"
#include "wire/json.h"

/* "12ms (3.45%):" or, where there is no total to compare with, "12ms:". */
static void add_amount(const struct report *r, int64_t v, struct buf *out)
{
    char value[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];

    report_value(r, v, value);
    report_percent(r, v, percent);
    if (r->total > 0)
        buf_addf(out, "%s (%s):", value, percent);
    else
        buf_addf(out, "%s:", value);
}

static void text_key(const struct report *r, const struct tag_total *all, size_t n)
{
    const char *key = dict_cstr(r->dict, all[0].key);
    char value[MEASURE_TEXT_MAX], total[MEASURE_TEXT_MAX], percent[MEASURE_TEXT_MAX];
    struct buf amount = {0};
    uint64_t sum = 0;
    size_t width = 0;

    for (size_t i = 0; i < n; i++) {
        sum += (uint64_t)all[i].value;
        buf_clear(&amount);
        add_amount(r, all[i].value, &amount);
        width = amount.len > width ? amount.len : width;
    }
    report_value(r, (int64_t)sum, value);
    report_value(r, r->total, total);
    report_percent(r, (int64_t)sum, percent);
    buf_addf(r->out, " %s: Total %s of %s", key, value, total);
    if (r->total > 0)
        buf_addf(r->out, " (%s)", percent);
    buf_add_byte(r->out, '\n');
    for (size_t i = 0; i < n; i++) {
        buf_clear(&amount);
        add_amount(r, all[i].value, &amount);
        buf_addf(r->out, "%*s%*s %s\n", (int)strlen(key) + 2, "", (int)width + 1, buf_cstr(&amount),
                 dict_cstr(r->dict, all[i].text));
    }
    buf_add_byte(r->out, '\n');
    buf_done(&amount);
}

static void json_tags(const struct report *r, const struct tag_totals *t)
{
    struct json_writer w = {.out = r->out};

    json_begin_array(&w);
    for (size_t i = 0; i < t->all.len; i++) {
        json_begin_object(&w);
        json_key(&w, "key");
        json_string(&w, dict_text(r->dict, t->all.data[i].key));
        json_key(&w, "value");
        json_string(&w, dict_text(r->dict, t->all.data[i].text));
        json_key(&w, "total");
        json_i64(&w, t->all.data[i].value);
        json_end_object(&w);
    }
    json_end_array(&w);
    buf_add_byte(r->out, '\n');
}

static void csv_tags(const struct report *r, const struct tag_totals *t)
{
    buf_add_str(r->out, "key,value,total\n");
    for (size_t i = 0; i < t->all.len; i++) {
        report_csv_field(r->out, dict_cstr(r->dict, t->all.data[i].key), false);
        report_csv_field(r->out, dict_cstr(r->dict, t->all.data[i].text), false);
        buf_addf(r->out, "%lld\n", (long long)t->all.data[i].value);
    }
}

int report_tags(struct report *r)
{
    struct tag_totals t;
    bool ok = tag_totals_build(r->p, r->type, &r->units, r->unit, &t);

    if (ok && r->o.output == REPORT_JSON)
        json_tags(r, &t);
    else if (ok && r->o.output == REPORT_CSV)
        csv_tags(r, &t);
    for (size_t i = 0, n; ok && r->o.output == REPORT_TEXT && i < t.all.len; i += n) {
        for (n = 1; i + n < t.all.len && t.all.data[i + n].key == t.all.data[i].key;)
            n++;
        text_key(r, t.all.data + i, n);
    }
    bool any = ok && t.all.len > 0;
    tag_totals_done(&t);
    if (!ok)
        return budget_error(r->dict->budget, r->err);
    if (!any && r->p->n_samples > 0)
        return error_set(r->err, -ENODATA, "no data: no sample has a label");
    return 0;
}
