/*
 * A C program that opens plugins of C++, one after the other: each for itself, so that its runtime
 * is not seen from elsewhere, or for all after "global", closed at once after "close".
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int call(void *plugin)
{
    int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_main") : NULL;

    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    return run();
}

int main(int argc, char **argv)
{
    bool closes = false;
    int how = RTLD_NOW | RTLD_LOCAL, rc = argc > 1 ? 0 : 2;

    for (int i = 1; i < argc && rc == 0; i++) {
        if (strcmp(argv[i], "global") == 0) {
            how = RTLD_NOW | RTLD_GLOBAL;
        } else if (strcmp(argv[i], "close") == 0) {
            closes = true;
        } else {
            void *plugin = dlopen(argv[i], how);
            rc = call(plugin);
            if (closes && plugin)
                dlclose(plugin);
        }
    }
    return rc;
}
