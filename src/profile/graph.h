#pragma once

/* What one entry of a report stands for. */
enum granularity {
    GRANULARITY_DEFAULT, /* what the report is usually shown by: functions for most */
    GRANULARITY_FUNCTIONS,
    GRANULARITY_FILEFUNCTIONS,
    GRANULARITY_FILES,
    GRANULARITY_LINES,
    GRANULARITY_ADDRESSES,
    GRANULARITY_PACKAGES,
};
