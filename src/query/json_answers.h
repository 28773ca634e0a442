#pragma once

#include "store/store.h"
#include "wire/json.h"

/* Parts of answers in JSON, the same from the API and from commands. */

/* "KEY":{"name":"value",...} */
void json_labels(struct json_writer *w, const char *key, const struct label *labels, size_t n);

/* "KEY":"0123...", n bytes in hexadecimal; at most 16. */
void json_id(struct json_writer *w, const char *key, const uint8_t *id, size_t n);

/* {"type":...,"unit":...} */
void json_type(struct json_writer *w, struct bytes type, struct bytes unit);

/* {"labels":{...},"types":[...],"instant":...} */
void json_series(struct json_writer *w, const struct store_series *s);

/* Facts about a store, as an object. */
void json_store_stat(struct json_writer *w, const struct store_stat *s);
