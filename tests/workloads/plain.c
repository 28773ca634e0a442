/* Plain calls, without frame pointers. */
#include "work.h"

NOINLINE void hot_sixty(void)
{
    spin(60);
    sink++;
}
NOINLINE void hot_thirty(void)
{
    spin(30);
    sink++;
}
NOINLINE void hot_ten(void)
{
    spin(10);
    sink++;
}
NOINLINE void stage_one(void)
{
    hot_sixty();
    sink++;
}
NOINLINE void stage_two(void)
{
    hot_thirty();
    hot_ten();
    sink++;
}
NOINLINE void run(double until)
{
    while (seconds_now() < until) {
        stage_one();
        stage_two();
    }
    sink++;
}

int main(int argc, char **argv)
{
    run(seconds_now() + seconds_asked(argc, argv));
    return 0;
}
