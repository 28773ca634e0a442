#include "wire/json.h"
