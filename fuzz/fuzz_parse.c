/*
 * Any bytes as a program that the parsing worker is handed: facts, names and unwind tables. No
 * crash, no leak, no hang; a failure has words, and what it writes can be read back. Bytes are also
 * taken as Go's build information, and as what answers to a question about facts and lines.
 *
 * Links: host.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/name_table.h"
#include "host/parse.h"
#include "host/parse_internal.h"

static int file_of(const uint8_t *data, size_t len)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    REQUIRE(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    return fd;
}

static int ask(void (*question)(struct buf *), int fd, int out, struct buf *ret)
{
    CLEANUP(buf_done) struct buf q = {0};
    struct worker_answer a = {.fd = -1};
    struct error err = {{0}};

    question(&q);
    struct worker_question wq = {.data = buf_bytes(&q), .fds = {fd, fd, out}};
    int r = parse_serve(NULL, &wq, &a, &err);
    REQUIRE(r == 0 || err.text[0] != '\0');
    *ret = a.data;
    return r;
}

static void read_names(int out)
{
    struct name_found f = {0};
    struct name_table *t = NULL;

    REQUIRE(name_table_open(out, &t, NULL) == 0);
    for (uint64_t va = 0; va < 1 << 16; va += 509)
        name_table_find(t, va, &f);
    name_table_close(t);
    name_found_done(&f);
}

static void read_answers(struct bytes data)
{
    struct lookup lookups[16] = {0};
    struct parse_file file;
    struct budget b;
    struct arena a;

    budget_init(&b, 1 << 20);
    arena_init(&a, &b);
    int n = parse_read_lines(data, &a, lookups, 16, NULL);
    REQUIRE(n <= 16);
    parse_read_facts(data, &file, NULL);
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(buf_done) struct buf facts = {0}, none = {0}, nothing = {0};
    struct bytes all = {data, len};
    struct parse_facts go = {.is_go = false};
    struct parse_file file;
    int fd = file_of(data, len), out = file_of(data, 0), rows = file_of(data, 0);

    if (ask(parse_question_facts, fd, -1, &facts) == 0)
        REQUIRE(parse_read_facts(buf_bytes(&facts), &file, NULL) == 0);
    if (ask(parse_question_names, fd, out, &none) == 0)
        read_names(out);
    else
        close(out);
    ask(parse_question_unwind, fd, rows, &nothing);
    close(rows);
    close(fd);
    parse_go_build_info(bytes_head(all, len % 64), all, &go);
    read_answers(all);
    return 0;
}
