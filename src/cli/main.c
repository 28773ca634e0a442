#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "cli/bucket.h"
#include "cli/color.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/query_verbs.h"
#include "cli/remote.h"
#include "cli/run_signals.h"
#include "cli/selection.h"
#include "cli/store_files.h"
#include "cli/terminal.h"
#include "config/server_config.h"
#include "formats/format.h"
#include "net/s3.h"

#define ASKING (OPTIONS_SERVER | OPTIONS_SELECT)
#define INPUT_AND_REPORT                                                                           \
    (OPTIONS_INPUT | OPTIONS_FILTER | OPTIONS_BASE | OPTIONS_REPORT | OPTIONS_OUTPUT | ASKING)
#define TABLE          (INPUT_AND_REPORT | OPTIONS_JSON | OPTIONS_CSV)
#define TERMINAL_CHUNK ((size_t)64 << 10)
#define FILE_OPTIONS   (OPTIONS_INPUT | OPTIONS_OUTPUT)

/* What --color said, for messages; those about the options themselves go by the terminal. */
static enum color_mode message_color;

/* In the order that help shows them. */
static const struct command commands[] = {
    {"top", "[N] SOURCE...", "the functions that cost most", NULL, TABLE, cmd_report, REPORT_TOP},
    {"tree", "[N] SOURCE...", "functions with their callers and callees", NULL, TABLE, cmd_report,
     REPORT_TREE},
    {"peek", "REGEX SOURCE...", "callers and callees of matching functions", NULL, TABLE,
     cmd_report, REPORT_PEEK},
    {"list", "REGEX SOURCE...", "source of matching functions with the cost of each line", NULL,
     TABLE, cmd_report, REPORT_LIST},
    {"disasm", "REGEX SOURCE...", "instructions of matching functions with their cost", NULL,
     INPUT_AND_REPORT, cmd_report, REPORT_DISASM},
    {"traces", "SOURCE...", "every distinct stack with its value and labels", NULL, TABLE,
     cmd_report, REPORT_TRACES},
    {"tags", "SOURCE...", "labels and what each of their values costs", NULL, TABLE, cmd_report,
     REPORT_TAGS},
    {"raw", "SOURCE...", "the profile as text, table by table", NULL, INPUT_AND_REPORT, cmd_report,
     REPORT_RAW},
    {"comments", "SOURCE...", "the comments stored in a profile", NULL, TABLE, cmd_report,
     REPORT_COMMENTS},
    {"dot", "SOURCE...", "the call graph for Graphviz", NULL, INPUT_AND_REPORT, cmd_report,
     REPORT_DOT},
    {"flame", "SOURCE... -o FILE", "a flame graph that zooms and searches, in one file",
     "FILE.svg is a picture; FILE.html is the viewer of the web UI, with everything in it, "
     "offline.\n"
     "With -base or -diff_base: both sides in one picture, coloured by the change.",
     INPUT_AND_REPORT | OPTIONS_FLAME, cmd_flame, 0},
    {"diff", "BEFORE AFTER", "two profiles compared function by function",
     "Each side may be several: vesta diff -base A1 -base A2 B1 B2.\n"
     "With -o FILE.html or FILE.svg: as a flame graph of both sides, coloured by the change.\n"
     "Rules for --fail-if: total, flat(REGEX) or cum(REGEX), then > or <, then a change:\n"
     "  vesta diff old.pb.gz new.pb.gz --fail-if 'total>+5%, flat(json)>+10ms'",
     TABLE | OPTIONS_DIFF, cmd_diff, 0},
    {"web", "SOURCE...", "the call graph in a browser (needs Graphviz)", NULL, INPUT_AND_REPORT,
     cmd_web, 0},
    {"convert", "SOURCE... OUTPUT", "a profile in another format, saying what that one cannot hold",
     NULL, FILE_OPTIONS | OPTIONS_CONVERT | ASKING, cmd_convert, 0},
    {"merge", "SOURCE... -o FILE", "several profiles added up into one", NULL,
     FILE_OPTIONS | OPTIONS_CONVERT | ASKING, cmd_merge, 0},
    {"info", "SOURCE...", "what a profile holds: format, sample types, totals, times, labels", NULL,
     FILE_OPTIONS | OPTIONS_INFO | OPTIONS_JSON, cmd_info, 0},
    {"symbolize", "BINARY ADDRESS...", "the functions and lines behind addresses of a binary",
     "Addresses are those of the file (as nm and objdump show them), in hex. Inlined calls\n"
     "come first. Debug info is looked for in the binary, by build id and by its debug link;\n"
     "-symbolize=demangle=none keeps the linker's names.",
     FILE_OPTIONS | OPTIONS_JSON, cmd_symbolize, 0},
    {"query", "VERB SELECTION...", "the same questions, asked of a server or a data directory",
     NULL, TABLE | OPTIONS_FLAME | OPTIONS_DIFF | OPTIONS_CONVERT | OPTIONS_DATA | OPTIONS_RANGE,
     cmd_query, 0},
    {"get", "SELECTION... -o FILE", "a selection as a file, in the format that its name says",
     "  vesta get 'cpu{service.name=\"checkout\"}' --from now-1h -o cpu.pb.gz\n"
     "  vesta get 'cpu{service.name=\"checkout\"}' -o flame.svg\n"
     "  vesta get 'cpu{}' -o s3://bucket/cpu.pb.gz\n\n"
     "From the server of --url (VESTA_URL, else " REMOTE_DEFAULT_URL "), or from --data.",
     FILE_OPTIONS | OPTIONS_CONVERT | ASKING | OPTIONS_DATA | OPTIONS_S3, cmd_get, 0},
    {"push", "FILE... | --watch DIR | --sources DIR", "send profiles of any format to a server",
     "  vesta push --service checkout --label env=prod cpu.pb.gz heap.jfr\n"
     "  go tool pprof -proto http://host:6060/debug/pprof/heap | vesta push --service x -\n"
     "  vesta push --watch /var/spool/profiles --done /var/spool/profiles/done\n"
     "  vesta push s3://bucket/prefix --s3-endpoint http://127.0.0.1:9000\n"
     "  vesta push --sources . --service checkout --label version=1.4.2\n\n"
     "The server is --url (VESTA_URL, else " REMOTE_DEFAULT_URL "), --token (VESTA_TOKEN) says\n"
     "who sends. While it does not answer or is too busy, it is tried again (--retry-for); what\n"
     "arrives twice is stored once. --from and --until are the window of profiles that do not\n"
     "say theirs; without them it is when the file was changed. --sources sends the text files\n"
     "of a folder, for the lines behind profiles of that version (or commit).\n\n"
     "FILE.json beside FILE says more about it, all of it optional:\n"
     "  {\"service\": \"checkout\", \"labels\": {\"env\": \"prod\"}, \"from\": TIME,\n"
     "   \"until\": TIME, \"format\": NAME, \"moment\": true}\n\n"
     "Exit codes: 0 all stored or there already, 1 some rejected, 2 usage, 75 the server does\n"
     "not answer or is too busy.",
     OPTIONS_INPUT | OPTIONS_PUSH | OPTIONS_SERVER | OPTIONS_S3, cmd_push, 0},
    {"store", "VERB", "look after a data directory: stat, verify, compact, import, backup...", NULL,
     OPTIONS_INPUT | OPTIONS_OUTPUT | OPTIONS_CONVERT | OPTIONS_JSON | OPTIONS_DATA |
         OPTIONS_RANGE | OPTIONS_IMPORT,
     cmd_store, 0},
    {"record", "[-p PID | -- COMMAND...]", "profile a process, a command or this machine, once",
     "  vesta record -d 30s                      all processes, 99 times a second\n"
     "  vesta record -p 4711 -F 199 --type cpu,wall\n"
     "  vesta record -o make.pb.gz --flame make.svg -- make -j2\n\n"
     "Then the functions that cost most are shown (--no-top: not), and the flame graph is written\n"
     "where --flame says. -o names the file, whose name says the format (profile.pb.gz). Types\n"
     "are cpu, wall, offcpu, lock, faults and threads. All options: \"vesta-agent record "
     "--help\".\n"
     "The work is done by vesta-agent, which needs root or the capabilities that \"vesta-agent\n"
     "doctor\" names; without, only your own processes can be profiled.",
     OPTIONS_CONFIG, cmd_record, 0},
    {"run", "[--] COMMAND...",
     "a command with profiles from inside: allocations, live heap, leaks, locks",
     "  vesta run -- ./server --port 80\n"
     "  vesta run -o /tmp/profiles --types alloc,live -- python3 app.py\n"
     "  vesta run --url http://127.0.0.1:4040 --service checkout --label env=test -- ./checkout\n"
     "  vesta run --off -- ./server & sleep 60; kill -USR2 $!\n\n"
     "The command runs as it would alone, with this terminal; signals are passed on, and its exit\n"
     "code or the signal that ends it. It, and all that it starts, get libvesta-preload.so by "
     "LD_PRELOAD, which samples in the process: no\n"
     "rights are needed, and nothing is changed. Programs that are linked statically or setuid\n"
     "run too, without profiles.\n\n"
     "Every --window and at the end profiles are written to --output (alloc-TIME.pb.gz, heap-...,\n"
     "lock-..., threads-...), or sent by OTLP/HTTP to --url (VESTA_URL), or where\n"
     "OTEL_EXPORTER_OTLP_ENDPOINT says. Then a summary: the code that allocated most, what was\n"
     "still alive, leak suspects, waits for locks. docs/preload.md tells how it works.",
     OPTIONS_RUN | OPTIONS_SERVER, cmd_run, 0},
    {"up", "[-- AGENT OPTIONS]", "a server, and an agent that profiles this host into it",
     "  vesta up\n"
     "  vesta up --data /var/lib/vesta -- --types cpu,offcpu --rate 49\n\n"
     "Words before -- are those of \"vesta server\", words behind it those of \"vesta-agent\". "
     "The\n"
     "agent gives up all rights that it does not need once it has started.",
     OPTIONS_CONFIG, cmd_up, 0},
    {"server", "", "takes profiles in, keeps them, answers: API, OTLP, Pyroscope, pprof",
     "Without flags everything is served on http://127.0.0.1:4040, OTLP also on 4317 (gRPC) and\n"
     "4318 (HTTP), and kept in ./vesta-data. SIGHUP reads the configuration again, SIGTERM\n"
     "finishes what was begun and ends.\n\n"
     "  vesta server\n"
     "  vesta server --data /var/lib/vesta --listen :4040 --auth on\n"
     "  vesta server --config /etc/vesta/vesta.yaml --log-format json\n\n"
     "Every option is also a key of the file and a variable VESTA_*: \"vesta config doc\" "
     "explains\n"
     "each, \"vesta config check\" says what is wrong. Lists have commas, or are repeated.",
     OPTIONS_CONFIG, cmd_server, 0},
    {"token", "create|list|revoke [ID]", "tokens of a server: made, listed, revoked",
     "With --data in a data directory, which a running server notices within two seconds; with\n"
     "--url through the server. A token is shown once, when it is made.\n\n"
     "  vesta token create --data DIR --name ci --roles ingest --expires 90d\n"
     "  vesta token create --data DIR --tenant '*' --roles admin\n"
     "  vesta token revoke --data DIR 0123456789abcdef",
     OPTIONS_OUTPUT | OPTIONS_DATA | OPTIONS_SERVER | OPTIONS_TOKEN, cmd_token, 0},
    {"config", "check|print|doc", "the configuration of a server: checked, shown, explained",
     "check says what is wrong with it, print shows every value and where it comes from, doc is\n"
     "the reference page. Values come from flags, VESTA_* variables and a file.",
     OPTIONS_CONFIG, cmd_config, 0},
};

/* `vesta FILE` without a verb. */
static const struct command shell = {"SOURCE...", "", "opens a prompt", NULL, INPUT_AND_REPORT,
                                     cmd_shell,   0};

const struct command *command_at(size_t n)
{
    return n < ARRAY_SIZE(commands) ? &commands[n] : NULL;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* Who speaks, in front of every message. */
static void print_name(void)
{
    if (color_wanted(message_color, STDERR_FILENO))
        fputs(COLOR_ERROR "vesta:" COLOR_END " ", stderr);
    else
        fputs("vesta: ", stderr);
}

int command_fail(int r, const struct error *err)
{
    print_name();
    terminal_say(bytes_of(err->text));
    fputs(r == -ENOBUFS ? " (--max-memory raises it)\n" : "\n", stderr);
    switch (r) {
    case -EINVAL:
        return VESTA_EXIT_USAGE;
    case -ENODATA:
        return VESTA_EXIT_NO_DATA;
    case -EAGAIN:
        return VESTA_EXIT_LATER;
    default:
        return VESTA_EXIT_ERROR;
    }
}

int command_usage(const struct command *self, const char *fmt, ...)
{
    va_list ap;

    print_name();
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (self == &shell)
        fputs(" (see \"vesta help\")\n", stderr);
    else
        fprintf(stderr, " (usage: vesta %s [options] %s; \"vesta %s --help\" says more)\n",
                self->name, self->arguments, self->name);
    return VESTA_EXIT_USAGE;
}

static int write_all(int fd, struct bytes content)
{
    while (content.len > 0) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        content = bytes_from(content, (size_t)n);
    }
    return 0;
}

/* Line by line: what is shown may be large. */
static int write_terminal(struct bytes content)
{
    CLEANUP(buf_done) struct buf clean = {0};
    int r = 0;

    while (content.len > 0 && r == 0) {
        const uint8_t *end = memchr(content.data, '\n', content.len);
        size_t n = end ? (size_t)(end - content.data) + 1 : content.len;
        terminal_clean(bytes_head(content, n), &clean);
        content = bytes_from(content, n);
        if (clean.len >= TERMINAL_CHUNK || content.len == 0) {
            r = write_all(STDOUT_FILENO, buf_bytes(&clean));
            buf_clear(&clean);
        }
    }
    return r;
}

static int write_and_close(int fd, struct bytes content)
{
    int r = write_all(fd, content);

    if (close(fd) < 0 && r == 0)
        r = -errno;
    return r;
}

/* Writes beside the file and renames, so that a full disk or a kill leaves the old one whole. What
 * is not a plain file (a device, a link), or lies where no file can be made, is written directly.
 */
static int write_file(const char *path, struct bytes content)
{
    char beside[PATH_MAX];
    struct stat st;
    bool exists = lstat(path, &st) == 0;
    bool is_plain = exists ? S_ISREG(st.st_mode) : errno == ENOENT;
    int n = snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    int fd = is_plain && n > 0 && (size_t)n < sizeof(beside) ? mkostemp(beside, O_CLOEXEC) : -1;

    if (fd < 0) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        return fd < 0 ? -errno : write_and_close(fd, content);
    }
    mode_t mask = umask(0);
    umask(mask);
    int r = fchmod(fd, exists ? st.st_mode & 07777 : 0666 & ~mask) < 0 ? -errno : 0;
    int written = write_and_close(fd, content);
    r = r < 0 ? r : written;
    if (r == 0 && rename(beside, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(beside);
    return r;
}

int command_write(const struct options *o, struct bytes content, bool is_binary)
{
    struct error err;
    int r;

    if (!o->output || strcmp(o->output, "-") == 0) {
        if (is_binary && isatty(STDOUT_FILENO)) {
            print_name();
            fputs("this is not for a terminal; give it a file with -o FILE\n", stderr);
            return VESTA_EXIT_USAGE;
        }
        fflush(stdout);
        r = isatty(STDOUT_FILENO) ? write_terminal(content) : write_all(STDOUT_FILENO, content);
        if (r == -EPIPE)
            return VESTA_EXIT_OK; /* the reader has seen enough */
        errno = -r;
        return r < 0 ? command_fail(-EIO, (error_set(&err, r, "could not write: %m"), &err))
                     : VESTA_EXIT_OK;
    }
    if (s3_is_url(o->output)) {
        r = bucket_put(o, o->output, content, "application/octet-stream", &err);
        return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
    }
    r = write_file(o->output, content);
    errno = -r;
    if (r < 0)
        return command_fail(-EIO,
                            (error_set(&err, r, "could not write \"%s\": %m", o->output), &err));
    return VESTA_EXIT_OK;
}

static int help(FILE *out)
{
    fputs("vesta: profiles in any format, answered like pprof\n\n"
          "usage: vesta COMMAND [options] SOURCE...\n"
          "       vesta SOURCE...              opens a prompt\n\n"
          "A SOURCE is a file in any format (gzip and zstd too), \"-\", or a URL such as\n"
          "http://localhost:6060/debug/pprof/profile?seconds=30; with --url or VESTA_URL also a\n"
          "selection of a server: 'cpu{service.name=\"checkout\"}'. Several are merged.\n\n"
          "commands:\n",
          out);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("  help       this text; \"vesta help COMMAND\", \"vesta help formats\"\n\n"
          "Options are pprof's, with one dash or two. Exit codes: 0 ok, 1 error, 2 usage,\n"
          "3 no data, 4 a threshold of --fail-if was breached, 75 a server does not answer.\n",
          out);
    return VESTA_EXIT_OK;
}

static int help_formats(void)
{
    puts("name            read write  format");
    for (size_t i = 0; format_at(i); i++) {
        const struct format *f = format_at(i);
        printf("%-15s %-4s %-6s %s%s%s\n", f->name, f->decode ? "yes" : "-",
               f->encode ? "yes" : "-", f->title, f->extension ? "  " : "",
               f->extension ? f->extension : "");
    }
    puts("dot             -    yes    call graph for Graphviz  .dot");
    return VESTA_EXIT_OK;
}

static void help_query(void)
{
    puts(
        "\nA selection is a sample type and labels, with a range of its own or that of --from and\n"
        "--until:\n\n"
        "  vesta query top 'cpu{service.name=\"checkout\", host.name=~\"web-.*\"}' --from now-1h\n"
        "  vesta query diff 'cpu{service.name=\"a\"}@now-2d..now-1d' 'cpu{service.name=\"a\"}'\n\n"
        "They are asked of --data DIR (VESTA_DATA) or of a server, --url URL (VESTA_URL). With a\n"
        "server, \"vesta top SELECTION\" and its kin do without \"query\".\n\n"
        "verbs: top, tree, peek, list, traces, tags, flame, diff, convert, merge... as for files,\n"
        "and:");
    query_verbs_help(stdout);
}

static void help_config(void)
{
    CLEANUP(buf_done) struct buf out = {0};

    config_help(&server_config_table, &out);
    fputs(buf_cstr(&out), stdout);
}

static int help_command(const struct command *c)
{
    printf("vesta %s: %s\n\nusage: vesta %s [options]%s%s\n", c->name, c->summary, c->name,
           c->arguments[0] ? " " : "", c->arguments);
    if (c->details)
        printf("\n%s\n", c->details);
    if (c->run == cmd_query)
        help_query();
    if (c->run == cmd_store) {
        puts("\n  vesta store import --data DIR --label service.name=checkout cpu.pb.gz\n"
             "  vesta store import --data DIR --max-age 2y old/*.pb.gz\n"
             "  vesta store export --data DIR -o files 'cpu{service.name=\"checkout\"}'\n"
             "  vesta store erase --data DIR '{service.name=\"test\"}' --from 0\n\nverbs:");
        store_verbs_help(stdout);
    }
    if (c->run == cmd_record)
        return VESTA_EXIT_OK; /* its options are another program's */
    puts("\noptions:");
    if (c->groups & OPTIONS_CONFIG)
        help_config();
    else
        options_help(stdout, c->groups);
    return VESTA_EXIT_OK;
}

static int help_about(int argc, char **argv)
{
    if (argc < 3)
        return help(stdout);
    if (strcmp(argv[2], "formats") == 0)
        return help_formats();
    const struct command *c = command_find(argv[2]);
    if (c)
        return help_command(c);
    print_name();
    fprintf(stderr, "there is no command \"%s\"; see \"vesta help\"\n", argv[2]);
    return VESTA_EXIT_USAGE;
}

static int run(const struct command *c, int argc, char **argv)
{
    CLEANUP(options_done) struct options o;
    struct error err;

    options_init(&o);
    int r = options_parse(&o, argc, argv, c->groups, &err);
    if (r < 0)
        return command_usage(c, "%s", err.text);
    if (o.help)
        return help_command(c);
    message_color = o.color;
    o.report.color = color_wanted(o.color, STDOUT_FILENO) && (!o.output || o.color == COLOR_ALWAYS);
    if (o.n_args > 0 && (c->groups & OPTIONS_SELECT) &&
        selection_is_source(&o, o.args[o.n_args - 1]))
        query_prepare(c, &o);
    return c->run(c, &o);
}

/*
 * `vesta -focus=x -list=main FILE` is what pprof users' fingers type: a verb with a dash, anywhere
 * among the options, with its regex behind "=". It becomes argv[1]: the regex, or the verb.
 */
static const struct command *find_dashed(int argc, char **argv, bool *ret_has_regex)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *word = argv[i] + strspn(argv[i], "-");
        size_t len = strcspn(word, "=");
        for (size_t k = 0; argv[i][0] == '-' && k < ARRAY_SIZE(commands); k++) {
            if (strlen(commands[k].name) != len || strncmp(commands[k].name, word, len) != 0)
                continue;
            char *moved = argv[i] + (word - argv[i]) + (word[len] ? len + 1 : 0);
            *ret_has_regex = word[len];
            memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof(*argv));
            argv[1] = moved;
            return &commands[k];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    run_signals_remember();
    hash_randomize();
    /* Blocks of a few MB come from the heap, where freed pages are used again: on small profiles
     * first touches of fresh pages would cost as much as reading does. */
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return VESTA_EXIT_USAGE;
    }
    const char *word = argv[1];
    const char *bare = word + strspn(word, "-");
    if (strcmp(bare, "help") == 0 || strcmp(word, "-h") == 0)
        return help_about(argc, argv);
    if (strcmp(bare, "version") == 0) {
        puts("vesta " VESTA_VERSION);
        return VESTA_EXIT_OK;
    }
    const struct command *c = command_find(word);
    if (c)
        return run(c, argc - 1, argv + 1);
    bool has_regex = false;
    if (word[0] == '-' && (c = find_dashed(argc, argv, &has_regex)))
        return has_regex ? run(c, argc, argv) : run(c, argc - 1, argv + 1);
    if (load_is_source(word) || word[0] == '-' || strchr(word, '{'))
        return run(&shell, argc, argv);
    print_name();
    fprintf(stderr, "there is no command or file \"%s\"; see \"vesta help\"\n", word);
    return VESTA_EXIT_USAGE;
}
