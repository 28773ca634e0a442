/*
 * /api/v1/openapi.json: what the tables of routes say of themselves, as OpenAPI 3.1, with schemas
 * of the main answers.
 */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "server/api_file.h"
#include "server/routes.h"
#include "wire/json.h"

/* ---- Schemas: a small table language, "name:kind" members separated by blanks. Kinds: s text, i
 * number, n nanoseconds in a text, b truth, f real or null, lower case behind "[" a list of it;
 * "@Name" another schema, "o" any object. */
static const struct {
    const char *name, *members;
} schemas[] = {
    {"Error", "error:s code:s"},
    {"Type", "type:s unit:s"},
    {"Types", "types:[@Type"},
    {"Labels", "labels:[s"},
    {"LabelValues", "values:[s"},
    {"Series", "labels:o types:[@Type instant:b"},
    {"SeriesList", "from_ns:n until_ns:n series:[@Series is_cut:b"},
    {"Service", "service:s types:[@Type series:i profiles:i last_seen_ns:n"},
    {"Services", "from_ns:n until_ns:n services:[@Service"},
    {"Total", "type:s unit:s total:i"},
    {"Profile", "id:s start_ns:n duration_ns:n period:i instant:b labels:o totals:[@Total"},
    {"Profiles", "from_ns:n until_ns:n profiles:[@Profile is_cut:b"},
    {"Exemplar", "trace:s span:s value:i start_ns:n id:s labels:o"},
    {"Exemplars", "from_ns:n until_ns:n exemplars:[@Exemplar is_cut:b"},
    {"Span", "trace:s span:s parent:s service:s name:s start_ns:n duration_ns:n kind:i status:i "
             "attributes:o"},
    {"SpanExample", "trace:s span:s start_ns:n duration_ns:n"},
    {"SpanGroup", "service:s name:s count:i errors:i p50_ns:n p95_ns:n p99_ns:n max_ns:n "
                  "total_ns:n value:i newest:@SpanExample slowest:@SpanExample"},
    {"SpanGroups", "from_ns:n until_ns:n spans:i left_out:i has_values:b values_cut:b all_groups:i "
                   "groups:[@SpanGroup"},
    {"Spans", "from_ns:n until_ns:n spans:[@Span is_cut:b"},
    {"Source", "file:s found:s service:s version:s commit:s repository:s path:s is_exact:b text:s "
               "link:s line_anchor:s"},
    {"SourceSet", "service:s version:s commit:s bytes:i time:s"},
    {"SourceSets", "limit:i sets:[@SourceSet"},
    {"Frames", "name:[s file:[s line:[i type:[s binary:[s build_id:[s"},
    {"FlameNodes", "parent:[i frame:[i self:[i total:[i hidden_children:[i hidden:[i"},
    {"Flame", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
              "warnings:[s cut_nodes:i "
              "cut:i max_depth:i frames:@Frames nodes:@FlameNodes"},
    {"Row", "name:s file:s flat:i cum:i"},
    {"Top", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
            "warnings:[s all_rows:i "
            "rows:[@Row"},
    {"LineRow", "name:s file:s line:i flat:i cum:i"},
    {"Lines", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
              "warnings:[s all_rows:i "
              "rows:[@LineRow"},
    {"Call", "name:s file:s cum:i"},
    {"Function", "name:s flat:i cum:i"},
    {"Callers",
     "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i warnings:[s "
     "function:@Function callers:[@Call callees:[@Call"},
    {"Search", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
               "warnings:[s matched_cum:i matched_flat:i functions:i"},
    {"TagValue", "value:s total:i filter:s"},
    {"Tag", "name:s filter:s total:i not_set:i other:i repeated:i all_values:i values:[@TagValue"},
    {"Tags", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
             "warnings:[s all_tags:i tags:[@Tag"},
    {"Edge", "caller:i callee:i value:i is_inline:i is_residual:i"},
    {"Graph", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
              "warnings:[s nodes:[@Row "
              "edges:[@Edge"},
    {"StackColumns", "value:[i end:[i"},
    {"StackFrames", "frame:[i"},
    {"Stacks", "from_ns:n until_ns:n type:s unit:s types:[@Type total:i samples:i profiles:i "
               "warnings:[s all_stacks:i "
               "frames:@Frames stacks:@StackColumns stack_frames:@StackFrames"},
    {"Group", "labels:o total:i"},
    {"Points", "group:[i start_ns:[n value:[i flat:[i profiles:[i"},
    {"Timeline",
     "from_ns:n until_ns:n type:s unit:s step_ns:n all_groups:i groups:[@Group points:@Points"},
    {"Cells", "column:[i row:[i value:[i"},
    {"HeatMap", "from_ns:n until_ns:n type:s unit:s start_ns:n column_ns:n n_columns:i n_rows:i "
                "max:i cells:@Cells"},
    {"Side", "query:s from_ns:n until_ns:n type:s unit:s total:i samples:i profiles:i"},
    {"DiffNodes", "parent:[i frame:[i before_self:[i before_total:[i after_self:[i after_total:[i "
                  "hidden_children:[i significant:[i"},
    {"Diff", "has_statistics:b type:s unit:s total:i before:@Side after:@Side cut_nodes:i cut:i "
             "max_depth:i "
             "frames:@Frames "
             "nodes:@DiffNodes"},
    {"DiffRow",
     "name:s file:s before_flat:i after_flat:i flat_change:i flat_share_change:f flat_ratio:f "
     "flat_significant:i "
     "before_cum:i after_cum:i cum_change:i cum_share_change:f cum_ratio:f cum_significant:i"},
    {"DiffTable",
     "has_statistics:b type:s unit:s total:i before:@Side after:@Side all_rows:i rows:[@DiffRow"},
    {"Constructor", "name:s type:s count:i shallow:i retained:i detached:i"},
    {"FileType", "type:s unit:s total:i"},
    {"FileInfo",
     "format:s title:s profiles:i samples:i stacks:i max_depth:i functions:i nameless:i "
     "types:[@FileType default_type:s is_instant:b period:i period_type:@Type start_ns:n "
     "duration_ns:n has_times:b has_spans:b labels:[s resources:[o comments:[s notes:[s "
     "all_constructors:i constructors:[@Constructor"},
    {"Stat",
     "version:s tenant:s now_ns:n start_ns:n is_draining:b roles:[s retention:o limits:o store:o"},
};

/* Which of them a path answers with. */
static const struct {
    const char *path, *schema;
} answers[] = {
    {"/api/v1/types", "Types"},
    {"/api/v1/labels", "Labels"},
    {"/api/v1/label_values", "LabelValues"},
    {"/api/v1/series", "SeriesList"},
    {"/api/v1/services", "Services"},
    {"/api/v1/profiles", "Profiles"},
    {"/api/v1/profile", "Profile"},
    {"/api/v1/exemplars", "Exemplars"},
    {"/api/v1/spans", "Spans"},
    {"/api/v1/span_groups", "SpanGroups"},
    {"/api/v1/source", "Source"},
    {"/api/v1/sources", "SourceSets"},
    {"/api/v1/flame", "Flame"},
    {"/api/v1/top", "Top"},
    {"/api/v1/lines", "Lines"},
    {"/api/v1/callers", "Callers"},
    {"/api/v1/search", "Search"},
    {"/api/v1/tags", "Tags"},
    {"/api/v1/graph", "Graph"},
    {"/api/v1/stacks", "Stacks"},
    {"/api/v1/timeline", "Timeline"},
    {"/api/v1/function", "Timeline"},
    {"/api/v1/heatmap", "HeatMap"},
    {"/api/v1/diff", "Diff"},
    {"/api/v1/diff/table", "DiffTable"},
    {"/api/v1/file/info", "FileInfo"},
    {"/api/v1/stat", "Stat"},
};

static void write_pair(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, key);
    json_cstring(w, value);
}

static void write_ref(struct json_writer *w, struct bytes name)
{
    CLEANUP(buf_done) struct buf ref = {0};
    buf_add_str(&ref, "#/components/schemas/");
    buf_add_bytes(&ref, name);
    json_key(w, "$ref");
    json_string(w, buf_bytes(&ref));
}

static void write_kind(struct json_writer *w, struct bytes kind)
{
    json_begin_object(w);
    bool is_list = kind.len > 0 && kind.data[0] == '[';
    struct bytes of = bytes_from(kind, is_list);
    if (is_list) {
        write_pair(w, "type", "array");
        json_key(w, "items");
        json_begin_object(w);
    }
    switch (of.len > 0 ? of.data[0] : 0) {
    case '@':
        write_ref(w, bytes_from(of, 1));
        break;
    case 'i':
        write_pair(w, "type", "integer");
        write_pair(w, "format", "int64");
        break;
    case 'n':
        write_pair(w, "type", "string");
        write_pair(w, "description", "nanoseconds");
        break;
    case 'b':
        write_pair(w, "type", "boolean");
        break;
    case 'f':
        json_key(w, "type");
        json_begin_array(w);
        json_cstring(w, "number");
        json_cstring(w, "null");
        json_end_array(w);
        break;
    case 'o':
        write_pair(w, "type", "object");
        break;
    default:
        write_pair(w, "type", "string");
    }
    if (is_list)
        json_end_object(w);
    json_end_object(w);
}

static void write_schema(struct json_writer *w, const char *members)
{
    json_begin_object(w);
    write_pair(w, "type", "object");
    json_key(w, "properties");
    json_begin_object(w);
    while (*members) {
        struct bytes member = {(const uint8_t *)members, strcspn(members, " ")};
        size_t name = strcspn(members, ":");
        json_key_bytes(w, bytes_head(member, name));
        write_kind(w, bytes_from(member, name + 1));
        members += member.len;
        members += strspn(members, " ");
    }
    json_end_object(w);
    json_end_object(w);
}

static void write_components(struct json_writer *w)
{
    json_key(w, "components");
    json_begin_object(w);
    json_key(w, "schemas");
    json_begin_object(w);
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
        json_key(w, schemas[i].name);
        write_schema(w, schemas[i].members);
    }
    json_end_object(w);
    json_key(w, "securitySchemes");
    json_begin_object(w);
    json_key(w, "token");
    json_begin_object(w);
    write_pair(w, "type", "http");
    write_pair(w, "scheme", "bearer");
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

/* ---- Operations */

static bool is_repeated(struct bytes name)
{
    static const char *const names[] = {"by", "under", "tagfocus", "tagignore"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (bytes_are(name, names[i]))
            return true;
    return false;
}

static void write_param_schema(struct json_writer *w, struct bytes name)
{
    json_begin_object(w);
    if (is_repeated(name)) {
        write_pair(w, "type", "array");
        json_key(w, "items");
        json_begin_object(w);
        write_pair(w, "type", "string");
        json_end_object(w);
    } else {
        write_pair(w, "type", "string");
    }
    json_end_object(w);
}

static void write_param(struct json_writer *w, const struct api_known *k)
{
    json_begin_object(w);
    json_key(w, "name");
    json_string(w, k->name);
    write_pair(w, "in", "query");
    json_key(w, "required");
    json_bool(w, k->is_required);
    json_key(w, "description");
    json_string(w, k->help);
    json_key(w, "schema");
    write_param_schema(w, k->name);
    json_end_object(w);
}

static void write_params(struct json_writer *w, const struct route *r, bool is_wild)
{
    struct bytes rest = bytes_of(r->params ? r->params : "");
    json_key(w, "parameters");
    json_begin_array(w);
    if (is_wild) {
        json_begin_object(w);
        write_pair(w, "name", "rest");
        write_pair(w, "in", "path");
        json_key(w, "required");
        json_bool(w, true);
        json_key(w, "schema");
        write_param_schema(w, BYTES("rest"));
        json_end_object(w);
    }
    for (struct api_known k; api_known_next(&rest, &k);)
        write_param(w, &k);
    json_end_array(w);
}

#define ROOT      "/api/v1/"
#define FILE_ROOT ROOT "file/"

static bool is_of_file(const struct route *r)
{
    return strncmp(r->path, FILE_ROOT, strlen(FILE_ROOT)) == 0;
}

/* A path may have another route for what is sent to it. A file's answer is the question's. */
static const char *answer_of(const struct route *r)
{
    const char *name = is_of_file(r) ? r->path + strlen(FILE_ROOT) : NULL;

    if (!strstr(r->method, "GET") && !name)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (strcmp(answers[i].path, r->path) == 0 ||
            (name && strcmp(answers[i].path + strlen(ROOT), name) == 0))
            return answers[i].schema;
    return NULL;
}

/* A body that is a file. */
static void write_file_body(struct json_writer *w)
{
    json_key(w, "requestBody");
    json_begin_object(w);
    json_key(w, "required");
    json_bool(w, true);
    json_key(w, "content");
    json_begin_object(w);
    json_key(w, "application/octet-stream");
    json_begin_object(w);
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

/* The same parameters, sent as a form or as a JSON object. */
static void write_body(struct json_writer *w, const struct route *r, const char *media_type)
{
    struct bytes rest = bytes_of(r->params ? r->params : "");
    json_key(w, media_type);
    json_begin_object(w);
    json_key(w, "schema");
    json_begin_object(w);
    write_pair(w, "type", "object");
    json_key(w, "properties");
    json_begin_object(w);
    for (struct api_known k; api_known_next(&rest, &k);) {
        json_key_bytes(w, k.name);
        write_param_schema(w, k.name);
    }
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void write_content(struct json_writer *w, const char *media_type, const char *schema)
{
    json_key(w, "content");
    json_begin_object(w);
    json_key(w, media_type);
    json_begin_object(w);
    if (schema) {
        json_key(w, "schema");
        json_begin_object(w);
        write_ref(w, bytes_of(schema));
        json_end_object(w);
    }
    json_end_object(w);
    json_end_object(w);
}

static void write_responses(struct json_writer *w, const struct route *r)
{
    const char *schema = answer_of(r);
    json_key(w, "responses");
    json_begin_object(w);
    json_key(w, "200");
    json_begin_object(w);
    write_pair(w, "description", r->summary);
    if (schema)
        write_content(w, "application/json", schema);
    json_end_object(w);
    json_key(w, "default");
    json_begin_object(w);
    write_pair(w, "description", "why not");
    if (r->dialect == DIALECT_PLAIN)
        write_content(w, "application/json", "Error");
    json_end_object(w);
    json_end_object(w);
}

static void write_operation(struct json_writer *w, const struct route *r, const char *method,
                            bool is_wild)
{
    CLEANUP(buf_done) struct buf id = {0};
    bool is_question = strcmp(r->method, "GET|POST") == 0;

    buf_add_str(&id, method);
    for (const char *p = r->path; *p; p++)
        buf_add_byte(&id, isalnum((unsigned char)*p) ? (uint8_t)*p : (uint8_t)'_');
    json_key(w, method);
    json_begin_object(w);
    json_key(w, "operationId");
    json_string(w, buf_bytes(&id));
    write_pair(w, "summary", r->summary);
    write_params(w, r, is_wild);
    if (strcmp(method, "post") == 0 && is_question) {
        json_key(w, "requestBody");
        json_begin_object(w);
        json_key(w, "content");
        json_begin_object(w);
        write_body(w, r, "application/json");
        write_body(w, r, "application/x-www-form-urlencoded");
        json_end_object(w);
        json_end_object(w);
    }
    if (is_of_file(r))
        write_file_body(w);
    write_responses(w, r);
    if (r->role != ROLE_ANYONE) {
        json_key(w, "security");
        json_begin_array(w);
        json_begin_object(w);
        json_end_object(w);
        json_begin_object(w);
        json_key(w, "token");
        json_begin_array(w);
        json_end_array(w);
        json_end_object(w);
        json_end_array(w);
    }
    json_end_object(w);
}

/* Whether an earlier route has this path: its methods are then written there. */
static bool is_first(size_t n)
{
    const struct route *r = route_at(n);
    for (size_t i = 0; i < n; i++)
        if (route_at(i)->summary && strcmp(route_at(i)->path, r->path) == 0)
            return false;
    return true;
}

static void write_methods(struct json_writer *w, const struct route *r, bool is_wild)
{
    for (const char *m = r->method; *m;) {
        char method[16] = "";
        size_t n = strcspn(m, "|");
        for (size_t i = 0; i < n && i + 1 < sizeof(method); i++)
            method[i] = (char)tolower((unsigned char)m[i]);
        write_operation(w, r, method, is_wild);
        m += n + (m[n] == '|');
    }
}

/* The same questions, of a file in the body. */
static void write_file_paths(struct json_writer *w, struct arena *arena)
{
    const struct route *r;

    for (size_t i = 0; (r = api_file_route_at(i, arena)); i++) {
        json_key(w, r->path);
        json_begin_object(w);
        write_methods(w, r, false);
        json_end_object(w);
    }
}

static void write_path(struct json_writer *w, size_t n)
{
    CLEANUP(buf_done) struct buf path = {0};
    const struct route *r = route_at(n);
    size_t len = strlen(r->path);
    bool is_wild = r->path[len - 1] == '*';

    buf_add(&path, r->path, len - is_wild);
    if (is_wild)
        buf_add_str(&path, "{rest}");
    json_key_bytes(w, buf_bytes(&path));
    json_begin_object(w);
    for (size_t i = n; route_at(i); i++)
        if (route_at(i)->summary && strcmp(route_at(i)->path, r->path) == 0)
            write_methods(w, route_at(i), is_wild);
    json_end_object(w);
}

static int handle(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};

    (void)err;
    json_begin_object(&w);
    write_pair(&w, "openapi", "3.1.0");
    json_key(&w, "info");
    json_begin_object(&w);
    write_pair(&w, "title", "Vesta");
    write_pair(&w, "version", VESTA_VERSION);
    json_end_object(&w);
    json_key(&w, "paths");
    json_begin_object(&w);
    for (size_t i = 0; route_at(i); i++)
        if (route_at(i)->summary && is_first(i))
            write_path(&w, i);
    write_file_paths(&w, call_arena(c));
    json_end_object(&w);
    write_components(&w);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    call_reply(c, "application/json", &out);
    return 0;
}

const struct route openapi_routes[] = {
    {.method = "GET",
     .path = "/api/v1/openapi.json",
     .role = ROLE_ANYONE,
     .lane = LANE_QUERY,
     .handle = handle,
     .summary = "This description"},
    {0},
};
