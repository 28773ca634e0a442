#pragma once

#include "base/cleanup.h"
#include "catalog/catalog.h"
#include "store/selector.h"

/*
 * Deployments: told by people and pipelines (POST /api/v1/deployments), and found in the stream,
 * where a service comes with a version, commit or deployment id that it did not have before in its
 * environment. The first of a service counts, too. Those are in the catalog; here is only what
 * keeps the stream from asking it each time.
 */
struct deployments;

/* Without a catalog nothing is kept. */
struct deployments *deployments_new(struct catalog *catalog);
void deployments_free(struct deployments *d); /* NULL is fine */
DEFINE_CLEANUP(struct deployments *, deployments_free)

/* A profile with these labels, normalized, was stored. Any thread; nearly always a few loads. New
 * ones beyond a rate are left for later; a service that has a thousand in a month gets no more. */
void deployments_saw(struct deployments *d, struct bytes tenant, const struct label *labels,
                     size_t n_labels, int64_t start_ns);
