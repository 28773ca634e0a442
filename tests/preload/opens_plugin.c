/* A C program that opens a plugin of C++ for itself: its runtime is not seen from elsewhere. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_main") : NULL;
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int rc = run();
    dlclose(plugin);
    return rc;
}
