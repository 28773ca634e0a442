#include "host/inspect_text.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/hex.h"

/* Takes what stands before the next run of spaces or tabs off *rest. */
static struct bytes next_word(struct bytes *rest)
{
    size_t from = 0, to;

    while (from < rest->len && (rest->data[from] == ' ' || rest->data[from] == '\t'))
        from++;
    for (to = from; to < rest->len && rest->data[to] != ' ' && rest->data[to] != '\t'; to++)
        ;
    struct bytes word = {from < rest->len ? rest->data + from : rest->data, to - from};
    *rest = bytes_from(*rest, to);
    return word;
}

static bool next_u64(struct bytes *rest, uint64_t *ret)
{
    return bytes_to_u64(next_word(rest), ret);
}

bool stat_read(struct bytes text, struct stat_text *ret)
{
    const uint8_t *open = bytes_find_byte(text, '('), *close = bytes_find_last_byte(text, ')');
    struct stat_text s = {.state = '?'};
    uint64_t v = 0;

    /* The name may hold blanks and brackets, but is followed by numbers only. */
    if (!open || !close || close < open)
        return false;
    s.comm = bytes_head((struct bytes){open + 1, (size_t)(close - open - 1)}, 15);
    struct bytes rest = bytes_from(text, (size_t)(close - text.data) + 1);
    struct bytes state = next_word(&rest);
    if (state.len != 1)
        return false;
    s.state = (char)state.data[0];
    for (int field = 4; field <= 28; field++) {
        struct bytes word = next_word(&rest);
        bool is_number = bytes_to_u64(word, &v);
        if (field == 4 || field == 9 || field == 22 || field >= 26) {
            if (!is_number)
                return false;
        }
        if (field == 4)
            s.parent = (uint32_t)v;
        else if (field == 9)
            s.flags = v;
        else if (field == 22)
            s.start_ticks = v;
        else if (field == 26)
            s.code_start = v;
        else if (field == 27)
            s.code_end = v;
        else if (field == 28)
            s.stack_start = v;
    }
    *ret = s;
    return true;
}

bool status_read(struct bytes text, uint32_t *ret_uid, uint32_t *ret_inner_pid)
{
    uint64_t uid = 0, pid = 0, v;
    bool has_uid = false;

    for (struct bytes line; bytes_next_line(&text, &line);) {
        if (bytes_start_with(line, BYTES("Uid:"))) {
            struct bytes rest = bytes_from(line, 4);
            has_uid = next_u64(&rest, &v) && next_u64(&rest, &uid);
        } else if (bytes_start_with(line, BYTES("NSpid:"))) {
            struct bytes rest = bytes_from(line, 6);
            while (next_u64(&rest, &v))
                pid = v;
        }
    }
    if (!has_uid || uid > UINT32_MAX || pid > UINT32_MAX)
        return false;
    *ret_uid = (uint32_t)uid;
    *ret_inner_pid = (uint32_t)pid;
    return true;
}

bool status_catches(struct bytes text, int signal)
{
    uint64_t caught = 0;

    for (struct bytes line; bytes_next_line(&text, &line);) {
        if (bytes_start_with(line, BYTES("SigCgt:")) &&
            !bytes_to_hex(bytes_trim(bytes_from(line, 7)), &caught))
            return false;
    }
    return signal > 0 && signal <= 64 && caught >> (signal - 1) & 1;
}

/* Two numbers in hex with `between` between them. */
static bool hex_pair(struct bytes word, char between, uint64_t *ret_a, uint64_t *ret_b)
{
    const uint8_t *at = bytes_find_byte(word, (uint8_t)between);

    if (!at)
        return false;
    size_t n = (size_t)(at - word.data);
    return bytes_to_hex(bytes_head(word, n), ret_a) && bytes_to_hex(bytes_from(word, n + 1), ret_b);
}

bool map_line_read(struct bytes line, struct map_line *ret)
{
    struct map_line m = {0};
    uint64_t major, minor;

    if (!hex_pair(next_word(&line), '-', &m.begin, &m.end) || m.begin >= m.end)
        return false;
    struct bytes how = next_word(&line);
    if (how.len != 4)
        return false;
    m.is_executable = how.data[2] == 'x';
    if (!bytes_to_hex(next_word(&line), &m.offset) ||
        !hex_pair(next_word(&line), ':', &major, &minor) || major > UINT32_MAX ||
        minor > UINT32_MAX || !next_u64(&line, &m.inode))
        return false;
    m.major = (uint32_t)major;
    m.minor = (uint32_t)minor;
    /* Blanks up to a column, then the path, which may begin with blanks of its own only if it is
     * no path. */
    size_t from = 0;
    while (from < line.len && line.data[from] == ' ')
        from++;
    m.path = bytes_from(line, from);
    *ret = m;
    return true;
}

bool map_path(struct bytes path, size_t max, struct buf *out)
{
    static const struct bytes gone = BYTES(" (deleted)");
    bool is_deleted =
        path.len > gone.len && bytes_equal(bytes_from(path, path.len - gone.len), gone);

    if (is_deleted)
        path.len -= gone.len;
    for (size_t i = 0, n = 0; i < path.len && n < max; n++) {
        if (bytes_start_with(bytes_from(path, i), BYTES("\\012"))) {
            buf_add_byte(out, '\n');
            i += 4;
        } else {
            buf_add_byte(out, path.data[i++]);
        }
    }
    return is_deleted;
}

/* Takes the next "NAME=VALUE" off *rest. */
static bool next_variable(struct bytes *rest, struct bytes *ret_name, struct bytes *ret_all)
{
    while (rest->len > 0) {
        const uint8_t *nul = bytes_find_byte(*rest, '\0');
        size_t n = nul ? (size_t)(nul - rest->data) : rest->len;
        struct bytes all = bytes_head(*rest, n);
        *rest = bytes_from(*rest, nul ? n + 1 : n);
        const uint8_t *is = bytes_find_byte(all, '=');
        if (is) {
            *ret_name = bytes_head(all, (size_t)(is - all.data));
            *ret_all = all;
            return true;
        }
    }
    return false;
}

void environ_pick(struct bytes text, const struct bytes *names, size_t n, size_t max,
                  struct buf *out)
{
    uint64_t seen[2] = {0}; /* the first of a name counts, as for getenv() */
    size_t from = out->len;

    for (struct bytes name, all; next_variable(&text, &name, &all);) {
        for (size_t i = 0; i < n && i < 128; i++) {
            if (!bytes_equal(name, names[i]) || seen[i / 64] & (uint64_t)1 << i % 64)
                continue;
            seen[i / 64] |= (uint64_t)1 << i % 64;
            if (all.len + 1 <= max - (out->len - from)) {
                buf_add_bytes(out, all);
                buf_add_byte(out, '\0');
            }
        }
    }
}

struct bytes environ_get(struct bytes text, const char *name)
{
    for (struct bytes found, all; next_variable(&text, &found, &all);) {
        if (bytes_are(found, name))
            return bytes_from(all, found.len + 1);
    }
    return (struct bytes){0};
}

/* As the kernel prints them: words of 4 bytes in the machine's order. */
static bool read_address(struct bytes text, struct tcp_line *ret)
{
    uint64_t word;

    if (text.len != 8 && text.len != 32)
        return false;
    ret->is_v6 = text.len == 32;
    for (size_t i = 0; i < text.len / 8; i++) {
        if (!bytes_to_hex(bytes_head(bytes_from(text, 8 * i), 8), &word))
            return false;
        memcpy(ret->address + 4 * i, &(uint32_t){(uint32_t)word}, 4);
    }
    return true;
}

/* Any, or else 127.0.0.0/8, ::1, or ::ffff:127.0.0.0/104. */
static void judge_address(struct tcp_line *l)
{
    static const uint8_t zeros[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_mapped = l->is_v6 && memcmp(l->address, mapped, sizeof(mapped)) == 0;
    const uint8_t *v4 = is_mapped ? l->address + sizeof(mapped) : l->address;

    l->is_loopback = l->is_v6 && !is_mapped
                         ? memcmp(l->address, zeros, 15) == 0 && l->address[15] == 1
                         : v4[0] == 127;
    l->is_near = l->is_loopback || memcmp(v4, zeros, l->is_v6 && !is_mapped ? 16 : 4) == 0;
}

bool tcp_line_read(struct bytes line, struct tcp_line *ret)
{
    struct tcp_line t = {0};
    uint64_t port, inode;

    (void)next_word(&line); /* "0:" */
    struct bytes local = next_word(&line);
    (void)next_word(&line);
    struct bytes state = next_word(&line);
    for (int i = 0; i < 5; i++) /* queues, timer, retransmits, uid, timeout */
        (void)next_word(&line);
    const uint8_t *colon = bytes_find_byte(local, ':');
    if (!colon || !next_u64(&line, &inode))
        return false;
    size_t n = (size_t)(colon - local.data);
    if (!bytes_to_hex(bytes_from(local, n + 1), &port) || port > UINT16_MAX ||
        !read_address(bytes_head(local, n), &t))
        return false;
    t.is_listening = bytes_are(state, "0A");
    judge_address(&t);
    t.port = (uint16_t)port;
    t.inode = inode;
    *ret = t;
    return true;
}

/* Node takes "_" in place of "-", but for the first two. */
static bool has_option(struct bytes text, struct bytes option)
{
    for (; text.len >= option.len; text = bytes_from(text, 1)) {
        size_t n = 0;
        while (n < option.len && (text.data[n] == option.data[n] ||
                                  (n >= 2 && option.data[n] == '-' && text.data[n] == '_')))
            n++;
        if (n == option.len)
            return true;
    }
    return false;
}

bool node_speaks_of_inspector(struct bytes text)
{
    static const struct bytes options[] = {BYTES("--inspect"),
                                           BYTES("--debug-port"),
                                           BYTES("--disable-sigusr1"),
                                           BYTES("--env-file"),
                                           BYTES("--experimental-config-file"),
                                           BYTES("--experimental-default-config-file")};

    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        if (has_option(text, options[i]))
            return true;
    return false;
}

bool cmdline_is_kept(struct bytes cmdline, uint64_t argc)
{
    uint64_t n = 0;

    if (cmdline.len == 0 || cmdline.data[0] == '\0' || cmdline.data[cmdline.len - 1] != '\0')
        return false;
    for (size_t i = 0; i < cmdline.len; i++) {
        if (cmdline.data[i] == '\0' && i > 0 && cmdline.data[i - 1] == '\0')
            return false; /* a title is followed by zeros */
        n += cmdline.data[i] == '\0';
    }
    return n == argc;
}
