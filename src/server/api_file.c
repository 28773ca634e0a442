#include "server/api_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "formats/formats.h"
#include "profile/filter.h"
#include "profile/merge.h"
#include "profile/span_links.h"
#include "server/api_answer.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "symbols/symbolizer.h"

#define PREFIX "/api/v1/file/"

/* A profile of a large body may become so many times as large, as one that is stored may. */
#define LARGE_FACTOR 3

/* A side's bytes of the body. */
struct file_part {
    struct api_file *file;
    const char *name; /* for messages */
    uint64_t at, len;
    struct query *asked; /* gets the profile's own range */
};

struct api_file {
    struct call *call;
    bool compares;
    const struct format *format; /* given, or NULL */
    struct file_part parts[2];
};

/* ---- What the parameters say */

static uint64_t body_len(const struct call *c)
{
    return c->request->body_file >= 0 ? c->request->body_len : c->body.len;
}

static int read_format(struct api_file *f, const struct api_query *q, struct error *err)
{
    const char *name = api_text(q, "input_format");

    if (!name || !*name)
        return 0;
    f->format = format_by_name(name);
    if (!f->format || !f->format->decode)
        return error_set(err, -EINVAL, "input_format: no format \"%.40s\" can be read", name);
    return 0;
}

/* Other than api_number() this takes 0. */
static int read_length(const struct api_query *q, const char *name, uint64_t *ret,
                       struct error *err)
{
    const char *text = api_text(q, name);

    *ret = 0;
    if (text && !bytes_to_u64(bytes_of(text), ret))
        return error_set(err, -EINVAL, "%s takes a number of bytes, not \"%.60s\"", name, text);
    return 0;
}

static int read_parts(struct api_file *f, const struct api_query *q, struct error *err)
{
    uint64_t before, after, len = body_len(f->call), sum;
    int r = read_length(q, "before_bytes", &before, err);
    if (r == 0)
        r = read_length(q, "after_bytes", &after, err);
    if (r < 0)
        return r;
    if (__builtin_add_overflow(before, after, &sum) || sum != len)
        return error_set(err, -EINVAL,
                         "before_bytes and after_bytes say how much of the body is whose file: "
                         "%" PRIu64 " and %" PRIu64 " are not the %" PRIu64 " that it has",
                         before, after, len);
    if (sum == 0)
        return error_set(err, -EINVAL, "the body holds no file: ask /api/v1/diff");
    if (f->call->request->body_file >= 0 && call_header(f->call, "content-encoding").len > 0)
        return error_set(err, -EMEDIUMTYPE,
                         "a body of this size cannot be packed as a whole: pack the files in it");
    f->parts[0] = (struct file_part){.file = f, .name = "the file before", .len = before};
    f->parts[1] =
        (struct file_part){.file = f, .name = "the file after", .at = before, .len = after};
    return 0;
}

/* What is large takes turns, as it does when it is stored. */
static void ration(struct call *c, struct query *q)
{
    uint64_t large = LARGE_FACTOR * c->server->config->body_limit;

    if (body_len(c) <= WORKER_UNPACK_BYTES)
        return;
    worker_take_turn(c->worker);
    if (q->memory_limit < large)
        q->memory_limit = (size_t)large;
}

int api_file_for_query(struct api_query *q, struct error *err)
{
    struct api_file *f = q->call->file;
    int r = read_format(f, q, err);

    if (r < 0)
        return r;
    ration(q->call, &q->query);
    if (f->compares)
        return read_parts(f, q, err);
    if (body_len(q->call) == 0)
        return error_set(err, -EBADMSG, "the body is empty: send a profile in it");
    f->parts[0] = (struct file_part){.file = f, .name = "the body", .len = body_len(q->call)};
    api_file_for_side(f, 0, &q->query);
    return 0;
}

/* ---- From bytes to a profile */

static int open_part(const struct file_part *part, struct budget *budget, struct input **ret,
                     struct error *err)
{
    struct call *c = part->file->call;
    char path[64];

    if (c->request->body_file >= 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", c->request->body_file);
        CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || lseek(fd, (off_t)part->at, SEEK_SET) < 0)
            return error_set(err, -errno, "could not open the body's file again: %m");
        *ret = input_from_fd(TAKE_FD(fd), part->name, budget);
        input_set_source(*ret, part->len);
    } else {
        struct bytes content = bytes_head(bytes_from(c->body, part->at), part->len);
        *ret = input_from_bytes(content, part->name, budget);
    }
    input_set_limit(*ret, c->server->config->upload_limit);
    return 0;
}

/* Only snapshots may be as large as uploads are; nothing else is read bit by bit. */
static int check_size(const struct file_part *part, const struct format *format, struct error *err)
{
    uint64_t limit = part->file->call->server->config->body_limit;

    if (format == &format_heapsnapshot || part->len <= limit)
        return 0;
    return error_set(err, -EFBIG,
                     "%s of %" PRIu64 " bytes is larger than limits.body, %" PRIu64
                     ": only heap snapshots may be",
                     part->name, part->len, limit);
}

static int decode_part(const struct file_part *part, struct profile_set *set,
                       const struct format **ret_format, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    size_t before = set->profiles.len;
    struct bytes head = {0};

    int r = open_part(part, set->budget, &in, err);
    if (r == 0)
        r = input_peek(in, &head, err);
    if (r < 0)
        return r;
    *ret_format = part->file->format ? part->file->format : format_detect(head);
    if (*ret_format)
        r = check_size(part, *ret_format, err);
    if (r == 0)
        r = format_read(in, *ret_format, set, ret_format, err);
    if (r == 0 && set->profiles.len == before)
        r = error_set(err, -EBADMSG, "%s: there is no profile in it", part->name);
    return r;
}

/* Names by build id from the server's debug files, then readable ones for the linker's. Nothing of
 * this machine is looked at. */
static int name_frames(const struct query *q, struct profile_set *set, struct error *err)
{
    const struct symbolizer_options nothing = {
        .search_path = "", .only_by_build_id = true, .max_memory = q->memory_limit};
    int r = q->resolve ? q->resolve(q->resolve_ctx, set, err) : 0;

    return r < 0 ? r : symbolize(set, &nothing, NULL, err);
}

int api_file_read(struct call *c, struct profile_set *set, const struct format **ret_format,
                  struct error *err)
{
    return decode_part(&c->file->parts[0], set, ret_format, err);
}

static bool is_linked(const struct query *q, const struct link *l)
{
    return (!q->has_trace || memcmp(l->trace_id, q->trace_id, sizeof(q->trace_id)) == 0) &&
           (!q->has_span || memcmp(l->span_id, q->span_id, sizeof(q->span_id)) == 0);
}

static void keep_linked(const struct query *q, struct profile *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        if (is_linked(q, &p->dict->links.data[profile_link(p, i)]))
            profile_move_row(p, i, n++);
    }
    p->n_samples = n;
}

/* What would keep equal stacks apart, for questions that do not ask for it. */
static void drop_labels(struct profile *p)
{
    if (p->attrs && p->n_samples > 0)
        memset(p->attrs, 0, p->n_samples * sizeof(*p->attrs));
    p->resource_attrs = 0;
}

static bool wants_labels(const struct query *q)
{
    return q->with_labels || query_filters_need_labels(&q->filters);
}

/* The profiles from `first` on become one, as the command line adds them up (cli/load.c). */
static int merge(const struct query *q, struct profile_set *set, size_t first, struct error *err)
{
    struct profile **all = set->profiles.data + first;
    size_t n = set->profiles.len - first;
    bool drop_zero = n > 1 || all[0]->time_ns;

    for (size_t i = 0; i < n; i++) {
        if (q->has_trace || q->has_span)
            keep_linked(q, all[i]);
        if (!wants_labels(q))
            drop_labels(all[i]);
        if (all[i]->link && all[i]->n_samples > 0 && !q->with_labels)
            memset(all[i]->link, 0, all[i]->n_samples * sizeof(*all[i]->link));
    }
    struct profile *sum =
        profile_merge(set->dict, all, n, (struct merge_options){.drop_zero = drop_zero});
    profile_set_truncate(set, first);
    if (!sum || !vec_push(set->budget, &set->profiles, sum)) {
        profile_free(sum);
        return budget_error(set->budget, err);
    }
    return 0;
}

/* Leaves the columns that the question names: those of the selector, or the one that the command
 * line's -sample_index would be. */
static int choose_type(const struct query *q, struct profile **p, struct error *err)
{
    const struct selector *s = q->selector;
    uint32_t columns[PROFILE_TYPES_MAX], n = 0;
    char name[128];

    if (s->type.len == 0)
        return 0;
    for (uint32_t i = 0; i < (*p)->n_types; i++) {
        const struct value_type *t = &(*p)->types[i];
        if (selector_takes(s, dict_text((*p)->dict, t->type), dict_text((*p)->dict, t->unit)))
            columns[n++] = i;
    }
    if (n == 0) {
        snprintf(name, sizeof(name), "%.*s", (int)s->type.len, (const char *)s->type.data);
        int r = profile_find_index(*p, name, &columns[n++], err);
        if (r < 0)
            return error_prefix(err, -EINVAL, "type");
    }
    struct profile *only = profile_copy(*p, columns, n);
    if (!only)
        return budget_error((*p)->dict->budget, err);
    profile_free(*p);
    *p = only;
    return 0;
}

/* struct query, supply. */
static int supply(void *ctx, const struct query *q, struct profile_set *set, struct profile **ret,
                  uint64_t *ret_n, struct error *err)
{
    struct file_part *part = ctx;
    const struct format *format = NULL;
    size_t first = set->profiles.len;

    int r = decode_part(part, set, &format, err);
    *ret_n = set->profiles.len - first;
    if (r == 0 && (q->has_trace || q->has_span))
        r = span_links_make(set, first, err);
    if (r == 0)
        r = name_frames(q, set, err);
    if (r == 0)
        r = merge(q, set, first, err);
    if (r == 0)
        r = choose_type(q, &set->profiles.data[first], err);
    if (r < 0)
        return r;
    struct profile *p = set->profiles.data[first];
    r = profile_drop_frames(p, q->cancelled, err);
    if (r < 0)
        return error_prefix(err, r, "drop_frames of the profile");
    if (q->cancelled && atomic_load(q->cancelled))
        return error_set(err, -ECANCELED, "the question was given up while frames were dropped");
    part->asked->from_ns = p->time_unix_ns;
    if (__builtin_add_overflow(p->time_unix_ns, p->duration_ns, &part->asked->to_ns))
        part->asked->to_ns = p->time_unix_ns;
    *ret = p;
    return 0;
}

void api_file_for_side(struct api_file *f, size_t side, struct query *ret)
{
    if (f->parts[side].len == 0)
        return;
    f->parts[side].asked = ret;
    ret->supply = supply;
    ret->supply_ctx = &f->parts[side];
}

/* ---- Times */

/* The column of a profile that is asked for, by the first profile's name for it. */
static bool find_column(const struct profile *p, struct value_type type, uint32_t *ret)
{
    for (*ret = 0; *ret < p->n_types; (*ret)++)
        if (p->types[*ret].type == type.type && p->types[*ret].unit == type.unit)
            return true;
    return false;
}

static bool take_times(const struct profile *p, struct value_type type, struct api_times *ret)
{
    uint32_t column;

    if (!p->time_ns || !find_column(p, type, &column))
        return true;
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t at = (int64_t)p->time_ns[i];
        if (at > 0 &&
            !vec_push(&ret->budget, &ret->all, (struct api_time){at, p->values[column][i]}))
            return false;
    }
    return true;
}

static int choose_column(const struct query *q, struct api_times *t, struct value_type *ret,
                         struct error *err)
{
    struct profile *first = profile_copy(t->set->profiles.data[0], NULL, 0);
    uint32_t column = 0;

    if (!first)
        return budget_error(&t->budget, err);
    int r = choose_type(q, &first, err);
    if (r == 0)
        r = profile_find_index(first, NULL, &column, err);
    if (r == 0)
        *ret = first->types[column];
    profile_free(first);
    return r;
}

int api_file_times(struct api_query *q, struct api_times *ret, struct error *err)
{
    const struct format *format = NULL;
    struct value_type type = {0};
    int64_t first = INT64_MAX, last = 0;

    budget_init(&ret->budget, q->query.memory_limit);
    ret->set = profile_set_new(&ret->budget);
    int r = api_file_read(q->call, ret->set, &format, err);
    if (r == 0)
        r = choose_column(&q->query, ret, &type, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ret->set->profiles.len; i++)
        if (!take_times(ret->set->profiles.data[i], type, ret))
            return budget_error(&ret->budget, err);
    if (ret->all.len == 0)
        return error_set(err, -ENODATA, "samples of this file do not say when they were taken");
    for (size_t i = 0; i < ret->all.len; i++) {
        first = ret->all.data[i].at_ns < first ? ret->all.data[i].at_ns : first;
        last = ret->all.data[i].at_ns > last ? ret->all.data[i].at_ns : last;
    }
    q->query.from_ns = first;
    q->query.to_ns = last < INT64_MAX ? last + 1 : last;
    ret->type = (struct store_type){dict_text(ret->set->dict, type.type),
                                    dict_text(ret->set->dict, type.unit)};
    return 0;
}

void api_times_done(struct api_times *t)
{
    if (!t->set)
        return;
    vec_done(&t->budget, &t->all);
    profile_set_free(t->set);
}

/* ---- Routes */

static int handle_info(struct call *c, struct error *err)
{
    return api_answer_untagged(c, api_file_info, err);
}

static const struct route info_route = {
    .path = "/api/v1/info", .handle = handle_info, .summary = "What a profile is", .params = ""};

/* What can be asked, by its name under /api/v1. */
static const struct {
    const char *name;
    bool compares;
} questions[] = {
    {"info", false},
    {"flame", false},
    {"top", false},
    {"callers", false},
    {"lines", false},
    {"graph", false},
    {"stacks", false},
    {"search", false},
    {"tags", false},
    {"heatmap", false},
    {"diff", true},
    {"diff/table", true},
    {"profile.pb.gz", false},
    {"profile.otlp", false},
    {"profile.json", false},
    {"profile.folded", false},
    {"profile.speedscope.json", false},
    {"flame.svg", false},
    {"flame.html", false},
    {"diff.html", true},
};

/* A file has no range, no labels of its series, and no other moments. */
static bool is_for_store(struct bytes name)
{
    static const char *const names[] = {"query", "from", "until", "id", "instant", "seconds"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (bytes_are(name, names[i]))
            return true;
    return false;
}

#define P_FILE "input_format: the file's format, when content does not tell; "
#define P_COMPARES                                                                                 \
    "before_bytes: how much of the body is the file before, 0 when the store has that side; "      \
    "after_bytes: how much of it, behind that, is the file after; " P_FILE

static const char *make_params(const struct route *r, bool compares, struct arena *arena)
{
    CLEANUP(buf_done) struct buf out = {.budget = arena->budget};
    struct bytes rest = bytes_of(r->params ? r->params : "");

    for (struct api_known k; api_known_next(&rest, &k);) {
        if (!compares && is_for_store(k.name))
            continue;
        buf_add_bytes(&out, k.name);
        buf_add_str(&out, k.is_required ? "!: " : ": ");
        buf_add_bytes(&out, k.help);
        buf_add_str(&out, "; ");
    }
    buf_add_str(&out, compares ? P_COMPARES : P_FILE);
    return buf_full(&out) ? NULL : arena_strdup(arena, buf_bytes(&out));
}

/* The question's own route, put to a file. NULL when there is none, or no memory. */
static const struct route *make_route(size_t n, struct arena *arena)
{
    char path[64];
    const struct route *asked = &info_route;
    const char *methods;

    snprintf(path, sizeof(path), "/api/v1/%s", questions[n].name);
    if (n > 0 && route_find(BYTES("POST"), bytes_of(path), &asked, &methods) < 0)
        return NULL;
    struct route *r = arena_new(arena, struct route, 1);
    if (!r)
        return NULL;
    *r = *asked;
    snprintf(path, sizeof(path), PREFIX "%s", questions[n].name);
    r->method = "POST";
    r->path = arena_strdup(arena, bytes_of(path));
    r->role = ROLE_READ;
    r->lane = LANE_QUERY;
    r->body_limit = ROUTE_UPLOAD;
    r->params = make_params(asked, questions[n].compares, arena);
    return r->path && r->params ? r : NULL;
}

const struct route *api_file_route_at(size_t n, struct arena *arena)
{
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        const struct route *r = make_route(i, arena);
        if (r && n-- == 0)
            return r;
    }
    return NULL;
}

static int refuse(struct bytes name, struct error *err)
{
    if (bytes_are(name, "timeline") || bytes_are(name, "function"))
        return error_set(err, -EOPNOTSUPP,
                         "a file is one moment: what lies over time is answered of stored profiles "
                         "(POST /api/v1/profiles)");
    return error_set(err, -ENOENT, "\"%.*s\" is nothing that a file can be asked",
                     (int)(name.len < 60 ? name.len : 60), (const char *)name.data);
}

static int handle(struct call *c, struct error *err)
{
    const struct route *outer = c->route;
    size_t n = 0;

    while (n < ARRAY_SIZE(questions) && !bytes_are(c->rest, questions[n].name))
        n++;
    const struct route *r =
        n < ARRAY_SIZE(questions) ? make_route(n, call_arena(c)) : (const struct route *)NULL;
    if (!r)
        return budget_failed(&c->budget) ? budget_error(&c->budget, err) : refuse(c->rest, err);
    c->file = arena_new(call_arena(c), struct api_file, 1);
    if (!c->file)
        return budget_error(&c->budget, err);
    *c->file = (struct api_file){.call = c, .compares = questions[n].compares};
    c->route = r;
    int result = r->handle(c, err);
    c->route = outer;
    return result;
}

const struct route api_file_routes[] = {
    {.method = "POST",
     .path = PREFIX "*",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .body_limit = ROUTE_UPLOAD,
     .handle = handle},
    {0},
};
