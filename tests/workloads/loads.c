/* Loads plugin.so (second argument) a second after it started, and works in it. */
#include <dlfcn.h>
#include <stdio.h>

#include "work.h"

NOINLINE void hot_callback(void)
{
    spin(30);
    sink++;
}

int main(int argc, char **argv)
{
    double start = seconds_now(), until = start + seconds_asked(argc, argv);

    while (seconds_now() < start + 1)
        hot_callback();
    void *library = dlopen(argc > 2 ? argv[2] : "./plugin.so", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void (*work)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(library, "plugin_work");
    while (seconds_now() < until)
        work(hot_callback);
    return 0;
}
