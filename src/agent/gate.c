#include "agent/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "relay/directive.h"

#define SECOND ((int64_t)1000000000)

/* A file that was written this shortly ago may have been written again within the same tick of its
 * clock: it is read again. */
#define FRESH_NS (3 * SECOND)

struct seen_file {
    bool is_there;
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t mtime_ns;
};

struct gate {
    struct governor *governor;
    char *file;
    int64_t burst_ns;
    void (*say)(void *arg, const char *text);
    void *arg;

    struct seen_file seen;
    char text[128];    /* of the file, as it was understood last */
    char trouble[192]; /* what was told last of a file that cannot be used */
    bool is_off;       /* by signal */
    struct directive directive;
    bool has_directive;
};

struct gate *gate_new(const struct gate_options *o)
{
    struct gate *g = must_calloc(1, sizeof(*g));
    g->governor = o->governor;
    g->file = o->file && o->file[0] ? must_copy(bytes_of(o->file)) : NULL;
    g->burst_ns = o->burst_ns;
    g->say = o->say;
    g->arg = o->arg;
    return g;
}

void gate_free(struct gate *g)
{
    if (!g)
        return;
    free(g->file);
    free(g);
}

static void say(struct gate *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct gate *g, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (!g->say)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    g->say(g->arg, text);
}

static void be_silent(struct gate *g, enum governor_source source)
{
    governor_ask(g->governor, source, &(struct governor_ask){0});
}

/* ---- the file */

static bool parse_mode(const char *word, enum agent_mode *ret)
{
    char lower[16];
    size_t n = strlen(word);
    if (n >= sizeof(lower))
        return false;
    for (size_t i = 0; i <= n; i++)
        lower[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    return agent_mode_parse(lower, ret);
}

/* Says it unless it was the last thing said. */
static void trouble(struct gate *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void trouble(struct gate *g, const char *fmt, ...)
{
    char text[sizeof(g->trouble)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    be_silent(g, ASKED_BY_FILE);
    if (strcmp(text, g->trouble) == 0)
        return;
    memcpy(g->trouble, text, sizeof(text));
    say(g, "gate file \"%s\" is ignored: %s", g->file, text);
}

/* Words for people, whatever bytes are in the file. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            *text = '?';
}

static void obey_file(struct gate *g, const char *text, int64_t now_ns, int64_t wall_ns)
{
    char word[32] = "", time[32] = "", more[2] = "";
    struct governor_ask ask = {.speaks = true};
    int64_t lasts = 0;

    int n = sscanf(text, "%31s %31s %1s", word, time, more);
    if (n <= 0) {
        be_silent(g, ASKED_BY_FILE);
        return;
    }
    make_printable(word);
    make_printable(time);
    if (!parse_mode(word, &ask.mode)) {
        trouble(g, "its first word is off, low, normal or burst, not \"%s\"", word);
        return;
    }
    if (n > 1 && (!bytes_to_duration(bytes_of(time), &lasts) || lasts <= 0)) {
        trouble(g, "its second word is how long, such as 5m, not \"%s\"", time);
        return;
    }
    if (lasts == 0 && ask.mode == MODE_BURST)
        lasts = g->burst_ns;
    if (lasts > 0) {
        int64_t age = wall_ns - g->seen.mtime_ns;
        if (age < 0) /* a clock was set, or the file comes from the future */
            age = 0;
        if (age >= lasts) {
            be_silent(g, ASKED_BY_FILE);
            return;
        }
        ask.until_ns = now_ns + lasts - age;
    }
    g->trouble[0] = '\0';
    governor_ask(g->governor, ASKED_BY_FILE, &ask);
    say(g, "the gate file asks for %s", agent_mode_name(ask.mode));
}

static void read_file(struct gate *g, bool is_new, int64_t now_ns, int64_t wall_ns)
{
    /* Whatever was put there, a FIFO for one, must not make us wait. */
    CLEANUP(closep) int fd = open(g->file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    char text[sizeof(g->text)] = "";

    if (fd < 0) {
        if (errno != ENOENT)
            trouble(g, "%s", strerror(errno));
        return;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        trouble(g, "it is not a regular file");
        return;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n < 0) {
        trouble(g, "%s", strerror(errno));
        return;
    }
    text[n] = '\0';
    if (!is_new && strcmp(text, g->text) == 0)
        return;
    memcpy(g->text, text, sizeof(text));
    obey_file(g, text, now_ns, wall_ns);
}

static bool same_file(const struct seen_file *a, const struct seen_file *b)
{
    return a->is_there == b->is_there && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->mtime_ns == b->mtime_ns;
}

void gate_look(struct gate *g, int64_t now_ns, int64_t wall_ns)
{
    struct stat st;
    struct seen_file now = {0};

    if (!g->file)
        return;
    if (stat(g->file, &st) == 0)
        now = (struct seen_file){
            .is_there = true,
            .device = st.st_dev,
            .inode = st.st_ino,
            .size = st.st_size,
            .mtime_ns = (int64_t)st.st_mtim.tv_sec * SECOND + st.st_mtim.tv_nsec,
        };
    else if (errno != ENOENT && errno != ENOTDIR)
        trouble(g, "%s", strerror(errno));

    bool is_new = !same_file(&now, &g->seen);
    bool was_there = g->seen.is_there;
    int64_t age = wall_ns - now.mtime_ns;
    g->seen = now;
    if (now.is_there && (is_new || (age >= 0 && age < FRESH_NS))) {
        read_file(g, is_new, now_ns, wall_ns);
    } else if (was_there && !now.is_there) {
        g->text[0] = g->trouble[0] = '\0';
        be_silent(g, ASKED_BY_FILE);
        say(g, "the gate file is gone");
    }
}

/* ---- signals */

void gate_signal(struct gate *g, int number, int64_t now_ns)
{
    struct governor_ask ask = {.speaks = true, .mode = MODE_OFF};

    if (number == SIGUSR1) {
        g->is_off = !g->is_off;
        ask.speaks = g->is_off;
        say(g, "SIGUSR1 switches %s", g->is_off ? "off" : "on");
    } else if (number == SIGUSR2) {
        char text[DURATION_TEXT_MAX];
        g->is_off = false;
        ask.mode = MODE_BURST;
        ask.until_ns = now_ns + g->burst_ns;
        say(g, "SIGUSR2 asks for a burst of %s", duration_text(g->burst_ns, text));
    } else {
        return;
    }
    governor_ask(g->governor, ASKED_BY_SIGNAL, &ask);
}

/* ---- the server */

static uint32_t types_of(struct gate *g, const struct directive *d)
{
    uint32_t types = 0;
    for (size_t i = 0; i < d->n_types; i++) {
        enum agent_type type;
        if (agent_type_parse(d->types[i], &type))
            types |= 1U << type;
        else
            say(g, "the server asks for \"%s\", which is no type of profile here", d->types[i]);
    }
    return types;
}

void gate_directive(struct gate *g, struct bytes json, int64_t now_ns, int64_t wall_ns)
{
    struct directive d;
    struct error err;
    struct governor_ask ask = {.speaks = true};

    if (directive_read(json, &d, &err) < 0) {
        say(g, "a directive of the server is ignored: %s", err.text);
        return;
    }
    if (g->has_directive && directive_same(&d, &g->directive))
        return;
    g->directive = d;
    g->has_directive = true;
    if (d.number == 0) {
        be_silent(g, ASKED_BY_SERVER);
        return;
    }
    if (!agent_mode_parse(d.mode, &ask.mode)) {
        be_silent(g, ASKED_BY_SERVER);
        say(g, "a directive of the server is ignored: its mode is \"%s\"", d.mode);
        return;
    }
    if (d.lasts_ns == 0)
        directive_count_from(&d, (struct bytes){0}, wall_ns);
    if (d.lasts_ns > 0)
        ask.until_ns = now_ns + d.lasts_ns;
    ask.rate = (uint32_t)(d.rate + 0.5);
    ask.types = types_of(g, &d);
    governor_ask(g->governor, ASKED_BY_SERVER, &ask);
    say(g, "the server asks for %s%s%s", d.mode, d.reason[0] ? ": " : "", d.reason);
}
