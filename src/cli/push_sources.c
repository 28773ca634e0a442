#include "cli/push_sources.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "server/ingest.h"
#include "server/sources.h"
#include "wire/inflate.h"

#define BLOCK     512
#define DEPTH_MAX 64

struct packing {
    struct buf tar;
    size_t n_files, n_skipped;
    char name[4096]; /* of what is being looked at, from the folder on */
};

/* ---- A tar */

static void pad(struct buf *tar)
{
    static const char zeros[BLOCK];
    buf_add(tar, zeros, (BLOCK - tar->len % BLOCK) % BLOCK);
}

static void add_header(struct buf *tar, const char *name, char type, uint64_t size)
{
    char block[BLOCK] = "", number[24];
    unsigned sum = 0;

    memcpy(block, name, strnlen(name, 100));
    memcpy(block + 100, "0000644", 7);
    snprintf(number, sizeof(number), "%011llo", (unsigned long long)size);
    memcpy(block + 124, number, 11);
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(block); i++)
        sum += (unsigned char)block[i];
    snprintf(number, sizeof(number), "%06o", sum);
    memcpy(block + 148, number, 7);
    buf_add(tar, block, sizeof(block));
}

static void add_file(struct buf *tar, const char *name, struct bytes content)
{
    size_t len = strlen(name);

    if (len > 100) { /* GNU's way, which every reader knows */
        add_header(tar, "././@LongLink", 'L', len + 1);
        buf_add(tar, name, len + 1);
        pad(tar);
    }
    add_header(tar, name, '0', content.len);
    buf_add_bytes(tar, content);
    pad(tar);
}

/* ---- A folder */

static bool read_text(int folder, const char *name, struct buf *to)
{
    struct stat st;
    CLEANUP(closep)
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    buf_clear(to);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size > SOURCE_FILE_MAX)
        return false;
    while (to->len <= SOURCE_FILE_MAX) {
        uint8_t *room = buf_reserve(to, (size_t)64 << 10);
        ssize_t n = room ? read(fd, room, (size_t)64 << 10) : -1;
        if (n < 0 && room && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && source_is_text(buf_bytes(to));
        to->len += (size_t)n;
    }
    return false;
}

static void pack_folder(struct packing *p, int fd, int depth);

static void pack_one(struct packing *p, int folder, const char *name, int depth)
{
    CLEANUP(buf_done) struct buf content = {0};
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(st.st_mode)) {
        int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && depth < DEPTH_MAX)
            pack_folder(p, fd, depth + 1);
        else if (fd >= 0)
            close(fd);
    } else if (S_ISREG(st.st_mode) && read_text(folder, name, &content)) {
        add_file(&p->tar, p->name, buf_bytes(&content));
        p->n_files++;
    } else {
        p->n_skipped++;
    }
}

/* Takes the descriptor over. */
static void pack_folder(struct packing *p, int fd, int depth)
{
    size_t len = strlen(p->name);
    DIR *d = fdopendir(fd);

    if (!d)
        close(fd);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    for (struct dirent *e; d && !buf_full(&p->tar) && (e = readdir(d));) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "node_modules") == 0)
            continue;
        int n =
            snprintf(p->name + len, sizeof(p->name) - len, "%s%s", len > 0 ? "/" : "", e->d_name);
        if (n > 0 && (size_t)n < sizeof(p->name) - len)
            pack_one(p, dirfd(d), e->d_name, depth);
        p->name[len] = '\0';
    }
    if (d)
        closedir(d);
}

/* ---- To the server */

/* Whose they are, of --service and --label. */
static int make_path(const struct options *o, struct buf *path, struct error *err)
{
    CLEANUP(buf_done) struct buf params = {0};
    const char *service = o->service, *version = NULL, *commit = NULL;

    for (size_t i = 0; i < o->labels.n; i++) {
        const char *text = o->labels.items[i], *equals = strchr(text, '=');
        if (!equals)
            return error_set(err, -EINVAL, "--label takes NAME=VALUE, not \"%s\"", text);
        struct bytes name = ingest_label_name(bytes_head(bytes_of(text), (size_t)(equals - text)));
        if (bytes_are(name, LABEL_SERVICE))
            service = equals + 1;
        else if (bytes_are(name, LABEL_VERSION))
            version = equals + 1;
        else if (bytes_are(name, "vcs.ref.head.revision"))
            commit = equals + 1;
    }
    if (!service || (!version && !commit))
        return error_set(err, -EINVAL,
                         "--sources needs to know whose they are: --service NAME and --label "
                         "version=V or --label commit=HASH");
    remote_param(&params, BYTES("service"), bytes_of(service));
    if (commit)
        remote_param(&params, BYTES("commit"), bytes_of(commit));
    else
        remote_param(&params, BYTES("version"), bytes_of(version));
    remote_path(path, "/api/v1/sources", buf_bytes(&params));
    return 0;
}

static int send(const struct options *o, const char *path, struct bytes tar, struct error *err)
{
    CLEANUP(buf_done) struct buf packed = {0};
    CLEANUP(remote_done) struct remote remote = {0};
    struct http_answer a = {0};
    struct budget budget;

    budget_init(&budget, o->max_memory);
    int r = remote_init(&remote, o, err);
    if (r < 0)
        return r;
    gzip_pack(tar, 6, &packed);
    struct remote_call call = {
        .path = path, .body = buf_bytes(&packed), .content_type = "application/gzip"};
    r = remote_call(&remote, &call, &budget, &a, err);
    if (r == 0 && a.status != 200)
        r = remote_refusal(&remote, &a, err);
    http_answer_done(&budget, &a);
    return r;
}

int push_sources(const struct options *o)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct budget budget;
    struct error err = {""};
    struct packing p = {.tar = {.budget = &budget}};

    budget_init(&budget, o->max_memory);
    int r = make_path(o, &path, &err);
    int fd = r == 0 ? open(o->sources, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (r == 0 && fd < 0)
        r = error_set(&err, -errno, "could not open \"%s\": %m", o->sources);
    if (r == 0) {
        pack_folder(&p, fd, 0);
        r = buf_full(&p.tar) ? buf_error(&p.tar, &err) : 0;
    }
    if (r == 0 && p.n_files == 0)
        r = error_set(&err, -ENODATA, "there is no text file in \"%s\"", o->sources);
    if (r == 0)
        r = send(o, buf_cstr(&path), buf_bytes(&p.tar), &err);
    buf_done(&p.tar);
    if (r < 0)
        return command_fail(r, &err);
    if (!o->quiet)
        fprintf(stderr, "%zu source files stored, %zu others left out\n", p.n_files, p.n_skipped);
    return VESTA_EXIT_OK;
}
