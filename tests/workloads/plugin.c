/* A library that is loaded late. */
#include "work.h"

NOINLINE void hot_in_plugin(void)
{
    spin(70);
    sink++;
}

void plugin_work(void (*back)(void))
{
    hot_in_plugin();
    back();
    sink++;
}
