#include "agent/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/doctor_internal.h"
#include "agent/home.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "probe/probe.h"
#include "wire/json.h"

#define WIDTH 96

/* ---- findings */

struct finding *doctor_add(struct doctor *d, enum finding_state state, const char *name,
                           const char *fmt, ...)
{
    size_t last = ARRAY_SIZE(d->list) - 1;
    struct finding *f = &d->list[d->n < last ? d->n++ : last];
    va_list args;

    *f = (struct finding){.area = d->area, .state = state};
    snprintf(f->name, sizeof(f->name), "%s", name);
    va_start(args, fmt);
    vsnprintf(f->found, sizeof(f->found), fmt, args);
    va_end(args);
    return f;
}

void doctor_judge(struct doctor *d, bool works, enum finding_state state, const char *name,
                  const char *found, const char *lost, const char *fix)
{
    struct finding *f = doctor_add(d, works ? FINDING_WORKS : state, name, "%s", found);
    if (works)
        return;
    f->lost = lost;
    f->fix = fix;
}

bool doctor_line(const struct doctor *d, const char *path, char *ret, size_t size)
{
    char whole[512];
    snprintf(whole, sizeof(whole), "%s%s", d->root, path);
    CLEANUP(fclosep) FILE *f = fopen(whole, "re");
    if (!f || !fgets(ret, (int)size, f))
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return true;
}

bool doctor_essentials(const struct doctor *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->list[i].state == FINDING_MISSING)
            return false;
    return true;
}

/* ---- as text */

static const struct {
    const char *mark, *color, *name;
} states[] = {
    [FINDING_WORKS] = {"ok", "\033[32m", "works"},
    [FINDING_NOTE] = {"note", "\033[2m", "note"},
    [FINDING_LOST] = {"lost", "\033[33m", "lost"},
    [FINDING_MISSING] = {"FAIL", "\033[1;31m", "missing"},
};

/* Words of a text on lines of at most WIDTH, those after the first indented as the first. */
static void add_wrapped(struct buf *out, const char *label, const char *text, size_t indent)
{
    size_t column = indent + strlen(label);

    buf_addf(out, "%*s%s", (int)indent, "", label);
    indent = column;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > indent && column + n > WIDTH) {
            buf_addf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        buf_add(out, text, n);
        column += n + 1;
        text += n;
        if (*text == ' ') {
            text++;
            if (column + strcspn(text, " ") <= WIDTH)
                buf_add_byte(out, ' ');
        }
    }
    buf_add_byte(out, '\n');
}

static void add_finding(const struct finding *f, size_t width, bool is_colored, struct buf *out)
{
    bool is_marked = is_colored && states[f->state].color;
    buf_addf(out, "  %s%-4s%s  %-*s  %s\n", is_marked ? states[f->state].color : "",
             states[f->state].mark, is_marked ? "\033[0m" : "", (int)width, f->name, f->found);
    if (f->lost)
        add_wrapped(out, f->state == FINDING_NOTE ? "so:   " : "lost: ", f->lost, 8);
    if (f->fix)
        add_wrapped(out, "fix:  ", f->fix, 8);
}

static size_t count(const struct doctor *d, enum finding_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += d->list[i].state == state;
    return n;
}

static bool own_processes_work(const struct doctor *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->list[i].name, probe_feature_name(PROBE_OWN)) == 0)
            return d->list[i].state == FINDING_WORKS;
    return false;
}

void doctor_text(const struct doctor *d, bool is_colored, struct buf *out)
{
    struct utsname u;
    size_t width = 0;
    const char *area = "";

    uname(&u);
    for (size_t i = 0; i < d->n; i++)
        if (strlen(d->list[i].name) > width)
            width = strlen(d->list[i].name);
    buf_addf(out, "vesta-agent %s on %s\n", VESTA_VERSION, u.nodename);
    for (size_t i = 0; i < d->n; i++) {
        if (strcmp(area, d->list[i].area) != 0) {
            area = d->list[i].area;
            buf_addf(out, "\n%s%s%s\n", is_colored ? "\033[1m" : "", area,
                     is_colored ? "\033[0m" : "");
        }
        add_finding(&d->list[i], width, is_colored, out);
    }
    size_t missing = count(d, FINDING_MISSING), lost = count(d, FINDING_LOST);
    buf_add_byte(out, '\n');
    if (missing > 0)
        buf_addf(out, "The agent cannot profile this machine: %zu essential thing%s missing.\n%s",
                 missing, missing == 1 ? " is" : "s are",
                 own_processes_work(d)
                     ? "Your own processes can be profiled all the same, CPU time "
                       "in user space only, by perf events.\n"
                     : "");
    else if (lost > 0)
        buf_addf(out, "Everything essential works; %zu thing%s lost.\n", lost,
                 lost == 1 ? " is" : "s are");
    else
        buf_add_str(out, "Everything works.\n");
}

/* ---- as JSON */

static void add_text(struct json_writer *w, const char *key, const char *value)
{
    if (!value || value[0] == '\0')
        return;
    json_key(w, key);
    json_cstring(w, value);
}

void doctor_json(const struct doctor *d, struct buf *out)
{
    struct json_writer w = {.out = out};
    struct utsname u;

    uname(&u);
    json_begin_object(&w);
    add_text(&w, "version", VESTA_VERSION);
    add_text(&w, "host", u.nodename);
    add_text(&w, "kernel", u.release);
    json_key(&w, "works");
    json_bool(&w, doctor_essentials(d));
    json_key(&w, "checks");
    json_begin_array(&w);
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->list[i];
        json_begin_object(&w);
        add_text(&w, "area", f->area);
        add_text(&w, "name", f->name);
        add_text(&w, "state", states[f->state].name);
        add_text(&w, "found", f->found);
        add_text(&w, "lost", f->lost);
        add_text(&w, "fix", f->fix);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* ---- the command */

bool doctor_wants_color(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(STDOUT_FILENO);
}

int doctor_options(int argc, char **argv, bool *ret_json, struct config **ret)
{
    CLEANUP(freep) const char **args = must_calloc((size_t)argc + 1, sizeof(*args));
    size_t n = 0;
    struct error err = {""};

    *ret_json = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            *ret_json = true;
        else
            args[n++] = argv[i];
    }
    if (agent_config_load(&(struct config_input){.args = args,
                                                 .n_args = n,
                                                 .env = (const char *const *)environ,
                                                 .looks_for_a_file = true},
                          ret, &err) < 0) {
        fprintf(stderr, "vesta-agent: %s\n", err.text);
        return 2;
    }
    home_folders(*ret);
    return 0;
}

int doctor_main(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(freep) struct doctor *d = must_calloc(1, sizeof(*d));
    bool is_json;

    int r = doctor_options(argc, argv, &is_json, &config);
    if (r != 0)
        return r;
    d->config = agent_config_of(config);
    d->root = "";
    doctor_kernel(d);
    doctor_probe(d);
    doctor_rights(d);
    doctor_host(d);
    doctor_folders(d);
    doctor_exporters(d);
    if (is_json)
        doctor_json(d, &out);
    else
        doctor_text(d, doctor_wants_color(), &out);
    fwrite(out.data, 1, out.len, stdout);
    return doctor_essentials(d) ? 0 : 1;
}
