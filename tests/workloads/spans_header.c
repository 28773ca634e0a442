/* Costs 70 of 100 in span a and 30 in span b, and says so with vesta.h. */
#include <pthread.h>
#include <string.h>
#include <vesta/vesta.h>

#include "work.h"

static double until;

NOINLINE void hot_seventy(void) { spin(70); sink++; }
NOINLINE void hot_thirty(void) { spin(30); sink++; }

static void serve(uint8_t id, const char *route, void (*work)(void))
{
    uint8_t trace[16], span[8];

    memset(trace, id, sizeof(trace));
    memset(span, id + 1, sizeof(span));
    vesta_span_set(trace, span);
    vesta_label_set("http.route", route);
    work();
    vesta_label_clear("http.route");
    vesta_span_clear();
}

static void *run(void *arg)
{
    while (seconds_now() < until) {
        serve(0xa0, "/cart", hot_seventy);
        serve(0xb0, "/pay", hot_thirty);
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    until = seconds_now() + seconds_asked(argc, argv);
    vesta_process_publish("spans-service", NULL, 0);
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}
