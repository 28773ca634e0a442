#pragma once

#include "relay/relay_internal.h"

extern const struct relay_part scrape_part;
