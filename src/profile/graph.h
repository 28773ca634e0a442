#pragma once

#include "profile/frames.h"
