#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/doctor.h"
#include "agent/doctor_internal.h"
#include "lib/scratch.h"
#include "lib/test.h"

struct world {
    struct scratch dir;
    struct doctor d;
    struct agent_config config;
};

static void world_init(struct world *w)
{
    *w = (struct world){.config = {.user = "", .state_dir = "", .spool_dir = "", .cache_dir = ""}};
    scratch_init(&w->dir);
    w->d.config = &w->config;
    w->d.root = w->dir.path;
    w->d.area = "Test";
}

static void world_done(struct world *w)
{
    scratch_done(&w->dir);
}

/* Writes a file below the root, making its folders. */
static void put(struct world *w, const char *path, const char *text)
{
    char *name = scratch_name(&w->dir, path + 1);
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(name, 0700);
        *slash = '/';
    }
    FILE *f = fopen(name, "w");
    fputs(text, f);
    fclose(f);
}

static const struct finding *find(const struct world *w, const char *name)
{
    static const struct finding none = {.area = "", .state = FINDING_MISSING, .name = "none"};
    for (size_t i = 0; i < w->d.n; i++)
        if (strcmp(w->d.list[i].name, name) == 0)
            return &w->d.list[i];
    return &none;
}

static void each_setting_says_what_is_lost_and_how_to_mend_it(struct test *t)
{
    struct world w;
    world_init(&w);
    put(&w, "/proc/sys/kernel/kptr_restrict", "2\n");
    put(&w, "/proc/sys/kernel/yama/ptrace_scope", "3\n");
    put(&w, "/proc/kallsyms", "0000000000000000 T _text\n");
    doctor_rights(&w.d);
    CHECK_INT(t, find(&w, "kernel.kptr_restrict")->state, FINDING_LOST);
    CHECK_STR(t, find(&w, "kernel.kptr_restrict")->found, "2");
    CHECK_STR(t, find(&w, "kernel.kptr_restrict")->fix, "sysctl kernel.kptr_restrict=1");
    CHECK_INT(t, find(&w, "kernel.yama.ptrace_scope")->state, FINDING_LOST);
    CHECK_INT(t, find(&w, "kernel symbols")->state, FINDING_LOST);
    CHECK_STR(t, find(&w, "kernel symbols")->found, "/proc/kallsyms hides addresses");
    CHECK_INT(t, find(&w, "seccomp")->state, FINDING_LOST);

    w.d.n = 0;
    put(&w, "/proc/sys/kernel/kptr_restrict", "1\n");
    put(&w, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    put(&w, "/proc/kallsyms", "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n");
    put(&w, "/proc/sys/kernel/seccomp/actions_avail", "allow\n");
    doctor_rights(&w.d);
    CHECK_INT(t, find(&w, "kernel.kptr_restrict")->state, FINDING_WORKS);
    CHECK(t, find(&w, "kernel.kptr_restrict")->lost == NULL);
    CHECK_INT(t, find(&w, "kernel.yama.ptrace_scope")->state, FINDING_WORKS);
    CHECK_INT(t, find(&w, "kernel symbols")->state, FINDING_WORKS);
    CHECK_INT(t, find(&w, "seccomp")->state, FINDING_WORKS);
    world_done(&w);
}

static void a_kernel_without_btf_lacks_something_essential(struct test *t)
{
    struct world w;
    world_init(&w);
    put(&w, "/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    doctor_kernel(&w.d);
    CHECK_INT(t, find(&w, "BTF")->state, FINDING_MISSING);
    CHECK_INT(t, find(&w, "lockdown")->state, FINDING_MISSING);
    CHECK(t, !doctor_essentials(&w.d));

    w.d.n = 0;
    put(&w, "/sys/kernel/btf/vmlinux", "xxxx");
    put(&w, "/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    doctor_kernel(&w.d);
    CHECK_STR(t, find(&w, "BTF")->found, "/sys/kernel/btf/vmlinux, 4 B");
    CHECK_INT(t, find(&w, "lockdown")->state, FINDING_WORKS);
    world_done(&w);
}

static void cgroups_of_both_versions_are_told(struct test *t)
{
    struct world w;
    world_init(&w);
    doctor_host(&w.d);
    CHECK_INT(t, find(&w, "cgroups")->state, FINDING_LOST);
    w.d.n = 0;
    put(&w, "/sys/fs/cgroup/cpu/x", "");
    put(&w, "/proc/sys/vm/unprivileged_userfaultfd", "1\n");
    doctor_host(&w.d);
    CHECK_STR(t, find(&w, "cgroups")->found, "version 1");
    CHECK_INT(t, find(&w, "userfaultfd")->state, FINDING_NOTE);
    w.d.n = 0;
    put(&w, "/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    doctor_host(&w.d);
    CHECK_STR(t, find(&w, "cgroups")->found, "version 2");
    world_done(&w);
}

static void folders_are_looked_at_and_not_made(struct test *t)
{
    struct world w;
    world_init(&w);
    char spool[300], state[300];
    snprintf(spool, sizeof(spool), "%s/a/b/spool", w.dir.path);
    snprintf(state, sizeof(state), "%s", w.dir.path);
    w.config.spool_dir = spool;
    w.config.state_dir = state;
    w.config.debug_dirs = (struct config_list){{"/nowhere/debug"}, 1};
    doctor_folders(&w.d);
    CHECK(t, strstr(find(&w, "spool")->found, "is made at the start"));
    CHECK(t, access(spool, F_OK) < 0);
    CHECK_INT(t, find(&w, "state")->state, FINDING_WORKS);
    CHECK(t, strstr(find(&w, "state")->found, " free"));
    CHECK_INT(t, find(&w, "cache of names")->state, FINDING_NOTE);
    CHECK_INT(t, find(&w, "debug files")->state, FINDING_NOTE);
    w.d.n = 0;
    w.config.spool_dir = "/etc/passwd/spool";
    doctor_folders(&w.d);
    CHECK_INT(t, find(&w, "spool")->state, FINDING_LOST);
    world_done(&w);
}

static void exporters_that_nobody_listens_at_are_told(struct test *t)
{
    struct world w;
    world_init(&w);
    w.config.exporters = (struct config_list){{"http://127.0.0.1:1", "grpc://127.0.0.1:1"}, 2};
    w.config.compression = w.config.token_file = w.config.server = "";
    w.config.ca_file = w.config.cert_file = w.config.key_file = w.config.file_format = "";
    doctor_exporters(&w.d);
    CHECK_INT(t, w.d.n, 2);
    for (size_t i = 0; i < w.d.n; i++) {
        CHECK_INT(t, w.d.list[i].state, FINDING_LOST);
        CHECK(t, strstr(w.d.list[i].found, "Connection refused"));
        CHECK_STR(t, w.d.list[i].fix, "start the server, or say where it is: exporters");
    }
    w.d.n = 0;
    w.config.exporters = (struct config_list){{"gopher://x"}, 1};
    doctor_exporters(&w.d);
    CHECK_INT(t, w.d.list[0].state, FINDING_MISSING);
    world_done(&w);
}

static void text_is_aligned_and_wrapped(struct test *t)
{
    struct world w;
    struct buf out = {0};
    world_init(&w);
    doctor_add(&w.d, FINDING_WORKS, "a", "one %d", 1);
    doctor_judge(&w.d, false, FINDING_LOST, "longer name", "not there",
                 "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n "
                 "o p q r s t u v w x y z",
                 "mend it");
    w.d.area = "Other";
    doctor_add(&w.d, FINDING_MISSING, "c", "x");
    doctor_text(&w.d, false, &out);
    const char *text = strchr(buf_cstr(&out), '\n') + 1;
    CHECK_STR(t, text,
              "\nTest\n"
              "  ok    a            one 1\n"
              "  lost  longer name  not there\n"
              "        lost: a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i "
              "j k l m n o\n"
              "              p q r s t u v w x y z\n"
              "        fix:  mend it\n"
              "\nOther\n"
              "  FAIL  c            x\n"
              "\nThe agent cannot profile this machine: 1 essential thing is missing.\n");
    buf_clear(&out);
    doctor_text(&w.d, true, &out);
    CHECK(t, strstr(buf_cstr(&out), "\033[1;31mFAIL\033[0m"));
    buf_done(&out);
    world_done(&w);
}

static void json_has_the_same_findings(struct test *t)
{
    struct world w;
    struct buf out = {0};
    world_init(&w);
    doctor_judge(&w.d, false, FINDING_LOST, "x", "\"odd\"", "much", "so");
    doctor_json(&w.d, &out);
    CHECK(t, strstr(buf_cstr(&out),
                    "\"works\":true,\"checks\":[{\"area\":\"Test\",\"name\":\"x\",\"state\":"
                    "\"lost\",\"found\":\"\\\"odd\\\"\",\"lost\":\"much\",\"fix\":\"so\"}]}\n"));
    buf_done(&out);
    world_done(&w);
}

static void more_findings_than_fit_do_no_harm(struct test *t)
{
    struct world w;
    world_init(&w);
    for (int i = 0; i < 500; i++)
        doctor_add(&w.d, FINDING_WORKS, "x", "y");
    CHECK(t, w.d.n < 500);
    world_done(&w);
}

/* ---- status */

static void a_status_becomes_a_table(struct test *t)
{
    static const char json[] =
        "{\"age_s\":1.5,\"agent\":{\"version\":\"0.1.0\",\"mode\":\"low\",\"rate\":5,\"why\":"
        "\"host CPU 97 % is over 90 %\",\"types\":[\"cpu\",\"wall\"],\"samples\":1234567,\"lost\":"
        "8,\"left_out\":0,\"windows\":42,\"host_cpu_percent\":97.1,\"cost\":{\"cpu_percent\":0.21,"
        "\"memory_bytes\":18874368,\"table_bytes\":1048576,\"tables\":12,\"files\":40},\"stacks\":{"
        "\"outermost\":990,\"no_user\":500,\"no_table\":10,\"broken\":0},\"workers\":{\"inspector\""
        ":{\"killed\":2,\"died\":1},\"parser\":{\"killed\":0}},\"processes\":[{\"pid\":77,"
        "\"service\":\"check\\u001bout\",\"samples\":1000,\"complete\":998,\"young\":3},{\"pid\":"
        "78,\"service\":\"x\",\"samples\":0,\"complete\":0,\"young\":1}]},\"relay\":{\"exporters\":"
        "[{\"exporter\":\"http://a:1\",\"answers\":false,\"sent_requests\":7,\"sent_bytes\":2048,"
        "\"refused_requests\":1,\"dropped_requests\":2,\"spool_dropped_requests\":3,"
        "\"spool_bytes\":4096,\"queue_bytes\":0}],\"control\":{\"server\":\"http://a:1\","
        "\"answers\":false,\"trouble\":\"gone\"},\"scrape\":[]}}";
    struct buf out = {0};
    struct error err = {""};
    CHECK_INT(t, doctor_show_status(BYTES(json), false, &out, &err), 0);
    CHECK_STR(
        t, buf_cstr(&out),
        "vesta-agent 0.1.0  low at 5 Hz, cpu, wall: host CPU 97 % is over 90 %\n"
        "  cost      0.21 % of a core, 18 MiB of memory, of which tables 1.0 MiB (12 of 40 "
        "files)\n"
        "  samples   1,234,567 taken, 8 lost, 0 left out; 42 windows\n"
        "  host      97 % CPU\n"
        "  stacks    99.0 % whole, no_table 1.0 %\n"
        "  workers   inspector had to be started anew 3 times\n"
        "  sending   http://a:1 DOES NOT ANSWER; 7 sent (2.0 KiB), 1 refused, 5 dropped, 4.0 KiB "
        "waiting\n"
        "  server    http://a:1 DOES NOT ANSWER: gone\n"
        "\n"
        "     PID  SERVICE         SAMPLES    WHOLE     YOUNG\n"
        "      77  check?out         1,000   99.8 %         3\n");
    buf_done(&out);
}

static void a_status_of_another_version_is_shown_as_far_as_it_goes(struct test *t)
{
    static const char *const rows[] = {
        "{}", "{\"agent\":null,\"relay\":{}}", "{\"agent\":{},\"relay\":null,\"new\":[1]}",
        "{\"agent\":{\"rate\":\"x\",\"types\":5,\"cost\":[],\"stacks\":[],\"workers\":{\"a\":1},"
        "\"processes\":{},\"samples\":-1,\"mode\":7}}",
        "{\"agent\":{\"processes\":[1,{\"pid\":1e300}]},\"relay\":{\"exporters\":[7]}}"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out = {0};
        struct error err = {""};
        CHECK_INT(t, doctor_show_status(bytes_of(rows[i]), true, &out, &err), 0);
        CHECK(t, out.len > 0);
        buf_done(&out);
    }
    struct buf out = {0};
    struct error err;
    CHECK_INT(t, doctor_show_status(BYTES("not json"), false, &out, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "status at byte 0"));
    buf_done(&out);
}

/* What a command prints, and how it exits. */
static int run(int (*command)(int argc, char **argv), char **argv, char *text, size_t size)
{
    int pipes[2], status = 0, argc = 0;
    while (argv[argc])
        argc++;
    fflush(stdout);
    if (pipe(pipes) < 0)
        return -1;
    int pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        int r = command(argc, argv);
        fflush(stdout);
        _exit(r);
    }
    close(pipes[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipes[0], text + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(pipes[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_doctor_looks_at_this_machine(struct test *t)
{
    static char text[65536];
    char *argv[] = {(char *)"--exporters", (char *)"file:/tmp", (char *)"--json", NULL};
    int r = run(doctor_main, argv, text, sizeof(text));
    CHECK(t, r == 0 || r == 1);
    if (r > 1)
        printf("# %s\n", text);
    CHECK(t, strstr(text, r == 0 ? "\"works\":true" : "\"works\":false"));
    static const char *const names[] = {"on-CPU sampling", "wall clock", "CAP_BPF", "BTF",
                                        "cgroups",         "spool",      "files"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strstr(text, names[i]))
            CHECK_STR(t, "missing", names[i]);
    char *plain[] = {(char *)"--exporters", (char *)"file:/tmp", NULL};
    CHECK_INT(t, run(doctor_main, plain, text, sizeof(text)), r);
    CHECK(t, !strchr(text, '\033')); /* not a terminal */
    char *wrong[] = {(char *)"--no-such-flag", NULL};
    CHECK_INT(t, run(doctor_main, wrong, text, sizeof(text)), 2);
}

static void status_says_when_there_is_nobody_to_ask(struct test *t)
{
    static char text[4096];
    char *none[] = {NULL};
    CHECK_INT(t, run(status_main, none, text, sizeof(text)), 2);
    CHECK(t, strstr(text, "set listen"));
    char *nobody[] = {(char *)"--listen", (char *)"127.0.0.1:1", NULL};
    CHECK_INT(t, run(status_main, nobody, text, sizeof(text)), 1);
    CHECK(t, strstr(text, "Connection refused"));
}

static const struct test_case cases[] = {
    TEST(each_setting_says_what_is_lost_and_how_to_mend_it),
    TEST(a_kernel_without_btf_lacks_something_essential),
    TEST(cgroups_of_both_versions_are_told),
    TEST(folders_are_looked_at_and_not_made),
    TEST(exporters_that_nobody_listens_at_are_told),
    TEST(text_is_aligned_and_wrapped),
    TEST(json_has_the_same_findings),
    TEST(more_findings_than_fit_do_no_harm),
    TEST(a_status_becomes_a_table),
    TEST(a_status_of_another_version_is_shown_as_far_as_it_goes),
    TEST(the_doctor_looks_at_this_machine),
    TEST(status_says_when_there_is_nobody_to_ask),
};
TEST_MAIN(cases)
