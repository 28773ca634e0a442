#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/must.h"
#include "formats/formats.h"
#include "profile/profile.h"
#include "relay/export.h"
#include "relay/file_names.h"
#include "wire/json.h"

#define BUDGET     ((size_t)128 << 20) /* of a request while it is turned into files */
#define GZIP_LEVEL 6
#define NUMBERS    1024
#define NAME_TRIES 1000
#define SECOND_NS  1000000000LL

/*
 * Profiles as files of a folder: pprof, one file for each profile with FILE.json beside it (as
 * `vesta push` reads it), or OTLP, one file for each request. A file appears whole, and the oldest
 * go when the folder has more than it may.
 */
struct file_sending {
    struct sender base;
    struct sender_options o;
    struct fs *fs; /* NULL until the folder could be opened */
    struct file_names names;
    bool is_otlp;
    uint16_t numbers[NUMBERS]; /* of names that were given in this request, by their hash */
};

static struct sender *make(const struct sender_options *o)
{
    struct file_sending *f = must_calloc(1, sizeof(*f));
    const struct agent_config *c = o->child->config;

    f->base.ops = &file_sender;
    f->o = *o;
    f->is_otlp = c->file_format && strcmp(c->file_format, "otlp") == 0;
    f->names.keep = c->file_keep;
    return &f->base;
}

static void free_sender(struct sender *s)
{
    struct file_sending *f = OWNER_OF(s, struct file_sending, base);

    file_names_done(&f->names);
    fs_free(f->fs);
    free(f);
}

/* ---- Names ---- */

static void add_time(int64_t ns, struct buf *out)
{
    char text[40];
    time_t s = (time_t)(ns / SECOND_NS);
    struct tm tm;

    gmtime_r(&s, &tm);
    strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &tm);
    buf_addf(out, "%s.%03dZ", text, (int)(ns % SECOND_NS / 1000000));
}

/* A part of a name: what could be taken for anything else becomes '_'. */
static void add_part(struct bytes text, struct buf *out)
{
    text = bytes_head(text, 64);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool is_plain = c < 0x80 && (isalnum(c) || c == '_' || c == '-' || (c == '.' && i > 0));
        buf_add_byte(out, is_plain ? c : '_');
    }
}

/* The file appears whole. It is not synced: hundreds of files in a window would keep the disk busy
 * for what can be measured again. */
static int write_file(struct file_sending *f, const char *name, struct bytes content,
                      struct error *err)
{
    CLEANUP(buf_done) struct buf tmp = {0};
    struct fs_file *file = NULL;

    buf_addf(&tmp, "%s.tmp", name);
    int r = fs_open(f->fs, buf_cstr(&tmp), FS_WRITE | FS_CREATE, &file, err);
    if (r == 0)
        r = fs_truncate(file, 0, err);
    if (r == 0)
        r = fs_pwrite(file, content.data, content.len, 0, err);
    fs_close(file);
    if (r == 0)
        r = fs_rename(f->fs, buf_cstr(&tmp), name, err);
    if (r < 0)
        (void)fs_unlink(f->fs, buf_cstr(&tmp), NULL);
    return r;
}

/* Writes a file under a name that is not taken: `stem`, or with a number behind it. */
static int write_new(struct file_sending *f, const char *stem, const char *extension,
                     struct bytes content, struct buf *ret_name, struct error *err)
{
    /* Of many processes of one service, each would try the numbers of all before it. */
    uint16_t *number = &f->numbers[hash_bytes(stem, strlen(stem)) % NUMBERS];

    for (int i = 1; i <= NAME_TRIES; i++) {
        buf_clear(ret_name);
        buf_add_str(ret_name, stem);
        if (++*number > 1)
            buf_addf(ret_name, "-%u", *number);
        buf_add_str(ret_name, extension);
        int there = fs_exists(f->fs, buf_cstr(ret_name), err);
        if (there < 0)
            return there;
        if (there == 0)
            return write_file(f, buf_cstr(ret_name), content, err);
    }
    return error_set(err, -EEXIST, "there are %d files \"%s\"", NAME_TRIES, stem);
}

/* ---- The sidecar ---- */

static void add_value(struct json_writer *w, const struct dict *d, const struct attribute *a)
{
    double number;

    switch (a->kind) {
    case ATTRIBUTE_STRING:
        json_string(w, dict_text(d, a->text));
        break;
    case ATTRIBUTE_INT:
        json_i64_string(w, a->number);
        break;
    case ATTRIBUTE_BOOL:
        json_cstring(w, a->number ? "true" : "false");
        break;
    case ATTRIBUTE_DOUBLE:
        memcpy(&number, &a->number, sizeof(number));
        char text[32];
        snprintf(text, sizeof(text), "%.17g", number);
        json_cstring(w, text);
        break;
    default: {
        CLEANUP(buf_done) struct buf hex = {0};
        struct bytes bytes = dict_text(d, a->text);
        for (size_t i = 0; i < bytes.len && i < 256; i++)
            buf_addf(&hex, "%02x", bytes.data[i]);
        json_string(w, buf_bytes(&hex));
        break;
    }
    }
}

static bool is_service(const struct dict *d, const struct attribute *a)
{
    return a->kind == ATTRIBUTE_STRING && bytes_are(dict_text(d, a->key), "service.name");
}

static void add_labels(struct json_writer *w, const struct profile *p)
{
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[p->resource_attrs];

    json_key(w, "labels");
    json_begin_object(w);
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        if (is_service(d, a))
            continue;
        json_key_bytes(w, dict_text(d, a->key));
        add_value(w, d, a);
    }
    json_end_object(w);
}

static void add_instant(struct json_writer *w, const char *key, int64_t ns)
{
    char text[64];
    time_t s = (time_t)(ns / SECOND_NS);
    struct tm tm;

    gmtime_r(&s, &tm);
    size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof(text) - n, ".%09lldZ", (long long)(ns % SECOND_NS));
    json_key(w, key);
    json_cstring(w, text);
}

static void add_type(struct json_writer *w, const struct dict *d, struct value_type t)
{
    json_key(w, "type");
    json_string(w, dict_text(d, t.type));
    json_key(w, "unit");
    json_string(w, dict_text(d, t.unit));
}

static void make_sidecar(const struct profile *p, struct bytes service, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "service");
    json_string(&w, service);
    add_labels(&w, p);
    if (p->time_unix_ns > 0) {
        add_instant(&w, "from", p->time_unix_ns);
        if (p->duration_ns > 0 && p->duration_ns < INT64_MAX - p->time_unix_ns)
            add_instant(&w, "until", p->time_unix_ns + p->duration_ns);
    }
    json_key(&w, "format");
    json_cstring(&w, "pprof");
    json_key(&w, "moment");
    json_bool(&w, profile_is_instant(p));
    json_key(&w, "types");
    json_begin_array(&w);
    for (uint32_t t = 0; t < p->n_types; t++) {
        json_begin_object(&w);
        add_type(&w, p->dict, p->types[t]);
        json_end_object(&w);
    }
    json_end_array(&w);
    if (p->period > 0) {
        json_key(&w, "period");
        json_begin_object(&w);
        add_type(&w, p->dict, p->period_type);
        json_key(&w, "value");
        json_i64(&w, p->period);
        json_end_object(&w);
    }
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* ---- Writing ---- */

static struct bytes service_of(const struct profile *p)
{
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[p->resource_attrs];

    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        if (is_service(d, a) && dict_text(d, a->text).len > 0)
            return dict_text(d, a->text);
    }
    return BYTES("unknown_service");
}

static int write_profile(struct file_sending *f, struct profile *p, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {.budget = p->dict->budget};
    CLEANUP(buf_done) struct buf losses = {0};
    CLEANUP(buf_done) struct buf stem = {0};
    CLEANUP(buf_done) struct buf name = {0};
    CLEANUP(buf_done) struct buf sidecar = {0};
    struct profile_set one = {.budget = p->dict->budget, .dict = p->dict, .profiles = {&p, 1, 1}};
    struct bytes service = service_of(p);
    int r = format_pprof.encode(&one, &content, &losses, err);

    if (r == 0 && buf_full(&content))
        r = buf_error(&content, err);
    if (r < 0)
        return r;
    add_part(service, &stem);
    buf_add_byte(&stem, '-');
    add_part(p->n_types > 0 ? dict_text(p->dict, p->types[profile_default_index(p)].type)
                            : BYTES("nothing"),
             &stem);
    buf_add_byte(&stem, '-');
    add_time(p->time_unix_ns > 0 ? p->time_unix_ns : clock_wall_ns(clock_real()), &stem);
    make_sidecar(p, service, &sidecar);
    r = write_new(f, buf_cstr(&stem), ".pb.gz", buf_bytes(&content), &name, err);
    if (r < 0)
        return r;
    file_names_add(&f->names, buf_cstr(&name), content.len);
    buf_add_str(&name, ".json");
    r = write_file(f, buf_cstr(&name), buf_bytes(&sidecar), err);
    if (r == 0)
        file_names_add(&f->names, buf_cstr(&name), sidecar.len);
    return r;
}

static int write_profiles(struct file_sending *f, struct bytes otlp, struct error *err)
{
    struct budget b;
    int r;

    budget_init(&b, BUDGET);
    struct profile_set *set = profile_set_new(&b);
    struct input *in = input_from_bytes(otlp, "a request", &b);
    r = format_read(in, &format_otlp, set, NULL, err);
    for (size_t i = 0; r == 0 && i < set->profiles.len; i++)
        r = write_profile(f, set->profiles.data[i], err);
    input_close(in);
    profile_set_free(set);
    return r;
}

static int write_otlp(struct file_sending *f, struct bytes otlp, struct error *err)
{
    CLEANUP(buf_done) struct buf content = {0};
    CLEANUP(buf_done) struct buf stem = {0};
    CLEANUP(buf_done) struct buf name = {0};

    gzip_pack(otlp, GZIP_LEVEL, &content);
    buf_add_str(&stem, "profiles-");
    add_time(clock_wall_ns(clock_real()), &stem);
    int r = write_new(f, buf_cstr(&stem), ".otlp.gz", buf_bytes(&content), &name, err);
    if (r == 0)
        file_names_add(&f->names, buf_cstr(&name), content.len);
    return r;
}

static int open_folder(struct file_sending *f, struct error *err)
{
    if (f->fs)
        return 0;
    int r = fs_real_make_root(f->o.target->url, err);
    if (r == 0)
        r = fs_real_new(f->o.target->url, &f->fs, err);
    if (r == 0)
        r = file_names_read(&f->names, f->fs, err);
    if (r < 0) {
        fs_free(f->fs);
        f->fs = NULL;
    }
    return r;
}

static void write_request(struct sender *s, const struct export_packed *p,
                          struct export_outcome *ret)
{
    struct file_sending *f = OWNER_OF(s, struct file_sending, base);
    struct unpacked plain = {0};
    struct budget b;
    struct error err;

    budget_init(&b, BUDGET);
    int r = open_folder(f, &err);
    if (r == 0)
        r = export_unpack(p, &b, &plain, &err);
    if (r == 0) {
        struct bytes otlp = {plain.data, plain.len};
        memset(f->numbers, 0, sizeof(f->numbers));
        r = f->is_otlp ? write_otlp(f, otlp, &err) : write_profiles(f, otlp, &err);
        file_names_cut(&f->names, f->fs);
    }
    unpacked_done(&b, &plain);
    ret->result = EXPORT_SENT;
    if (r == 0)
        return;
    /* What cannot be read today cannot be read tomorrow; of a disk one may hope. */
    ret->result = r == -EBADMSG || r == -ENOBUFS ? EXPORT_REFUSED : EXPORT_RETRY;
    snprintf(ret->text, sizeof(ret->text), "%s", err.text);
}

const struct sender_ops file_sender = {.make = make, .keep = write_request, .free = free_sender};
