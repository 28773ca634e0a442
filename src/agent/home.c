#include "agent/home.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* $variable/vesta-agent, or $HOME/otherwise/vesta-agent; false without either. */
static bool folder(const char *variable, const char *otherwise, char ret[PATH_MAX])
{
    const char *base = getenv(variable), *home = getenv("HOME");
    int n = -1;

    if (base && base[0] == '/') /* others do not count, says the specification */
        n = snprintf(ret, PATH_MAX, "%s/vesta-agent", base);
    else if (home && home[0] == '/')
        n = snprintf(ret, PATH_MAX, "%s/%s/vesta-agent", home, otherwise);
    return n > 0 && n < PATH_MAX;
}

void home_folders(struct config *c)
{
    static const char why[] = "not root: below the user's home";
    static char state[PATH_MAX], spool[PATH_MAX + 8], cache[PATH_MAX];

    if (geteuid() == 0)
        return;
    if (folder("XDG_STATE_HOME", ".local/state", state)) {
        snprintf(spool, sizeof(spool), "%s/spool", state);
        config_set_default(c, "state_dir", state, why);
        config_set_default(c, "spool.dir", spool, why);
    }
    if (folder("XDG_CACHE_HOME", ".cache", cache))
        config_set_default(c, "cache.dir", cache, why);
}
