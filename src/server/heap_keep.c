#include "server/heap_keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "query/time_range.h"
#include "server/server_internal.h"
#include "wire/json.h"

#define CHUNK ((size_t)256 << 10)

static void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

/* The directory, made when it is not there. Negative errno. */
static int open_dir(const struct server *s, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};

    buf_addf(&path, "%s/heap", s->config->data_dir);
    if (mkdir(buf_cstr(&path), 0700) < 0 && errno != EEXIST) {
        int r = -errno;
        return error_set(err, r, "could not make \"%s\": %m", buf_cstr(&path));
    }
    int fd = open(buf_cstr(&path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : error_set(err, -errno, "could not open \"%s\": %m", buf_cstr(&path));
}

static void expire(const struct server *s, int dir)
{
    int64_t oldest = clock_wall_ns(clock_real()) - s->config->retention_ns;
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closedirp) DIR *d = copy >= 0 ? fdopendir(copy) : NULL;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!strstr(e->d_name, ".heapsnapshot") ||
            fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if ((int64_t)st.st_mtim.tv_sec * 1000000000 < oldest)
            (void)unlinkat(dir, e->d_name, 0);
    }
}

static int write_all(int fd, const uint8_t *data, size_t n, struct error *err)
{
    while (n > 0) {
        ssize_t done = write(fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_set(err, -errno, "could not keep the heap snapshot: %m");
        data += done;
        n -= (size_t)done;
    }
    return 0;
}

static int copy_body(struct call *c, int fd, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    CLEANUP(buf_done) struct buf chunk = {.budget = &c->budget};

    int r = call_input(c, "the body", &in, err);
    while (r == 0) {
        uint8_t *room = buf_reserve(&chunk, CHUNK);
        ssize_t n = room ? input_read(in, room, CHUNK, err) : budget_error(&c->budget, err);
        if (n <= 0)
            return (int)n;
        r = write_all(fd, room, (size_t)n, err);
    }
    return r;
}

static void write_sidecar(const struct call *c, const struct label *labels, size_t n_labels,
                          struct buf *out)
{
    struct json_writer w = {.out = out};
    char when[TIME_TEXT_MAX];

    json_begin_object(&w);
    json_key(&w, "received");
    json_cstring(&w, time_text(clock_wall_ns(clock_real()), when));
    json_key(&w, "tenant");
    json_string(&w, c->tenant);
    json_key(&w, "labels");
    json_begin_object(&w);
    for (size_t i = 0; i < n_labels; i++) {
        json_key_bytes(&w, labels[i].name);
        json_string(&w, labels[i].value);
    }
    json_end_object(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

static int make_file(int dir, const char *name, struct error *err)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : error_set(err, -errno, "could not make \"%s\": %m", name);
}

static int keep_files(struct call *c, int dir, const char *name, struct bytes sidecar,
                      struct error *err)
{
    char beside[HEAP_KEEP_NAME_MAX + 8];
    CLEANUP(closep) int fd = make_file(dir, name, err);
    int r = fd < 0 ? fd : copy_body(c, fd, err);
    if (r < 0)
        return r;
    snprintf(beside, sizeof(beside), "%s.json", name);
    CLEANUP(closep) int other = make_file(dir, beside, err);
    return other < 0 ? other : write_all(other, sidecar.data, sidecar.len, err);
}

int heap_keep(struct call *c, const struct label *labels, size_t n_labels,
              char ret[HEAP_KEEP_NAME_MAX], struct error *err)
{
    CLEANUP(buf_done) struct buf sidecar = {0};
    char name[HEAP_KEEP_NAME_MAX];
    uint64_t random[2];

    CLEANUP(closep) int dir = open_dir(c->server, err);
    if (dir < 0)
        return dir;
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return error_set(err, -EIO, "could not draw a name for the heap snapshot");
    snprintf(name, sizeof(name), "%016llx%016llx.heapsnapshot", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    expire(c->server, dir);
    write_sidecar(c, labels, n_labels, &sidecar);
    int r = keep_files(c, dir, name, buf_bytes(&sidecar), err);
    if (r < 0) {
        (void)unlinkat(dir, name, 0);
        return r;
    }
    memcpy(ret, name, sizeof(name));
    return 0;
}
