#include <errno.h>

#include "cli/report_internal.h"

int report_disasm(struct report *r)
{
    return error_set(r->err, -EOPNOTSUPP, "this report is not written yet");
}
