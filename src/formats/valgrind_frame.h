#pragma once

#include "profile/dict.h"

/*
 * A frame as Valgrind's tools print it: "0x1095DE: ins (work.c:21)", "0x48: malloc (in /lib/x.so)"
 * or "0x48: ???". Yields its location; text that is none of these is a name.
 */
uint32_t valgrind_location(struct dict *d, struct bytes text);
