#include "query/json_answers.h"

#include "base/cleanup.h"
#include "base/hex.h"

void json_labels(struct json_writer *w, const char *key, const struct label *labels, size_t n)
{
    json_key(w, key);
    json_begin_object(w);
    for (size_t i = 0; i < n; i++) {
        json_key_bytes(w, labels[i].name);
        json_string(w, labels[i].value);
    }
    json_end_object(w);
}

void json_id(struct json_writer *w, const char *key, const uint8_t *id, size_t n)
{
    char text[33];

    json_key(w, key);
    json_cstring(w, hex_encode(id, n, text));
}

void json_type(struct json_writer *w, struct bytes type, struct bytes unit)
{
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, type);
    json_key(w, "unit");
    json_string(w, unit);
    json_end_object(w);
}

void json_series(struct json_writer *w, const struct store_series *s)
{
    json_begin_object(w);
    json_labels(w, "labels", s->labels, s->n_labels);
    json_key(w, "types");
    json_begin_array(w);
    for (size_t i = 0; i < s->n_types; i++)
        json_type(w, s->types[i].name, s->types[i].unit);
    json_end_array(w);
    json_key(w, "instant");
    json_bool(w, s->is_instant);
    json_end_object(w);
}

void json_store_stat(struct json_writer *w, const struct store_stat *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"tenants", s->tenants},
        {"series", s->series},
        {"profiles", s->profiles},
        {"samples", s->samples},
        {"spans", s->spans},
        {"segments", s->segments},
        {"epochs", s->epochs},
        {"tombstones", s->tombstones},
        {"disk_bytes", s->disk_bytes},
        {"segment_bytes", s->segment_bytes},
        {"dict_bytes", s->dict_bytes},
        {"wal_bytes", s->wal_bytes},
        {"limit_bytes", s->limit_bytes},
        {"free_bytes", s->free_bytes},
        {"memory_bytes", s->head_bytes},
        {"memory_limit", s->head_limit},
        {"appended", s->appended},
        {"duplicates", s->duplicates},
        {"rejected", s->rejected},
        {"lost_records", s->lost_records},
    };
    json_begin_object(w);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        json_key(w, numbers[i].name);
        json_u64(w, numbers[i].value);
    }
    json_key(w, "first_ns");
    json_i64_string(w, s->first_ns);
    json_key(w, "last_ns");
    json_i64_string(w, s->last_ns);
    json_key(w, "is_read_only");
    json_bool(w, s->is_read_only);
    json_key(w, "trouble");
    json_cstring(w, s->trouble);
    json_end_object(w);
}
