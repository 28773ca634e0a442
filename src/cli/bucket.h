#pragma once

#include "cli/push.h"

/*
 * Profiles in S3-compatible buckets: where --s3-endpoint and the AWS_ variables of the environment
 * say.
 */

/* Pushes every object under s3://BUCKET/PREFIX. KEY.json beside KEY is its sidecar; objects that do
 * not say when they were taken are as old as they are in the bucket. As push_item() otherwise. */
int bucket_push(struct pusher *p, const char *url, struct error *err);

/* Writes an object. */
int bucket_put(const struct options *o, const char *url, struct bytes content,
               const char *content_type, struct error *err);
