#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/test.h"
#include "symbols/kallsyms.h"
#include "symbols/perf_map.h"

static void finds_names_by_address(struct test *t)
{
    struct budget b;
    struct perf_map m;
    struct error err;

    budget_init(&b, 1 << 20);
    CHECK_INT(t,
              perf_map_parse(&m,
                             BYTES("7f0010 10 LazyCompile:*main /app/a b.js:1\n"
                                   "0x7f0020 0x8 Builtin:Call\r\n"
                                   "7f0000 10 Stub\n"
                                   "\n"
                                   "not a line\n"
                                   "7f0018 4 later code\n"
                                   "ffffffffffffffff 10 wraps\n"
                                   "7f0100 0 empty\n"
                                   "7f0200 10 \n"),
                             &b, &err),
              0);
    CHECK_INT(t, m.entries.len, 4);
    CHECK_INT(t, m.skipped, 4);
    CHECK_STR(t, perf_map_find(&m, 0x7f0010), "LazyCompile:*main /app/a b.js:1");
    CHECK_STR(t, perf_map_find(&m, 0x7f000f), "Stub");
    CHECK_STR(t, perf_map_find(&m, 0x7f0027), "Builtin:Call");
    CHECK_STR(t, perf_map_find(&m, 0x7f0019), "later code");
    CHECK_STR(t, perf_map_find(&m, 0x7f001c), "LazyCompile:*main /app/a b.js:1");
    CHECK(t, !perf_map_find(&m, 0x7f0028));
    CHECK(t, !perf_map_find(&m, 0));
    perf_map_done(&m);
    CHECK_INT(t, b.used, 0);
}

static void refuses_what_is_no_perf_map(struct test *t)
{
    struct budget b;
    struct perf_map m;
    struct error err;

    budget_init(&b, 1 << 20);
    CHECK_INT(t, perf_map_parse(&m, BYTES("hello\nworld\n"), &b, &err), -EBADMSG);
    CHECK_STR(t, err.text, "perf map: no line reads \"START SIZE NAME\"");
    perf_map_done(&m);
    CHECK_INT(t, perf_map_parse(&m, BYTES(""), &b, &err), 0);
    perf_map_done(&m);
    budget_init(&b, 100);
    CHECK_INT(t, perf_map_parse(&m, BYTES("1 1 a\n2 1 b\n"), &b, &err), -ENOBUFS);
    perf_map_done(&m);
}

static void reads_files_of_this_user_only(struct test *t)
{
    char path[] = "/tmp/vesta-map-XXXXXX", link[64];
    struct budget b;
    struct perf_map m;
    struct error err;
    int fd = mkstemp(path);

    budget_init(&b, 1 << 20);
    CHECK(t, write(fd, "1000 10 jitted\n", 15) == 15);
    close(fd);
    CHECK_INT(t, perf_map_read(&m, path, &b, &err), 0);
    CHECK_STR(t, perf_map_find(&m, 0x1008), "jitted");
    perf_map_done(&m);
    snprintf(link, sizeof(link), "%s.link", path);
    CHECK_INT(t, symlink(path, link), 0);
    CHECK_INT(t, perf_map_read(&m, link, &b, &err), -ELOOP);
    perf_map_done(&m);
    CHECK_INT(t, perf_map_read(&m, "/dev/null", &b, &err), -EPERM);
    CHECK_STR(t, err.text, "\"/dev/null\" is not a plain file of this user or root");
    perf_map_done(&m);
    unlink(link);
    unlink(path);
    CHECK_INT(t, perf_map_read(&m, path, &b, &err), -ENOENT);
    CHECK_INT(t, b.used, 0);
}

static void reads_kallsyms(struct test *t)
{
    struct budget b;
    struct kallsyms k;
    struct error err;

    budget_init(&b, 1 << 20);
    CHECK_INT(t,
              kallsyms_parse(&k,
                             BYTES("ffffffff81000000 T _text\n"
                                   "ffffffff81000000 T _stext\n"
                                   "ffffffff81000100 t do_one_initcall\n"
                                   "ffffffff81000080 D data_symbol\n"
                                   "ffffffff82000000 W weak_one\n"
                                   "ffffffffc0000000 t helper\t[ext4]\n"
                                   "0000000000000000 A fixed_percpu_data\n"),
                             &b, &err),
              0);
    CHECK(t, k.text_start == 0xffffffff81000000 && k.stext_start == 0xffffffff81000000);
    CHECK_STR(t, kallsyms_find(&k, 0xffffffff81000180), "do_one_initcall");
    CHECK_STR(t, kallsyms_find(&k, 0xffffffff81000080), "_stext");
    CHECK_STR(t, kallsyms_find(&k, 0xffffffffc0000010), "helper");
    CHECK(t, !kallsyms_find(&k, 0x1000));
    CHECK(t, !kallsyms_find(&k, 0xffffffff81900000));
    kallsyms_done(&k);
    CHECK_INT(t, b.used, 0);
}

static void says_when_the_kernel_hides_its_addresses(struct test *t)
{
    struct budget b;
    struct kallsyms k;
    struct error err;

    budget_init(&b, 1 << 20);
    CHECK_INT(
        t, kallsyms_parse(&k, BYTES("0000000000000000 T _text\n0000000000000000 t f\n"), &b, &err),
        -EACCES);
    CHECK_STR(t, err.text,
              "kallsyms: all addresses are zero, the kernel hides them (kernel.kptr_restrict)");
    kallsyms_done(&k);
    CHECK_INT(t, kallsyms_parse(&k, BYTES("ffff T a\nwhat is this\n"), &b, &err), -EBADMSG);
    CHECK_STR(t, err.text, "kallsyms at line 2: not \"ADDRESS TYPE NAME\"");
    kallsyms_done(&k);
    CHECK_INT(t, kallsyms_parse(&k, BYTES(""), &b, &err), -EBADMSG);
    CHECK_STR(t, err.text, "kallsyms: empty");
    kallsyms_done(&k);
    CHECK_INT(t, kallsyms_read(&k, "/proc/nonexistent", &b, &err), -ENOENT);
    kallsyms_done(&k);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(finds_names_by_address),
    TEST(refuses_what_is_no_perf_map),
    TEST(reads_files_of_this_user_only),
    TEST(reads_kallsyms),
    TEST(says_when_the_kernel_hides_its_addresses),
};
TEST_MAIN(cases)
