#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The checksum of everything that is stored (XXH3, 64 bits): the same on every machine and in every
 * version. It finds rot, torn writes and swapped blocks; it does not resist an attacker.
 *
 * A seed ties bytes to their place: the block number, say, so that a block that was written to the
 * wrong place does not pass.
 */
uint64_t checksum64(const void *data, size_t len);
uint64_t checksum64_seeded(const void *data, size_t len, uint64_t seed);
