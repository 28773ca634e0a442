#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/parse_internal.h"

#define CHUNK              ((size_t)64 << 10)
/* Of a longer perf map the end counts: it has the newest code. */
#define TEXT_MAX           ((uint64_t)64 << 20)
/* kallsyms gives no sizes; no function of the kernel is longer than this. */
#define FUNCTION_BYTES_MAX ((uint64_t)1 << 20)

/* Lines of a descriptor, a chunk at a time; what is longer than a chunk is left out. */
struct reader {
    int fd;
    int failure;
    uint64_t total;
    size_t pos, end;
    bool at_end, is_cut; /* in the middle of a line that is left out */
    uint8_t data[CHUNK];
};

static void fill(struct reader *r)
{
    if (r->pos == 0 && r->end == CHUNK) {
        r->is_cut = true;
        r->end = 0;
    }
    memmove(r->data, r->data + r->pos, r->end - r->pos);
    r->end -= r->pos;
    r->pos = 0;
    ssize_t n = r->total < TEXT_MAX ? read(r->fd, r->data + r->end, CHUNK - r->end) : 0;
    if (n < 0 && errno == EINTR)
        return;
    if (n < 0)
        r->failure = -errno;
    r->at_end = n <= 0;
    r->end += n > 0 ? (size_t)n : 0;
    r->total += n > 0 ? (uint64_t)n : 0;
}

static bool next_line(struct reader *r, struct bytes *ret)
{
    for (;;) {
        struct bytes rest = {r->data + r->pos, r->end - r->pos};
        const uint8_t *newline = bytes_find_byte(rest, '\n');
        if (!newline && !r->at_end) {
            fill(r);
            continue;
        }
        if (rest.len == 0)
            return false;
        size_t n = newline ? (size_t)(newline - rest.data) : rest.len;
        r->pos += newline ? n + 1 : n;
        bool was_cut = r->is_cut;
        r->is_cut = false;
        if (was_cut)
            continue;
        *ret = bytes_head(rest, n);
        return true;
    }
}

/* Takes the text up to the next space off the line. */
static struct bytes next_word(struct bytes *line)
{
    const uint8_t *space = bytes_find_byte(*line, ' ');
    size_t n = space ? (size_t)(space - line->data) : line->len;
    struct bytes word = bytes_head(*line, n);

    *line = bytes_from(*line, space ? n + 1 : n);
    return word;
}

static int told(const struct reader *r, struct error *err)
{
    errno = -r->failure;
    return error_set(err, r->failure, "could not read the text: %m");
}

/* "START SIZE NAME", both numbers in hex. */
static bool add_jitted(struct name_table_writer *w, struct bytes line)
{
    uint64_t start, size;

    if (!bytes_to_hex(next_word(&line), &start) || !bytes_to_hex(next_word(&line), &size))
        return false;
    struct bytes name = bytes_trim(line);
    if (name.len == 0 || size == 0 || start + size < start)
        return false;
    struct name_table_row row = {
        .start = start, .end = start + size, .name = name_table_writer_text(w, name)};
    name_table_writer_add(w, &row);
    return true;
}

int parse_perf_map_of(int fd, int out, struct error *err)
{
    CLEANUP(freep) struct reader *r = calloc(1, sizeof(*r));
    struct budget budget;
    struct bytes line;
    struct stat st;
    size_t n = 0;

    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "a perf map must be a regular file");
    budget_init(&budget, PARSE_MEMORY_MAX);
    CLEANUP(name_table_writer_freep)
    struct name_table_writer *w = name_table_writer_new(out, NAME_TABLE_REPLACED, &budget);
    *r = (struct reader){.fd = fd, .is_cut = (uint64_t)st.st_size > TEXT_MAX};
    if (lseek(fd, r->is_cut ? st.st_size - (off_t)TEXT_MAX : 0, SEEK_SET) < 0)
        return error_set(err, -errno, "could not read the perf map: %m");
    while (next_line(r, &line) && !name_table_writer_failed(w))
        n += add_jitted(w, line);
    if (r->failure < 0)
        return told(r, err);
    if (n == 0)
        return error_set(err, -ENODATA, "perf map: no line reads \"START SIZE NAME\"");
    return name_table_writer_save(w, err);
}

/* The module that names were met of last, and where its name was put. */
struct module {
    char name[64];
    uint32_t text;
};

/* "[ext4]" */
static uint32_t module_text(struct name_table_writer *w, struct module *m, struct bytes text)
{
    text = bytes_trim(text);
    if (text.len < 3 || text.len >= sizeof(m->name) || text.data[0] != '[')
        return 0;
    text = (struct bytes){text.data + 1, text.len - 2};
    if (m->text == 0 || !bytes_are(text, m->name)) {
        PARSE_PUT(m->name, text);
        m->text = name_table_writer_text(w, text);
    }
    return m->text;
}

/* "ADDRESS TYPE NAME", then a tab and "[MODULE]" for those of modules. */
static bool add_kernel(struct name_table_writer *w, struct module *m, struct bytes line,
                       uint64_t *any)
{
    uint64_t start;

    if (!bytes_to_hex(next_word(&line), &start))
        return false;
    struct bytes type = next_word(&line);
    const uint8_t *tab = bytes_find_byte(line, '\t');
    struct bytes name = bytes_head(line, tab ? (size_t)(tab - line.data) : line.len);
    if (type.len != 1 || name.len == 0)
        return false;
    *any |= start;
    if (start == 0 || !memchr("tTwW", type.data[0], 4))
        return true;
    struct name_table_row row = {
        .start = start,
        .end = start < UINT64_MAX - FUNCTION_BYTES_MAX ? start + FUNCTION_BYTES_MAX : UINT64_MAX,
        .name = name_table_writer_text(w, name),
        .file = tab ? module_text(w, m, bytes_from(line, name.len + 1)) : 0,
        .rank = type.data[0] == 'T' ? NAME_RANK_GLOBAL : 0};
    name_table_writer_add(w, &row);
    return true;
}

int parse_kallsyms_of(int fd, int out, struct error *err)
{
    CLEANUP(freep) struct reader *r = calloc(1, sizeof(*r));
    struct module module = {.text = 0};
    struct budget budget;
    struct bytes line;
    uint64_t any = 0;
    size_t n = 0;

    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    r->fd = fd;
    budget_init(&budget, PARSE_MEMORY_MAX);
    CLEANUP(name_table_writer_freep)
    struct name_table_writer *w = name_table_writer_new(out, NAME_TABLE_PLACES, &budget);
    while (next_line(r, &line) && !name_table_writer_failed(w)) {
        n++;
        if (!add_kernel(w, &module, line, &any))
            return error_set(err, -EBADMSG, "kallsyms at line %zu: not \"ADDRESS TYPE NAME\"", n);
    }
    if (r->failure < 0)
        return told(r, err);
    if (n == 0)
        return error_set(err, -EBADMSG, "kallsyms: empty");
    if (any == 0)
        return error_set(err, -EACCES,
                         "kallsyms: all addresses are zero, the kernel hides them "
                         "(kernel.kptr_restrict)");
    return name_table_writer_save(w, err);
}
