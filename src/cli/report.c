#include "cli/report.h"

#include <errno.h>

void report_options_init(struct report_options *o)
{
    *o = (struct report_options){
        .unit = "minimum",
        .nodecount = -1,
        .nodefraction = 0.005,
        .edgefraction = 0.001,
        .divide_by = 1,
        .trim = true,
    };
}

int report_run(enum report_kind kind, const struct profile *p, const struct report_options *o,
               const char *argument, struct buf *out, struct error *err)
{
    (void)kind, (void)p, (void)o, (void)argument, (void)out;
    return error_set(err, -EOPNOTSUPP, "this report is not written yet");
}
