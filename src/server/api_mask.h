#pragma once

#include "profile/profile.h"
#include "server/mask.h"

/*
 * Masks once more what is about to leave the server: rules may be newer than what was stored.
 * Names, paths and values of labels are replaced; stacks stay as they are. The profile's dictionary
 * gains elements and loses none. -ENOBUFS when there is no memory for it.
 */
int api_mask(struct mask *m, struct profile *p, struct error *err);
