#include "server/api_query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hex.h"
#include "query/flame_wire.h"
#include "query/time_range.h"
#include "server/api_file.h"
#include "server/columnar.h"
#include "server/names.h"
#include "server/server_internal.h"
#include "wire/json.h"

#define NAME_SHOWN  40
#define SECONDS_MAX ((uint64_t)366 * 86400)

/* ---- What a route takes */

bool api_known_next(struct bytes *rest, struct api_known *ret)
{
    *rest = bytes_trim(*rest);
    if (rest->len == 0)
        return false;
    const uint8_t *end = bytes_find_byte(*rest, ';');
    struct bytes item = bytes_head(*rest, end ? (size_t)(end - rest->data) : rest->len);
    *rest = bytes_from(*rest, item.len + (end != NULL));

    const uint8_t *colon = bytes_find_byte(item, ':');
    size_t len = colon ? (size_t)(colon - item.data) : item.len;
    *ret = (struct api_known){.name = bytes_trim(bytes_head(item, len)),
                              .help = bytes_trim(bytes_from(item, len + 1))};
    ret->is_required = ret->name.len > 0 && ret->name.data[ret->name.len - 1] == '!';
    ret->name.len -= ret->is_required;
    return true;
}

static bool find_known(const struct route *route, const char *name, struct bytes *ret_help)
{
    struct bytes rest = bytes_of(route->params ? route->params : "");
    for (struct api_known k; api_known_next(&rest, &k);) {
        if (bytes_are(k.name, name)) {
            *ret_help = k.help;
            return true;
        }
    }
    return false;
}

static int refuse_unknown(const struct route *route, const char *name, struct error *err)
{
    struct bytes rest = bytes_of(route->params ? route->params : ""), best = {0};
    size_t least = SIZE_MAX;

    for (struct api_known k; api_known_next(&rest, &k);) {
        size_t d = bytes_distance(bytes_of(name), k.name);
        if (d < least) {
            least = d;
            best = k.name;
        }
    }
    if (best.len > 0 && least <= 1 + best.len / 3)
        return error_set(err, -EINVAL, "there is no parameter \"%.*s\": did you mean \"%.*s\"?",
                         NAME_SHOWN, name, (int)best.len, (const char *)best.data);
    return error_set(err, -EINVAL,
                     "%s takes no parameter \"%.*s\"; /api/v1/openapi.json lists them", route->path,
                     NAME_SHOWN, name);
}

static int check_names(struct api_query *q, struct error *err)
{
    const struct route *route = q->call->route;
    struct bytes help, rest = bytes_of(route->params ? route->params : "");

    for (size_t i = 0; i < q->n_params; i++)
        if (!find_known(route, q->params[i].name, &help))
            return refuse_unknown(route, q->params[i].name, err);
    for (struct api_known k; api_known_next(&rest, &k);) {
        bool is_there = false;
        for (size_t i = 0; i < q->n_params && !is_there; i++)
            is_there = bytes_are(k.name, q->params[i].name);
        if (k.is_required && !is_there)
            return error_set(err, -EINVAL, "the parameter \"%.*s\" is missing: %.*s",
                             (int)k.name.len, (const char *)k.name.data, (int)k.help.len,
                             (const char *)k.help.data);
    }
    return 0;
}

/* ---- Where parameters come from */

static int add_param(struct api_query *q, struct bytes name, struct bytes value, struct error *err)
{
    struct arena *arena = call_arena(q->call);

    if (q->n_params == API_PARAMS_MAX)
        return error_set(err, -EINVAL, "more than %d parameters", API_PARAMS_MAX);
    if (bytes_find_byte(name, 0) || bytes_find_byte(value, 0))
        return error_set(err, -EINVAL, "the parameter \"%.*s\" has a NUL in it",
                         (int)(name.len < NAME_SHOWN ? name.len : NAME_SHOWN),
                         (const char *)name.data);
    struct api_param p = {arena_strdup(arena, name), arena_strdup(arena, value), value.len,
                          q->n_params};
    if (!p.name || !p.value)
        return budget_error(arena->budget, err);
    q->params[q->n_params++] = p;
    return 0;
}

static int read_query_string(struct api_query *q, struct bytes rest, struct error *err)
{
    CLEANUP(buf_done) struct buf scratch = {0};
    struct bytes name, value;
    int r = 0;

    while (r == 0 && http_query_next(&rest, &scratch, &name, &value)) {
        r = add_param(q, name, value, err);
        buf_clear(&scratch);
    }
    return r;
}

static int read_json_value(struct api_query *q, struct json_reader *r, struct bytes name,
                           struct error *err)
{
    switch (json_peek(r)) {
    case JSON_STRING:
        return add_param(q, name, json_get_string(r), err);
    case JSON_NUMBER:
    case JSON_TRUE:
    case JSON_FALSE:
        return add_param(q, name, bytes_trim(json_get_raw(r)), err);
    case JSON_NULL:
        json_skip(r);
        return 0;
    case JSON_ARRAY:
    case JSON_OBJECT:
        return error_set(err, -EINVAL, "the parameter \"%.*s\" must be a text, a number or a list",
                         (int)(name.len < NAME_SHOWN ? name.len : NAME_SHOWN),
                         (const char *)name.data);
    case JSON_NONE:
        break;
    }
    return 0;
}

static int read_json_member(struct api_query *q, struct json_reader *r, struct bytes key,
                            struct error *err)
{
    int result = 0;
    char *name = arena_strdup(call_arena(q->call), key);
    if (!name)
        return budget_error(call_arena(q->call)->budget, err);
    if (json_peek(r) != JSON_ARRAY)
        return read_json_value(q, r, bytes_of(name), err);
    json_enter_array(r);
    while (result == 0 && json_next_element(r))
        result = read_json_value(q, r, bytes_of(name), err);
    return result;
}

static int read_json(struct api_query *q, struct bytes body, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &q->call->budget);
    int result = 0;

    json_reader_set_text(r, body, 0);
    json_enter_object(r);
    for (struct bytes key; result == 0 && json_next_key(r, &key);)
        result = read_json_member(q, r, key, err);
    if (result < 0)
        return result;
    result = json_finish(r, "the body", err);
    return result == -EBADMSG ? -EINVAL : result;
}

static int read_params(struct api_query *q, struct error *err)
{
    const struct http_request *request = q->call->request;
    struct bytes type = http_media_type(call_header(q->call, "content-type"));

    q->params = arena_new(call_arena(q->call), struct api_param, API_PARAMS_MAX);
    if (!q->params)
        return budget_error(call_arena(q->call)->budget, err);
    int r = read_query_string(q, request->query, err);
    if (r < 0 || q->call->body.len == 0 || q->call->file)
        return r;
    /* curl -d calls everything a form; no parameter begins like this. */
    if (bytes_are(type, "application/json") || q->call->body.data[0] == '{')
        return read_json(q, q->call->body, err);
    if (type.len == 0 || bytes_are(type, "application/x-www-form-urlencoded"))
        return read_query_string(q, q->call->body, err);
    return error_set(err, -EINVAL,
                     "a body of type \"%.*s\" is no parameters: send application/json or "
                     "application/x-www-form-urlencoded",
                     (int)(type.len < 80 ? type.len : 80), (const char *)type.data);
}

/* ---- Single values */

const char *api_text_at(const struct api_query *q, const char *name, size_t n)
{
    for (size_t i = 0; i < q->n_params; i++)
        if (strcmp(q->params[i].name, name) == 0 && n-- == 0)
            return q->params[i].value;
    return NULL;
}

const char *api_text(const struct api_query *q, const char *name)
{
    for (size_t i = q->n_params; i-- > 0;)
        if (strcmp(q->params[i].name, name) == 0)
            return q->params[i].value;
    return NULL;
}

int api_number(const struct api_query *q, const char *name, uint64_t max, uint64_t fallback,
               uint64_t *ret, struct error *err)
{
    const char *text = api_text(q, name);
    uint64_t v = fallback;
    if (text && (!bytes_to_u64(bytes_of(text), &v) || v == 0 || v > max))
        return error_set(err, -EINVAL, "%s takes a number from 1 to %llu, not \"%.60s\"", name,
                         (unsigned long long)max, text);
    *ret = v;
    return 0;
}

int api_flag(const struct api_query *q, const char *name, bool *ret, struct error *err)
{
    const char *text = api_text(q, name);
    bool is_on = text && (*text == '\0' || strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
    if (text && !is_on && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
        return error_set(err, -EINVAL, "%s takes 1 or 0, not \"%.60s\"", name, text);
    *ret = is_on;
    return 0;
}

static int read_time(const struct api_query *q, const char *name, int64_t fallback, int64_t *ret,
                     struct error *err)
{
    const char *text = api_text(q, name);
    *ret = fallback;
    if (!text || *text == '\0')
        return 0;
    int r = time_parse(bytes_of(text), q->now_ns, ret, err);
    return r < 0 ? error_prefix(err, r, "%s", name) : 0;
}

int api_duration(const struct api_query *q, const char *name, int64_t *ret, struct error *err)
{
    const char *text = api_text(q, name);
    *ret = 0;
    int r = text && *text ? duration_parse(bytes_of(text), ret, err) : 0;
    if (r == 0 && text && *text && *ret <= 0)
        r = error_set(err, -EINVAL, "\"%.60s\" is not more than nothing", text);
    return r < 0 ? error_prefix(err, r, "%s", name) : 0;
}

static int read_hex(const struct api_query *q, const char *name, uint8_t *ret, size_t n,
                    bool *ret_has, struct error *err)
{
    const char *text = api_text(q, name);

    *ret_has = false;
    if (!text || *text == '\0')
        return 0;
    if (!hex_decode(bytes_of(text), ret, n))
        return error_set(err, -EINVAL, "%s takes %zu hex digits, not \"%.60s\"", name, 2 * n, text);
    *ret_has = true;
    return 0;
}

int api_choice(const struct api_query *q, const char *name, struct api_names names, size_t fallback,
               size_t *ret, struct error *err)
{
    const char *text = api_text(q, name);
    CLEANUP(buf_done) struct buf all = {0};

    *ret = fallback;
    if (!text || *text == '\0')
        return 0;
    for (size_t i = 0; i < names.n; i++) {
        if (!names.names[i])
            continue;
        if (strcmp(names.names[i], text) == 0) {
            *ret = i;
            return 0;
        }
        buf_addf(&all, "%s%s", all.len > 0 ? ", " : "", names.names[i]);
    }
    return error_set(err, -EINVAL, "%s is one of %s, not \"%.60s\"", name, buf_cstr(&all), text);
}

int api_frames(const struct api_query *q, struct frame_options *ret, struct error *err)
{
    static const char *const names[] = {
        [GRANULARITY_FUNCTIONS] = "functions", [GRANULARITY_FILEFUNCTIONS] = "filefunctions",
        [GRANULARITY_FILES] = "files",         [GRANULARITY_LINES] = "lines",
        [GRANULARITY_ADDRESSES] = "addresses", [GRANULARITY_PACKAGES] = "packages",
        [GRANULARITY_BINARIES] = "binaries",
    };
    size_t granularity;

    *ret = (struct frame_options){.name_unknown = true, .trim_path = api_text(q, "trim_path")};
    int r = api_choice(q, "granularity", API_NAMES(names), GRANULARITY_DEFAULT, &granularity, err);
    if (r == 0)
        r = api_flag(q, "noinlines", &ret->no_inlines, err);
    if (r == 0)
        r = api_flag(q, "collapse_recursion", &ret->collapse_recursion, err);
    ret->granularity = (enum granularity)granularity;
    return r;
}

int api_by(const struct api_query *q, struct bytes ret[API_BY_MAX], size_t *ret_n,
           struct error *err)
{
    const char *text;
    *ret_n = 0;
    for (size_t i = 0; (text = api_text_at(q, "by", i)) != NULL; i++) {
        struct bytes rest = bytes_of(text);
        while (rest.len > 0) {
            const uint8_t *comma = bytes_find_byte(rest, ',');
            size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
            struct bytes name = bytes_trim(bytes_head(rest, len));
            rest = bytes_from(rest, len + (comma != NULL));
            if (name.len == 0)
                continue;
            if (*ret_n == API_BY_MAX)
                return error_set(err, -EINVAL, "by takes at most %d labels", API_BY_MAX);
            ret[(*ret_n)++] = name;
        }
    }
    return 0;
}

/* ---- What every question has */

static bool has_word(struct bytes help, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= help.len; i++) {
        bool begins = i == 0 || help.data[i - 1] == ' ';
        bool ends = i + n == help.len || help.data[i + n] == ' ' || help.data[i + n] == ',';
        if (begins && ends && memcmp(help.data + i, word, n) == 0)
            return true;
    }
    return false;
}

/* The formats a route can answer in are the words of its own help. */
static int read_format(struct api_query *q, struct error *err)
{
    static const char *const names[] = {[API_JSON] = "json",
                                        [API_COLUMNS] = "columns",
                                        [API_NDJSON] = "ndjson",
                                        [API_DOT] = "dot",
                                        [API_TREE] = "tree"};
    struct bytes help = {0}, accept = call_header(q->call, "accept");
    const char *text = api_text(q, "format");
    size_t which = API_JSON;

    (void)find_known(q->call->route, "format", &help);
    if (text && *text) {
        for (which = 0; which < ARRAY_SIZE(names) && strcmp(text, names[which]) != 0;)
            which++;
        if (which == ARRAY_SIZE(names) || !has_word(help, names[which]))
            return error_set(err, -EINVAL, "format is %.*s, not \"%.60s\"", (int)help.len,
                             (const char *)help.data, text);
    } else if (has_word(help, "tree") && http_value_has_token(accept, FLAME_WIRE_MEDIA_TYPE)) {
        which = API_TREE;
    } else if (has_word(help, "columns") && http_value_has_token(accept, SHEET_MEDIA_TYPE)) {
        which = API_COLUMNS;
    } else if (has_word(help, "ndjson") && http_value_has_token(accept, "application/x-ndjson")) {
        which = API_NDJSON;
    }
    q->format = (enum api_format)which;
    return 0;
}

static int read_range(const struct api_query *q, const char *from, const char *until,
                      struct query *ret, struct error *err)
{
    const int64_t hour = (int64_t)3600 * 1000000000;
    uint64_t seconds = 0;
    int r = api_number(q, "seconds", SECONDS_MAX, 0, &seconds, err);
    int64_t default_from = q->now_ns - (seconds > 0 ? (int64_t)seconds * 1000000000 : hour);

    if (r == 0)
        r = read_time(q, from, default_from, &ret->from_ns, err);
    if (r == 0)
        r = read_time(q, until, q->now_ns, &ret->to_ns, err);
    if (r == 0 && ret->from_ns >= ret->to_ns) {
        char a[TIME_TEXT_MAX], b[TIME_TEXT_MAX];
        return error_set(err, -EINVAL, "%s is %s, which is not after %s, %s", until,
                         time_text(ret->to_ns, a), from, time_text(ret->from_ns, b));
    }
    return r;
}

/* A type of its own is put before the brace. */
static int read_type(const struct api_query *q, struct selector *s, struct error *err)
{
    const char *text = api_text(q, "type");
    if (!text || *text == '\0')
        return 0;
    struct bytes type = bytes_of(text), unit = {0};
    const uint8_t *colon = bytes_find_last_byte(type, ':');
    if (colon) {
        unit = bytes_from(type, (size_t)(colon - type.data) + 1);
        type = bytes_head(type, (size_t)(colon - type.data));
    }
    if (s->type.len > 0 && (!bytes_equal(s->type, type) ||
                            (s->unit.len > 0 && unit.len > 0 && !bytes_equal(s->unit, unit))))
        return error_set(err, -EINVAL, "type is \"%.60s\" but the query says \"%.*s\"", text,
                         (int)(s->type.len < 60 ? s->type.len : 60), (const char *)s->type.data);
    s->type = type;
    if (unit.len > 0)
        s->unit = unit;
    return 0;
}

static int read_selector(const struct api_query *q, const char *name, struct selector **ret,
                         struct error *err)
{
    const char *text = api_text(q, name);
    int r = selector_parse(bytes_of(text ? text : ""), ret, err);
    if (r < 0)
        return error_prefix(err, r, "%s", name);
    return read_type(q, *ret, err);
}

static int read_tag_filters(const struct api_query *q, const char *name,
                            const char *ret[QUERY_TAGS_MAX + 1], struct error *err)
{
    const char *text;

    for (size_t i = 0; (text = api_text_at(q, name, i)) != NULL; i++) {
        if (i == QUERY_TAGS_MAX)
            return error_set(err, -EINVAL, "%s: more than %d of them", name, QUERY_TAGS_MAX);
        ret[i] = text;
    }
    return 0;
}

static int read_filters(const struct api_query *q, struct query *ret, struct error *err)
{
    static const char *const instants[] = {[INSTANT_AVERAGE] = "average",
                                           [INSTANT_LAST] = "last",
                                           [INSTANT_PEAK] = "peak",
                                           [INSTANT_SUM] = "sum"};
    size_t instant;
    int r = api_choice(q, "instant", API_NAMES(instants), INSTANT_AVERAGE, &instant, err);

    ret->filters = (struct query_filters){
        .focus = api_text(q, "focus"),
        .ignore = api_text(q, "ignore"),
        .hide = api_text(q, "hide"),
        .show = api_text(q, "show"),
        .show_from = api_text(q, "show_from"),
        .prune_from = api_text(q, "prune_from"),
    };
    ret->instant = (enum plan_instant)instant;
    if (r == 0)
        r = read_tag_filters(q, "tagfocus", ret->filters.tagfocus, err);
    if (r == 0)
        r = read_tag_filters(q, "tagignore", ret->filters.tagignore, err);
    if (r == 0)
        r = read_hex(q, "id", ret->id, sizeof(ret->id), &ret->has_id, err);
    if (r == 0)
        r = read_hex(q, "trace", ret->trace_id, sizeof(ret->trace_id), &ret->has_trace, err);
    if (r == 0)
        r = read_hex(q, "span", ret->span_id, sizeof(ret->span_id), &ret->has_span, err);
    return r;
}

int api_query_read(struct call *c, struct api_query *ret, struct error *err)
{
    const struct server_config *config = c->server->config;

    *ret = (struct api_query){.call = c, .now_ns = clock_wall_ns(clock_real())};
    struct query *q = &ret->query;
    q->store = c->server->store;
    q->tenant = c->tenant;
    q->memory_limit = (size_t)config->query_memory_limit;
    q->cancelled = c->cancelled;
    q->trouble = &ret->trouble;
    names_for_query(c, q);
    int r = read_params(ret, err);
    if (r == 0)
        r = check_names(ret, err);
    if (r == 0)
        r = read_format(ret, err);
    if (r == 0)
        r = read_selector(ret, "query", &ret->selector, err);
    q->selector = ret->selector;
    if (r == 0)
        r = read_range(ret, "from", "until", q, err);
    if (r == 0)
        r = read_filters(ret, q, err);
    return r == 0 && c->file ? api_file_for_query(ret, err) : r;
}

void api_query_done(struct api_query *q)
{
    selector_free(q->selector);
}

int api_side(const struct api_query *q, const char *prefix, struct query *ret,
             struct selector **ret_selector, struct error *err)
{
    char query[32], from[32], until[32];

    *ret = q->query;
    snprintf(query, sizeof(query), "%squery", prefix);
    snprintf(from, sizeof(from), "%sfrom", prefix);
    snprintf(until, sizeof(until), "%suntil", prefix);
    int r = read_selector(q, api_text(q, query) ? query : "query", ret_selector, err);
    if (r < 0)
        return r;
    ret->selector = *ret_selector;
    r = read_range(q, api_text(q, from) ? from : "from", api_text(q, until) ? until : "until", ret,
                   err);
    if (r == 0 && q->call->file)
        api_file_for_side(q->call->file, strcmp(prefix, "before_") == 0 ? 0 : 1, ret);
    return r;
}

int api_need_type(const struct api_query *q, struct error *err)
{
    CLEANUP(name_list_done) struct name_list types = {0};
    CLEANUP(buf_done) struct buf all = {0};

    if (q->query.selector->type.len > 0)
        return 0;
    int r = query_types(&q->query, &types, err);
    if (r < 0 || types.names.len <= 1)
        return r;
    for (size_t i = 0; i < types.names.len && i < 8; i++) {
        struct bytes name = types.names.data[i];
        buf_addf(&all, "%s%.*s", i > 0 ? ", " : "", (int)(name.len < 60 ? name.len : 60),
                 (const char *)name.data);
    }
    return error_set(err, -EINVAL, "the selection has several sample types: type is one of %s",
                     buf_cstr(&all));
}
