#include "cli/beside.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/command.h"

static const char *const endings[] = {".svg", ".speedscope.json"};

static void write_one(const struct options *o, const char *file, const char *ending,
                      int (*run)(const struct command *self, struct options *o))
{
    CLEANUP(buf_done) struct buf path = {0};
    struct options picture;
    const char *args[] = {file, NULL};

    buf_addf(&path, "%s%s", file, ending);
    options_init(&picture);
    picture.args = args;
    picture.n_args = 1;
    picture.output = buf_cstr(&path);
    picture.to = run == cmd_convert ? "speedscope" : NULL;
    picture.input_format = o->input_format;
    picture.max_memory = o->max_memory;
    picture.color = o->color;
    (void)run(command_find(run == cmd_convert ? "convert" : "flame"), &picture);
}

void beside_write(const struct options *o, const char *file)
{
    if (o->write_svg)
        write_one(o, file, endings[0], cmd_flame);
    if (o->write_speedscope)
        write_one(o, file, endings[1], cmd_convert);
}

bool beside_is_one(const char *name, size_t *ret_len)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        size_t n = strlen(endings[i]);
        if (len > n && strcmp(name + len - n, endings[i]) == 0) {
            *ret_len = len - n;
            return true;
        }
    }
    return false;
}
