#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "query/time_range.h"
#include "server/admin.h"
#include "server/api_answer.h"
#include "server/server_internal.h"
#include "server/source_link.h"
#include "server/source_path.h"
#include "server/sources.h"
#include "wire/json.h"

/*
 * Source files behind a profile: uploaded ones, those of a folder that the operator mapped, or a
 * link to where they are hosted.
 */

/* ---- What is known about the code */

#define FACT_MAX 256

/* Facts by label; what the caller gives counts more than what series say. */
enum fact { FACT_SERVICE, FACT_VERSION, FACT_COMMIT, FACT_REPOSITORY, FACTS };
static const struct {
    const char *label, *param;
} fact_names[FACTS] = {
    [FACT_SERVICE] = {LABEL_SERVICE, "service"},
    [FACT_VERSION] = {LABEL_VERSION, "version"},
    [FACT_COMMIT] = {"vcs.ref.head.revision", "commit"},
    [FACT_REPOSITORY] = {"vcs.repository.url.full", "repository"},
};

struct facts {
    char text[FACTS][FACT_MAX];
    bool is_given[FACTS];
    size_t n_best; /* how much the best series knew */
};

static struct bytes fact(const struct facts *f, enum fact which)
{
    return bytes_of(f->text[which]);
}

/* Takes the series that agrees with what is given and knows most. */
static int on_series(void *ctx, const struct store_series *s)
{
    struct facts *f = ctx;
    struct bytes said[FACTS];
    size_t n = 0;

    for (size_t i = 0; i < FACTS; i++) {
        said[i] = label_value(s->labels, s->n_labels, bytes_of(fact_names[i].label));
        if (f->is_given[i] && said[i].len > 0 && !bytes_are(said[i], f->text[i]))
            return 0;
        n += said[i].len > 0 && said[i].len < FACT_MAX;
    }
    if (n <= f->n_best)
        return 0;
    f->n_best = n;
    for (size_t i = 0; i < FACTS; i++)
        if (!f->is_given[i] && said[i].len < FACT_MAX)
            snprintf(f->text[i], FACT_MAX, "%.*s", (int)said[i].len, (const char *)said[i].data);
    return 0;
}

static int read_facts(struct api_query *q, struct facts *f, struct error *err)
{
    const struct query *query = &q->query;
    struct store_scope scope = {.tenant = query->tenant,
                                .selector = query->selector,
                                .from_ns = query->from_ns,
                                .to_ns = query->to_ns};

    for (size_t i = 0; i < FACTS; i++) {
        const char *given = api_text(q, fact_names[i].param);
        f->is_given[i] = given && *given;
        if (f->is_given[i] && strlen(given) >= FACT_MAX)
            return error_set(err, -EINVAL, "%s is longer than %d bytes", fact_names[i].param,
                             FACT_MAX - 1);
        snprintf(f->text[i], FACT_MAX, "%s", given ? given : "");
    }
    return store_series(query->store, &scope, on_series, f, err);
}

/* ---- Uploaded */

struct source {
    const char *found; /* "uploaded", "map", "none" */
    struct buf name;   /* its place in the tree, when it is known */
    struct buf text;
    bool is_exact; /* of the very revision, as far as that is known */
};

static void source_done(struct source *s)
{
    buf_done(&s->name);
    buf_done(&s->text);
}

struct newest_set {
    struct bytes service;
    struct source_set set;
};

static int keep_newest(void *ctx, const struct source_set *set)
{
    struct newest_set *n = ctx;

    if (bytes_are(n->service, set->service) && set->time_ns > n->set.time_ns)
        n->set = *set;
    return 0;
}

static bool find_in(struct sources *all, const struct source_key *key, struct bytes path,
                    struct source *ret)
{
    if (key->revision.len == 0 || sources_find(all, key, path, &ret->name, &ret->text, NULL) < 0)
        return false;
    ret->found = "uploaded";
    return true;
}

/* The commit's, the version's, or else the newest of the service. */
static bool find_uploaded(struct api_query *q, const struct facts *f, struct bytes path,
                          struct source *ret)
{
    struct sources *all = q->call->server->sources;
    struct source_key key = {.tenant = q->query.tenant, .service = fact(f, FACT_SERVICE)};
    struct newest_set newest = {.service = key.service};

    if (!all || key.service.len == 0)
        return false;
    ret->is_exact = true;
    key.revision = fact(f, FACT_COMMIT);
    key.is_commit = true;
    if (find_in(all, &key, path, ret))
        return true;
    key.revision = fact(f, FACT_VERSION);
    key.is_commit = false;
    if (find_in(all, &key, path, ret))
        return true;
    ret->is_exact = false;
    (void)sources_list(all, key.tenant, keep_newest, &newest);
    key.revision = bytes_of(newest.set.revision);
    key.is_commit = newest.set.is_commit;
    return find_in(all, &key, path, ret);
}

/* ---- Mapped */

/* Opens a file below a folder, name by name: no link is followed, so that none leads out. */
static int open_below(const char *folder, struct bytes rest)
{
    CLEANUP(buf_done) struct buf clean = {0};
    CLEANUP(closep) int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *part, *left;

    if (at < 0 || !source_name_clean(rest, &clean))
        return -ENOENT;
    left = (char *)(uintptr_t)buf_cstr(&clean);
    while ((part = strsep(&left, "/"))) {
        int flags = left ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY;
        int next = openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags);
        close(at);
        at = next;
        if (at < 0)
            return -ENOENT;
    }
    return TAKE_FD(at);
}

static bool read_text(int fd, struct buf *ret)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > SOURCE_FILE_MAX)
        return false;
    buf_clear(ret);
    for (;;) {
        uint8_t *room = buf_reserve(ret, SOURCE_FILE_MAX + 1 - ret->len);
        ssize_t n = room ? read(fd, room, SOURCE_FILE_MAX + 1 - ret->len) : -1;
        if (n < 0 && room && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        ret->len += (size_t)n;
        if (n == 0 || ret->len > SOURCE_FILE_MAX)
            return source_is_text(buf_bytes(ret));
    }
}

static bool find_mapped(const struct server_config *config, struct bytes path, struct source *ret)
{
    path = source_path_plain(path);
    for (size_t i = 0; i < config->source_map.n; i++) {
        const char *item = config->source_map.items[i], *equals = strchr(item, '=');
        struct bytes from = {(const uint8_t *)item, equals ? (size_t)(equals - item) : 0}, rest;
        if (!equals || !source_path_below(path, from, &rest))
            continue;
        CLEANUP(closep) int fd = open_below(equals + 1, rest);
        if (fd < 0 || !read_text(fd, &ret->text))
            continue;
        buf_clear(&ret->name);
        buf_add_bytes(&ret->name, rest);
        ret->found = "map";
        return true;
    }
    return false;
}

/* ---- The answer */

static void write_link(struct api_query *q, const struct facts *f, const struct source *s,
                       uint64_t line, struct json_writer *w)
{
    const struct server_config *config = q->call->server->config;
    CLEANUP(buf_done) struct buf link = {0};
    struct source_link_options o = {.template = config->source_link,
                                    .strip = &config->source_strip};
    struct source_place place = {.repository = fact(f, FACT_REPOSITORY),
                                 .commit = fact(f, FACT_COMMIT),
                                 .service = fact(f, FACT_SERVICE),
                                 .version = fact(f, FACT_VERSION),
                                 .path = bytes_of(api_text(q, "file")),
                                 .in_tree = buf_bytes(&s->name),
                                 .line = line};
    const char *anchor;

    if (!source_link(&place, &o, &link, &anchor))
        return;
    json_key(w, "link");
    json_string(w, buf_bytes(&link));
    json_key(w, "line_anchor");
    json_cstring(w, anchor);
}

static void write_source(struct api_query *q, const struct facts *f, const struct source *s,
                         uint64_t line, struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "file");
    json_cstring(w, api_text(q, "file"));
    json_key(w, "found");
    json_cstring(w, s->found);
    for (size_t i = 0; i < FACTS; i++) {
        json_key(w, fact_names[i].param);
        json_cstring(w, f->text[i]);
    }
    if (s->name.len > 0) {
        json_key(w, "path");
        json_string(w, buf_bytes(&s->name));
        json_key(w, "is_exact");
        json_bool(w, s->is_exact);
        json_key(w, "text");
        json_string(w, buf_bytes(&s->text));
    }
    write_link(q, f, s, line, w);
    json_end_object(w);
    buf_add_byte(w->out, '\n');
}

static int run_source(struct api_query *q, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    CLEANUP(source_done)
    struct source s = {.found = "none",
                       .name = {.budget = &q->call->budget},
                       .text = {.budget = &q->call->budget}};
    struct json_writer w = {.out = &out};
    struct bytes path = bytes_of(api_text(q, "file"));
    struct facts f = {0};
    uint64_t line;

    int r = api_number(q, "line", UINT32_MAX, 0, &line, err);
    if (r == 0)
        r = read_facts(q, &f, err);
    if (r < 0)
        return r;
    if (!find_uploaded(q, &f, path, &s))
        (void)find_mapped(q->call->server->config, path, &s);
    write_source(q, &f, &s, line, &w);
    if (buf_full(&out))
        return buf_error(&out, err);
    api_reply(q, "application/json", &out);
    return 0;
}

static int handle(struct call *c, struct error *err)
{
    return api_answer_untagged(c, run_source, err);
}

/* ---- Sets */

static int need_sources(struct call *c, struct error *err)
{
    if (c->server->sources)
        return 0;
    return error_set(err, -EOPNOTSUPP, "this server keeps no sources");
}

/* Of the address alone: the body is a file, whatever a client calls it. */
static bool url_param(struct call *c, const char *name, struct bytes *ret)
{
    CLEANUP(buf_done) struct buf scratch = {.budget = &c->budget};
    struct bytes value;

    if (!http_query_value(c->request->query, name, &scratch, &value))
        return false;
    const char *copy = arena_strdup(call_arena(c), value);
    *ret = (struct bytes){(const uint8_t *)copy, copy ? value.len : 0};
    return copy != NULL;
}

static int read_key(struct call *c, struct source_key *ret, struct error *err)
{
    *ret = (struct source_key){.tenant = c->tenant};
    if (!url_param(c, "service", &ret->service) || ret->service.len == 0)
        return error_set(err, -EINVAL, "the parameter \"service\" is missing");
    ret->is_commit = url_param(c, "commit", &ret->revision) && ret->revision.len > 0;
    if (!ret->is_commit && (!url_param(c, "version", &ret->revision) || ret->revision.len == 0))
        return error_set(err, -EINVAL, "a \"version\" or a \"commit\" is missing");
    return 0;
}

static int put_one(struct call *c, const struct source_key *key, struct bytes path,
                   struct source_stored *ret, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    struct bytes content;

    int r = call_input(c, "the source file", &in, err);
    if (r == 0)
        r = input_all(in, &content, err);
    return r < 0 ? r
                 : sources_put_file(c->server->sources, key, path, content,
                                    c->server->config->source_limit, ret, err);
}

static int put_many(struct call *c, const struct source_key *key, struct source_stored *ret,
                    struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;

    int r = call_input(c, "the body", &in, err);
    return r < 0 ? r
                 : sources_put_tar(c->server->sources, key, in, c->server->config->source_limit,
                                   ret, err);
}

static int handle_put(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct json_writer w = {.out = &out};
    struct source_stored stored;
    struct source_key key;
    struct bytes path;

    int r = need_sources(c, err);
    if (r == 0)
        r = read_key(c, &key, err);
    if (r == 0)
        r = url_param(c, "path", &path) ? put_one(c, &key, path, &stored, err)
                                        : put_many(c, &key, &stored, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "stored");
    json_u64(&w, stored.stored);
    json_key(&w, "skipped");
    json_u64(&w, stored.skipped);
    if (stored.skipped > 0) {
        json_key(&w, "why");
        json_cstring(&w, stored.why.text);
    }
    json_key(&w, "bytes");
    json_u64(&w, stored.bytes);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    call_reply(c, "application/json", &out);
    return 0;
}

static int write_set(void *ctx, const struct source_set *set)
{
    struct json_writer *w = ctx;
    char time[TIME_TEXT_MAX];

    json_begin_object(w);
    json_key(w, "service");
    json_cstring(w, set->service);
    json_key(w, set->is_commit ? "commit" : "version");
    json_cstring(w, set->revision);
    json_key(w, "bytes");
    json_u64(w, set->bytes);
    json_key(w, "time");
    json_cstring(w, time_text(set->time_ns, time));
    json_end_object(w);
    return buf_full(w->out) ? -ENOBUFS : 0;
}

static int handle_list(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct json_writer w = {.out = &out};
    int r = need_sources(c, err);

    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "limit");
    json_u64(&w, c->server->config->source_limit);
    json_key(&w, "sets");
    json_begin_array(&w);
    r = sources_list(c->server->sources, c->tenant, write_set, &w);
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    if (r < 0 || buf_full(&out))
        return buf_error(&out, err);
    call_reply(c, "application/json", &out);
    return 0;
}

static int handle_delete(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf what = {0};
    struct source_key key;
    int r = need_sources(c, err);

    if (r == 0)
        r = read_key(c, &key, err);
    if (r < 0)
        return r;
    buf_add_bytes(&what, key.service);
    buf_add_byte(&what, ' ');
    buf_add_bytes(&what, key.revision);
    r = admin_note(c, "sources.delete", c->tenant, &what, err);
    if (r == 0)
        r = sources_delete(c->server->sources, &key, err);
    if (r < 0)
        return r;
    buf_add_str(&out, "{}\n");
    call_reply(c, "application/json", &out);
    return 0;
}

#define P_SET "service!: name of the service; version: its version; commit: or its commit; "

const struct route api_source_routes[] = {
    API_ROUTE("source", 0, "The text of a source file, and a link to where it is hosted",
              "file!: the file's name, as a profile has it; "
              "line: a line of it, for the link; "
              "service: the service it is of, default that of the selection; "
              "version: its version; commit: its commit; repository: URL of its "
              "repository; " API_P_SELECT),
    {.method = "PUT|POST",
     .path = "/api/v1/sources",
     .role = ROLE_INGEST,
     .lane = LANE_QUERY,
     .body_limit = ROUTE_UPLOAD,
     .handle = handle_put,
     .summary = "Uploads the sources of a service's version: one file, or a tar of all",
     .params = P_SET "path: the name of the file that the body is, default a tar of many; "},
    {.method = "GET",
     .path = "/api/v1/sources",
     .role = ROLE_READ,
     .lane = LANE_QUERY,
     .handle = handle_list,
     .summary = "Sources that were uploaded"},
    {.method = "DELETE",
     .path = "/api/v1/sources",
     .role = ROLE_ADMIN,
     .lane = LANE_QUERY,
     .handle = handle_delete,
     .summary = "Removes the sources of a version",
     .params = P_SET},
    {0},
};
