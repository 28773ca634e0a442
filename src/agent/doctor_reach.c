#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/doctor_internal.h"
#include "base/budget.h"
#include "base/cleanup.h"
#include "net/http_client.h"
#include "net/url.h"
#include "relay/otlp_env.h"

#define CONNECT_MS 3000
#define LOOK_S     5

/* ---- folders */

/* Whether the user the agent becomes may write there, as far as owner and mode tell. */
static bool may_write(const struct stat *st, const char *user)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0 && user[0] != '\0') {
        const struct passwd *p = getpwnam(user);
        if (!p)
            return false;
        uid = p->pw_uid;
        gid = p->pw_gid;
        if (st->st_uid == 0 && (st->st_mode & 0022) == 0)
            return true; /* it is handed over when the agent starts */
    }
    mode_t bit = st->st_uid == uid ? S_IWUSR : st->st_gid == gid ? S_IWGRP : S_IWOTH;
    return uid == 0 || (st->st_mode & bit) != 0;
}

/* The nearest folder above `path` that is there. */
static void existing_parent(const char *path, char *to, size_t size)
{
    snprintf(to, size, "%s", path);
    while (access(to, F_OK) < 0) {
        char *slash = strrchr(to, '/');
        if (!slash || slash == to) {
            snprintf(to, size, "/");
            return;
        }
        *slash = '\0';
    }
}

static void folder(struct doctor *d, const char *name, const char *path, const char *lost)
{
    char parent[4096], found[256], space[BUDGET_TEXT_MAX] = "?";
    struct stat st;
    struct statvfs fs;

    if (path[0] == '\0') {
        doctor_add(d, FINDING_NOTE, name, "none, as configured")->lost = lost;
        return;
    }
    if (statvfs(path, &fs) == 0)
        budget_text((size_t)(fs.f_bavail * fs.f_frsize), space);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(found, sizeof(found), "%.150s, %s free", path, space);
        doctor_judge(d, may_write(&st, d->config->user), FINDING_LOST, name, found, lost,
                     "make the folder the agent's user's own");
        return;
    }
    existing_parent(path, parent, sizeof(parent));
    bool can_make = stat(parent, &st) == 0 && S_ISDIR(st.st_mode) && access(parent, W_OK) == 0;
    snprintf(found, sizeof(found), "%.150s %s", path,
             can_make ? "is made at the start" : "is not there and cannot be made");
    doctor_judge(d, can_make, FINDING_LOST, name, found, lost,
                 "make the folder, owned by the agent's user, or name another one");
}

static void debug_folder(struct doctor *d, const char *path)
{
    char name[64];
    struct stat st;
    snprintf(name, sizeof(name), "debug files");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        doctor_add(d, FINDING_WORKS, name, "%.200s", path);
    else
        doctor_add(d, FINDING_NOTE, name, "no %.200s", path)->lost =
            "stripped programs have the names that they export, no lines and no inlined calls";
}

void doctor_folders(struct doctor *d)
{
    const struct agent_config *c = d->config;

    d->area = "Files";
    folder(d, "state", c->state_dir, "the agent is another one to the server after each restart");
    folder(d, "spool", c->spool_dir,
           "profiles that cannot be sent wait in memory, and fewer of "
           "them");
    folder(d, "cache of names", c->cache_dir,
           "names of large programs are read anew after each restart");
    if (c->debug_dirs.n == 0)
        debug_folder(d, "/usr/lib/debug");
    for (size_t i = 0; i < c->debug_dirs.n; i++)
        debug_folder(d, c->debug_dirs.items[i]);
}

/* ---- network */

static int connect_one(const struct addrinfo *a)
{
    CLEANUP(closep)
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    socklen_t len = sizeof(error);
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    if (poll(&p, 1, CONNECT_MS) <= 0)
        return -ETIMEDOUT;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return -error;
}

static bool can_connect(const char *text, char *why, size_t size)
{
    struct url u;
    struct error err;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;

    if (url_parse(text, &u, &err) < 0) {
        snprintf(why, size, "%.190s", err.text);
        return false;
    }
    int r = getaddrinfo(u.host, u.port, &hints, &list);
    if (r != 0) {
        snprintf(why, size, "%.100s: %s", u.host, gai_strerror(r));
        return false;
    }
    r = -EHOSTUNREACH;
    for (const struct addrinfo *a = list; a && r < 0; a = a->ai_next)
        r = connect_one(a);
    freeaddrinfo(list);
    if (r < 0)
        snprintf(why, size, "could not connect: %s", strerror(-r));
    return r == 0;
}

/* Without the newline at its end. */
static size_t read_token(const char *path, char *to, size_t size)
{
    CLEANUP(closep) int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
    to[strcspn(to, "\r\n")] = '\0';
    return strlen(to);
}

/* An empty request is one that says nothing: who takes profiles answers 200. */
static int send_nothing(const struct export_settings *s, const char *url, struct http_answer *ret,
                        struct budget *budget, struct error *err)
{
    struct http_header headers[EXPORT_HEADERS_MAX + 2];
    char token[4096], value[4200];
    size_t n = 0;

    for (size_t i = 0; i < s->n_headers; i++)
        headers[n++] = s->headers[i];
    if (read_token(s->token_file, token, sizeof(token)) > 0) {
        snprintf(value, sizeof(value), "Bearer %s", token);
        headers[n++] = (struct http_header){BYTES("authorization"), bytes_of(value)};
    }
    headers[n++] = (struct http_header){BYTES("content-type"), BYTES("application/x-protobuf")};
    CLEANUP(http_client_freep)
    struct http_client *c = http_client_new(&(struct http_client_options){
        .ca_file = s->ca_file,
        .cert_file = s->cert_file,
        .key_file = s->key_file,
        .connect_s = CONNECT_MS / 1000,
        .total_s = LOOK_S,
    });
    return http_fetch(c,
                      &(struct http_fetch){.method = "POST",
                                           .url = url,
                                           .headers = headers,
                                           .n_headers = n,
                                           .answer_max = (uint64_t)256 << 10},
                      budget, ret, err);
}

#define SENDING_LOST "profiles wait in the spool, and the oldest are dropped"
#define SENDING_FIX  "start the server, or say where it is: exporters"

static void reach_http(struct doctor *d, const struct export_settings *s,
                       const struct export_target *target)
{
    struct budget budget;
    struct http_answer a;
    struct error err = {""};

    budget_init(&budget, (size_t)1 << 20);
    if (send_nothing(s, target->url, &a, &budget, &err) < 0) {
        doctor_judge(d, false, FINDING_LOST, "exporter", err.text, SENDING_LOST, SENDING_FIX);
        return;
    }
    int status = a.status;
    (void)http_answer_error(&a, target->name, &err);
    http_answer_done(&budget, &a);
    if (status == 200)
        doctor_add(d, FINDING_WORKS, "exporter", "%.200s takes profiles", target->name);
    else
        doctor_judge(d, false, FINDING_LOST, "exporter", err.text, SENDING_LOST,
                     status == 401 || status == 403
                         ? "a token that may ingest: token_file, or headers"
                         : "an address that takes OTLP profiles: exporters");
}

static void reach_grpc(struct doctor *d, const struct export_target *target)
{
    char why[200] = "", found[256];
    bool works = can_connect(target->url, why, sizeof(why));

    snprintf(found, sizeof(found), "%.100s %s", target->name, works ? "can be connected to" : why);
    doctor_judge(d, works, FINDING_LOST, "exporter", found, SENDING_LOST, SENDING_FIX);
}

void doctor_exporters(struct doctor *d)
{
    struct export_settings s = {0};
    struct error err;

    d->area = "Sending";
    if (export_settings_make(d->config, (const char *const *)environ, &s, &err) < 0) {
        doctor_judge(d, false, FINDING_MISSING, "exporters", err.text, "nothing can be sent",
                     "mend the configuration or the environment");
        return;
    }
    if (s.n_targets == 0)
        doctor_add(d, FINDING_NOTE, "exporters", "none, as configured")->lost =
            "nothing is sent anywhere";
    for (size_t i = 0; i < s.n_targets; i++) {
        const struct export_target *target = &s.targets[i];
        if (target->kind == EXPORT_HTTP)
            reach_http(d, &s, target);
        else if (target->kind == EXPORT_GRPC)
            reach_grpc(d, target);
        else
            folder(d, "files", target->url, "profiles cannot be written");
    }
    export_settings_done(&s);
}
