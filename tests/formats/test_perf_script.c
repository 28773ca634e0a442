#include <errno.h>

#include "formats/perf_script_lines.h"
#include "lib/decode.h"

#define FORMAT (&format_perf_script)

static void header_lines_of_many_kinds_are_taken_apart(struct test *t)
{
    static const struct {
        const char *line, *comm;
        int64_t pid, tid, cpu, time_ns, period; /* -1: not there */
        const char *event, *rest;
    } cases[] = {
        {"dd 29776 666709.771979:   10101010 cpu-clock: ", "dd", -1, 29776, -1, 666709771979000,
         10101010, "cpu-clock", ""},
        {"java 1/2 [011] 51499.1:          1 page-faults: ", "java", 1, 2, 11, 51499100000000, 1,
         "page-faults", ""},
        {"Web Content 3 77 [000] 1.000000001: cycles:ppp:", "Web Content 3", -1, 77, 0, 1000000001,
         -1, "cycles:ppp", ""},
        {"func_ab 15294 cpu-clock: ", "func_ab", -1, 15294, -1, -1, -1, "cpu-clock", ""},
        {"func_ab 15294 7 cpu-clock: ", "func_ab", -1, 15294, -1, -1, 7, "cpu-clock", ""},
        {"Gecko\t25122 [007] 115539.936601:\t\t1000000 task-clock:u:", "Gecko", -1, 25122, 7,
         115539936601000, 1000000, "task-clock:u", ""},
        {":-1    -1 [001] 5.0: cycles:", ":-1", -1, -1, 1, 5000000000, -1, "cycles", ""},
        {"   swapper     0 [003] 2.5: sched:sched_switch: prev_comm=x y=[1]", "swapper", -1, 0, 3,
         2500000000, -1, "sched:sched_switch", "prev_comm=x y=[1]"},
        {"a [1] b 9 3.0: 5 cycles: ffff main (/x)", "a [1] b", -1, 9, -1, 3000000000, 5, "cycles",
         "ffff main (/x)"},
        {"java [001] 12.5: cycles:", "java", -1, -1, 1, 12500000000, -1, "cycles", ""},
        {"java 7 [001] cycles:", "java", -1, 7, 1, -1, -1, "cycles", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct perf_header h;
        CHECK(t, perf_parse_header(bytes_of(cases[i].line), &h));
        CHECK(t, bytes_are(h.comm, cases[i].comm));
        CHECK_INT(t, h.pid, cases[i].pid);
        CHECK_INT(t, h.tid, cases[i].tid);
        CHECK_INT(t, h.cpu, cases[i].cpu);
        CHECK_INT(t, h.has_time ? (int64_t)h.time_ns : -1, cases[i].time_ns);
        CHECK_INT(t, h.has_period ? h.period : -1, cases[i].period);
        CHECK(t, bytes_are(h.event, cases[i].event));
        CHECK(t, bytes_are(h.rest, cases[i].rest));
    }
    static const char *const others[] = {
        "",
        "a",
        "a b c",
        "a 1",
        "a 1 2",
        "a [1] b",
        "a 1 99999999999999.5: x:",
        "ffffffff8103d0ca native_write_msr_safe ([kernel.kallsyms])",
    };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        struct perf_header h = {.event = {0}};
        CHECK(t, !perf_parse_header(bytes_of(others[i]), &h));
    }
}

static void frame_lines_of_many_kinds_are_taken_apart(struct test *t)
{
    static const struct {
        const char *line;
        uint64_t address;
        const char *symbol, *dso;
        bool is_inlined;
    } cases[] = {
        {"\t  414b3b fsnotify (/lib/vmlinux)", 0x414b3b, "fsnotify", "/lib/vmlinux", false},
        {" 0 [unknown] ([unknown])", 0, "", "", false},
        {" 7f 0x+0x2b ([kernel.kallsyms])", 0x7f, "0x", "[kernel.kallsyms]", false},
        {" 15c8 ins", 0x15c8, "ins", "", false},
        {" 15c8", 0x15c8, "", "", false},
        {" 15c8 (/bin/x)", 0x15c8, "", "/bin/x", false},
        {" 1 f(int (*)(int)) (/lib/a (deleted))", 1, "f(int (*)(int))", "/lib/a (deleted)", false},
        {" 1 f(int (*)(int))", 1, "f(int (*)(int))", "", false},
        {" 1 a<b>::operator+(int)+0x1f (/x)", 1, "a<b>::operator+(int)", "/x", false},
        {" 1 operator+(int) (/x)", 1, "operator+(int)", "/x", false},
        {" 1 __mmap64 (inlined)", 1, "__mmap64", "", true},
        {"\tb3\tLock::unlock() (/system/lib/libc.so)", 0xb3, "Lock::unlock()",
         "/system/lib/libc.so", false},
        {" 1 anon (bpf_prog_1)", 1, "anon", "bpf_prog_1", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct perf_frame f;
        CHECK(t, perf_parse_frame(bytes_of(cases[i].line), &f));
        CHECK_INT(t, f.address, cases[i].address);
        CHECK(t, bytes_are(f.symbol, cases[i].symbol));
        CHECK(t, bytes_are(f.dso, cases[i].dso));
        CHECK_INT(t, f.is_inlined, cases[i].is_inlined);
    }
    struct perf_frame f;
    CHECK(t, !perf_parse_frame(BYTES("main (/x)"), &f));
    CHECK(t, !perf_parse_frame(BYTES(""), &f));
    CHECK(t, !perf_parse_frame(BYTES("11112222333344445 x"), &f));
}

static const char simple[] = "# ========\n"
                             "# captured on: Thu Jul  7 20:47:43 2016\n"
                             "# hostname : box\n"
                             "# arch : aarch64\n"
                             "# os release : 6.1\n"
                             "# cmdline : perf record -g x \n"
                             "# nothing here\n"
                             "#\n"
                             "work 7/8 [001] 10.5: 100 cpu-clock: \n"
                             "\tffffffff81000000 do_it+0x3 ([kernel.kallsyms])\n"
                             "\t 15c8 leaf+0x1 (/bin/work)\n"
                             "\t 11b5 main (/bin/work)\n"
                             "\n"
                             "work 7/8 [001] 11.5: 200 cpu-clock: \n"
                             "\t 11b5 main (/bin/work)\n";

static void samples_have_stacks_periods_times_and_labels(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, simple);
    CHECK_INT(t, d.r, 0);
    CHECK_STR(t, d.format->name, "perf-script");
    const struct profile *p = d.set->profiles.data[0];
    struct dict *dict = d.set->dict;
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    CHECK_INT(t, decoded_total(t, &d, "cpu-clock", "nanoseconds"), 300);
    CHECK_INT(t, profile_default_index(p), 1);
    CHECK_STACK(t, dict, p->node[0], "main;leaf;do_it");
    CHECK_STR(t, leaf_type(dict, p->node[0]), "kernel");
    CHECK_STR(t, leaf_type(dict, p->node[1]), "native");
    CHECK_INT(t, p->time_ns[1], 11500000000);
    CHECK_INT(t, p->duration_ns, 1000000000);
    uint32_t tid = dict_attrs_get(dict, p->attrs[0], dict_cstring(dict, "thread.id"));
    CHECK_INT(t, dict->attributes.data[tid].number, 8);
    uint32_t arch = dict_attrs_get(dict, p->resource_attrs, dict_cstring(dict, "host.arch"));
    CHECK_STR(t, dict_cstr(dict, dict->attributes.data[arch].text), "arm64");
    CHECK_STR(t, dict_cstr(dict, p->comments.data[0]), "perf record -g x");
    CHECK(t, has_note(&d, "perf's clock"));
    decoded_done(t, &d);
}

static void every_event_has_columns_of_its_own(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "a 1 1.0: 5 page-faults: \n 10 f (/x)\n\n"
                "a 1 1.1: cycles: \n 10 f (/x)\n\n"
                "a 1 1.2: 6 page-faults: 10 f (/x)\n"
                "a 1 1.2: 7 cycles: \n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "page-faults_samples", "count"), 2);
    CHECK_INT(t, decoded_total(t, &d, "page-faults", "count"), 11);
    CHECK_INT(t, decoded_total(t, &d, "cycles_samples", "count"), 2);
    CHECK_INT(t, decoded_total(t, &d, "cycles", "count"), 7);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STR(t, dict_cstr(p->dict, p->default_type), "page-faults");
    CHECK_INT(t, p->node[2], p->node[0]);
    CHECK_INT(t, p->node[3], 0);
    decoded_done(t, &d);
}

static void inlined_frames_share_the_location_they_are_in(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "a 1 1.0: 5 cycles: \n"
                "\t10 in2 (inlined)\n\t10 in1 (inlined)\n\t10 out+0x4 (/x)\n\t20 main (/x)\n\n"
                "a 1 1.0: 5 cycles: \n"
                "\t10 out+0x4 (/x)\n\t20 main (/x)\n\n"
                "a 1 1.0: 5 cycles: \n"
                "\t30 cut (inlined)\n\n"
                "a 1 1.0: 5 cycles: \n"
                "\t30 cut (inlined)\n"
                "\t40 La;::x->Lb;::y->Lc;::z+0x1 (/tmp/perf-1.map)\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    CHECK_STACK(t, p->dict, p->node[0], "main;out;in1;in2");
    CHECK_INT(t, p->dict->locations.data[p->dict->node_location.data[p->node[0]]].n_lines, 3);
    CHECK_STACK(t, p->dict, p->node[1], "main;out");
    CHECK_STACK(t, p->dict, p->node[2], "cut");
    CHECK_STACK(t, p->dict, p->node[3], "La;::x;Lb;::y;Lc;::z;cut");
    uint32_t jit = p->dict->node_parent.data[p->node[3]];
    CHECK_STR(t, leaf_type(p->dict, jit), "jvm");
    decoded_done(t, &d);
}

static void source_lines_belong_to_the_frame_above(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "a 1 1.0: 5 cycles: \n"
                "\t10 in (inlined)\n  in.h:3\n\t10 out (/x)\n  out.c:12\n\t20 main (/x)\n  ??:0\n"
                "\t30 [unknown] (/x)\n  x.c:1\n      BPF output: 0000: 77 65\n");
    CHECK_INT(t, d.r, 0);
    const struct profile *p = d.set->profiles.data[0];
    const struct dict *dict = p->dict;
    CHECK_STACK(t, dict, p->node[0], "0x30;main;out;in");
    const struct location *l = &dict->locations.data[dict->node_location.data[p->node[0]]];
    CHECK_INT(t, dict->lines.data[l->first_line].line, 3);
    CHECK_INT(t, dict->lines.data[l->first_line + 1].line, 12);
    uint32_t f = dict->lines.data[l->first_line + 1].function;
    CHECK_STR(t, dict_cstr(dict, dict->functions.data[f].file), "out.c");
    CHECK(t, has_note(&d, "1 lines that are neither"));
    decoded_done(t, &d);
}

static void unusual_output_is_read_too(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL,
                "java 19983 cycles:\nffffffff8103d0ca native ([kernel.kallsyms])\n"
                "ffffffff810275f1 pmu ([kernel.kallsyms])\n\n"
                "java 19983 cycles:\nffffffff810275f1 pmu ([kernel.kallsyms])\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    CHECK_STACK(t, d.set->dict, d.set->profiles.data[0]->node[0], "pmu;native");
    decoded_done(t, &d);
    decode_text(&d, FORMAT, "\t10 f\n\t20 g\n\n\t10 f\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 2);
    decoded_done(t, &d);
    decode_text(&d, NULL,
                "x 1 [000] 0.000000: PERF_RECORD_COMM: perf:1/1\n"
                "x 1 [000] 0.000000: PERF_RECORD_MMAP2 1/1: [0x5(0x1) @ 0 0:0 0 0]: r-xp /x\n"
                "x 1 [000] 0.100000: sched:sched_switch: prev=1 next=2\n");
    CHECK_INT(t, d.r, 0);
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 1);
    CHECK(t, has_note(&d, "2 lines that are neither samples nor frames were skipped"));
    CHECK(t, has_note(&d, "fields of 1 events were not kept"));
    decoded_done(t, &d);
    decode_text(&d, FORMAT, "# captured on: nothing\n");
    CHECK_INT(t, decoded_total(t, &d, "samples", "count"), 0);
    decoded_done(t, &d);
}

static void frame_types_follow_from_the_binary(struct test *t)
{
    static const struct {
        const char *frame, *type;
    } cases[] = {
        {"ffffffffc0001000 f ([nf_conntrack])", "kernel"},
        {"ffffffffff600000 f ([vsyscall])", "native"},
        {"10 f (/lib/modules/6.1/kernel/fs/ext4.ko.xz)", "kernel"},
        {"10 f (/usr/lib/debug/boot/vmlinux-6.1)", "kernel"},
        {"10 f (/lib/modules/4.1/build/vmlinux)", "kernel"},
        {"10 f ([guest.kernel.kallsyms])", "kernel"},
        {"10 f ([vdso])", "native"},
        {"10 LazyCompile:*a b.js:1 (/tmp/perf-1.map)", "v8js"},
        {"10 py::f:/x.py (/tmp/perf-1.map)", "cpython"},
        {"10 Interpreter (/tmp/perf-1.map)", "jvm"},
        {"10 whatever (/tmp/jitted-1-2.so)", ""},
        {"10 whatever ([JIT] tid 5)", ""},
        {"10 f", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[200];
        struct decoded d;
        snprintf(text, sizeof(text), "a 1 1.0: cycles:\n %s\n", cases[i].frame);
        decode_text(&d, NULL, text);
        CHECK_INT(t, d.r, 0);
        CHECK_STR(t, leaf_type(d.set->dict, d.set->profiles.data[0]->node[0]), cases[i].type);
        decoded_done(t, &d);
    }
}

static void refuses_what_it_cannot_read_and_says_where(struct test *t)
{
    struct decoded d;
    decode_text(&d, NULL, "a 1 1.0: cycles:\n 10 f (/x)\nnonsense here\n");
    CHECK_INT(t, d.r, -EBADMSG);
    CHECK_STR(t, d.err.text, "test: perf script at line 3: neither a sample nor a frame");
    decoded_done(t, &d);
    decode_text(&d, FORMAT, "hello\n");
    CHECK_STR(t, d.err.text, "test: perf script at line 1: neither a sample nor a frame");
    decoded_done(t, &d);
    decode_bytes(&d, FORMAT, BYTES("a 1 1.0: cycles:\n 10 f\0 (/x)\n"), 1 << 22);
    CHECK_STR(t, d.err.text, "test: perf script at line 2: a NUL byte; this is not text");
    decoded_done(t, &d);
    CLEANUP(buf_done) struct buf many = {0};
    for (int i = 0; i < 33; i++)
        buf_addf(&many, "a 1 1.0: e%d:\n", i);
    decode_bytes(&d, FORMAT, buf_bytes(&many), 1 << 22);
    CHECK_STR(t, d.err.text, "test: perf script at line 33: more than 32 events; the limit is 32");
    decoded_done(t, &d);
    CHECK_INT(t, format_perf_script.sniff(BYTES("a\0 1 1.0: cycles:\n")), 0);
    CHECK_INT(t, format_perf_script.sniff(BYTES("\n\n# x\n")), 0);
    CHECK(t, format_perf_script.sniff(BYTES("a 1 1.0: cycles:\n")) > 0);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    check_budget_sweep(t, FORMAT, bytes_of(simple), 211);
}

static void survives_being_cut_anywhere(struct test *t)
{
    check_truncation(t, FORMAT, bytes_of(simple));
}

static const struct test_case cases[] = {
    TEST(header_lines_of_many_kinds_are_taken_apart),
    TEST(frame_lines_of_many_kinds_are_taken_apart),
    TEST(samples_have_stacks_periods_times_and_labels),
    TEST(every_event_has_columns_of_its_own),
    TEST(inlined_frames_share_the_location_they_are_in),
    TEST(source_lines_belong_to_the_frame_above),
    TEST(unusual_output_is_read_too),
    TEST(frame_types_follow_from_the_binary),
    TEST(refuses_what_it_cannot_read_and_says_where),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(survives_being_cut_anywhere),
};
TEST_MAIN(cases)
