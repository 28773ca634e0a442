/*
 * What an inspector may say, what it may be asked, and texts of /proc, by the first byte: no crash,
 * answers that are believed keep the promises of their header, memory within the budget and given
 * back.
 *
 * Links: host.
 */
#include "fuzz.h"
#include "host/inspect.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"

static void try_answer(struct bytes in)
{
    struct inspect_process p;
    struct inspect_file f;
    struct error err = {{0}};
    struct budget b;
    static struct inspect_listed all[INSPECT_LIST_MAX];
    uint64_t words[2];
    uint32_t mask;

    budget_init(&b, (size_t)2 << 20);
    int r = inspect_read(in, &b, &p, &err);
    REQUIRE(r == 0 || err.text[0] != '\0');
    for (size_t i = 0; r == 0 && i < p.mappings.len; i++) {
        const struct inspect_mapping *m = &p.mappings.data[i];
        REQUIRE(m->begin < m->end && (i == 0 || m[-1].end <= m->begin));
        REQUIRE(m->path.len <= 4095);
    }
    REQUIRE(r < 0 || (p.mappings.len <= INSPECT_MAPPINGS_MAX && p.n_ports <= 8 && p.pid != 0 &&
                      p.n_ancestors <= INSPECT_ANCESTORS_MAX));
    if (r == 0)
        inspect_process_done(&p);
    REQUIRE(b.used == 0);
    (void)inspect_read_file(in, &f, &err);
    REQUIRE(inspect_read_list(in, all, &err) <= INSPECT_LIST_MAX);
    (void)inspect_read_words(in, words, 2, &mask, &err);
}

static void try_texts(struct bytes in)
{
    struct bytes names[] = {BYTES("A"), BYTES("OTEL_SERVICE_NAME")};
    struct stat_text s;
    uint32_t uid, pid;
    struct buf out = {0};

    if (stat_read(in, &s))
        REQUIRE(s.comm.len <= 15);
    (void)status_read(in, &uid, &pid);
    environ_pick(in, names, 2, 100, &out);
    REQUIRE(out.len <= 100);
    (void)environ_get(in, "A");
    for (struct bytes rest = in, line; bytes_next_line(&rest, &line);) {
        struct map_line m;
        struct tcp_line t;
        (void)tcp_line_read(line, &t);
        if (!map_line_read(line, &m))
            continue;
        REQUIRE(m.begin < m.end);
        buf_clear(&out);
        (void)map_path(m.path, 4095, &out);
        REQUIRE(out.len <= 4095);
    }
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct question q;

    if (len == 0)
        return 0;
    struct bytes in = {data + 1, len - 1};
    switch (data[0]) {
    case 'a':
        try_answer(in);
        break;
    case 'q':
        (void)question_read(in, &q, NULL);
        break;
    default:
        try_texts(in);
        break;
    }
    return 0;
}
