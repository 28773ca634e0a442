#pragma once

#include "cli/options.h"
#include "store/store.h"

/*
 * A server as a store: what is asked of it goes to its API, and comes back as if it were kept here.
 * Sums are made by the server. Nothing can be appended or looked after this way; such calls are
 * -EOPNOTSUPP. Belongs to one thread.
 *
 * Connects to nobody yet. -EINVAL for a URL that cannot be.
 */
int remote_store_open(const struct options *o, struct store **ret, struct error *err);
