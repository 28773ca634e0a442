/* Operations whose own files are still to come. */
#include <errno.h>

#include "segment/block_cache.h"
#include "store_local/local_ops.h"
#include "store_local/memtable.h"

int local_set_policy(struct store *s, struct bytes tenant, const struct store_policy *policy,
                     struct error *err)
{
    (void)s, (void)tenant, (void)policy;
    return error_set(err, -EOPNOTSUPP, "policies are not supported");
}
