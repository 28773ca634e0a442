#include "cli/watch_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/must.h"

#define STATE_NAME ".vesta-push"
#define STATE_NEW  ".vesta-push.new"

struct entry {
    char *name; /* NULL: a free slot */
    struct watch_mark mark;
};

struct watch_state {
    int folder, fd;
    struct entry *slots; /* open addressing; a power of two, at most half full */
    size_t n_slots, n;
};

static struct entry *slot_of(const struct watch_state *s, const char *name)
{
    size_t i = (size_t)hash_bytes(name, strlen(name)) & (s->n_slots - 1);

    while (s->slots[i].name && strcmp(s->slots[i].name, name) != 0)
        i = (i + 1) & (s->n_slots - 1);
    return &s->slots[i];
}

static void grow(struct watch_state *s)
{
    struct entry *old = s->slots;
    size_t n_old = s->n_slots;

    s->n_slots = n_old > 0 ? n_old * 2 : 256;
    s->slots = must_calloc(s->n_slots, sizeof(*s->slots));
    for (size_t i = 0; i < n_old; i++)
        if (old[i].name)
            *slot_of(s, old[i].name) = old[i];
    free(old);
}

static void put(struct watch_state *s, const char *name, const struct watch_mark *mark)
{
    if (s->n * 2 >= s->n_slots)
        grow(s);
    struct entry *e = slot_of(s, name);
    if (!e->name) {
        e->name = must_copy(bytes_of(name));
        s->n++;
    }
    e->mark = *mark;
}

static void add_line(struct buf *out, const char *name, const struct watch_mark *mark)
{
    buf_addf(out, "%s %llu %lld ", mark->is_ok ? "ok" : "bad", (unsigned long long)mark->size,
             (long long)mark->mtime_ns);
    buf_add_str(out, name);
    buf_add_byte(out, '\n');
}

/* The next word of a line. */
static struct bytes word(struct bytes *rest)
{
    const uint8_t *space = bytes_find_byte(*rest, ' ');
    struct bytes w = bytes_head(*rest, space ? (size_t)(space - rest->data) : rest->len);

    *rest = bytes_from(*rest, w.len + 1);
    return w;
}

static void read_line(struct watch_state *s, struct bytes line)
{
    CLEANUP(buf_done) struct buf name = {0};
    struct watch_mark mark = {0};
    struct bytes verdict = word(&line), size = word(&line), mtime = word(&line);
    struct stat st;

    mark.is_ok = bytes_are(verdict, "ok");
    if (!bytes_to_u64(size, &mark.size) || !bytes_to_i64(mtime, &mark.mtime_ns) || line.len == 0)
        return; /* half a line, of a process that was killed */
    buf_add_bytes(&name, line);
    if (fstatat(s->folder, buf_cstr(&name), &st, AT_SYMLINK_NOFOLLOW) == 0)
        put(s, buf_cstr(&name), &mark);
}

static void read_state(struct watch_state *s)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(closep) int fd = openat(s->folder, STATE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct bytes rest, line;

    for (ssize_t n = 1; fd >= 0 && n > 0;) {
        n = read(fd, buf_reserve(&text, (size_t)64 << 10), (size_t)64 << 10);
        text.len += n > 0 ? (size_t)n : 0;
    }
    rest = buf_bytes(&text);
    while (bytes_next_line(&rest, &line))
        read_line(s, line);
}

/* Writes it anew, so that it does not grow for ever. */
static int write_state(struct watch_state *s)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].name)
            add_line(&text, s->slots[i].name, &s->slots[i].mark);
    s->fd = openat(s->folder, STATE_NEW,
                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (s->fd < 0)
        return -errno;
    if (text.len > 0 && write(s->fd, text.data, text.len) != (ssize_t)text.len)
        return -EIO;
    return renameat(s->folder, STATE_NEW, s->folder, STATE_NAME) < 0 ? -errno : 0;
}

struct watch_state *watch_state_open(int folder, struct error *ret_trouble)
{
    struct watch_state *s = must_calloc(1, sizeof(*s));

    s->folder = folder;
    s->fd = -1;
    grow(s);
    read_state(s);
    int r = write_state(s);
    errno = -r;
    if (r < 0)
        (void)error_set(ret_trouble, r,
                        "could not write \"" STATE_NAME
                        "\" there: %m; a restart will send again what is still there");
    return s;
}

void watch_state_close(struct watch_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_slots; i++)
        free(s->slots[i].name);
    free(s->slots);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

bool watch_state_has(const struct watch_state *s, const char *name, const struct watch_mark *mark)
{
    const struct entry *e = slot_of(s, name);

    return e->name && e->mark.size == mark->size && e->mark.mtime_ns == mark->mtime_ns;
}

void watch_state_add(struct watch_state *s, const char *name, const struct watch_mark *mark)
{
    CLEANUP(buf_done) struct buf line = {0};

    put(s, name, mark);
    if (strchr(name, '\n'))
        return; /* a line could not hold it */
    add_line(&line, name, mark);
    /* Should it fail, the server still knows what it has. */
    if (s->fd >= 0 && write(s->fd, line.data, line.len) < 0)
        close(TAKE_FD(s->fd));
}
