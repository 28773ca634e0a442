#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "store/store.h"
#include "store_data.h"

/* What the parts of measure_store share. Failures end the program. */
void measure_die(const char *what, const char *why) __attribute__((noreturn));
double measure_wall(void); /* seconds */
double measure_cpu(void);  /* seconds of CPU that all threads of this process have used */
double measure_median(double *values, size_t n); /* sorts them */

/* A clock whose wall time is where the data are, and otherwise goes as usual. */
struct measure_clock {
    struct clock clock;
    atomic_int_fast64_t wall_ns;
};
extern struct measure_clock measure_clock;

/* Opens the store in `dir`, which is made. The memory limit is the default one. */
struct store *measure_open(const char *dir, bool background);
void measure_settle(struct store *s);

/* Appends; all must be stored. While the store's memory is full it tries again, as a client would:
 * measure_retries counts. */
extern atomic_uint measure_retries;
void measure_append(struct store_source *source, const struct store_incoming *in, size_t n);
uint64_t measure_disk_bytes(const char *dir);
double measure_peak_rss_mb(void);

/* One question for stacks, asked to the end: a whole tree with totals. */
struct measure_question {
    const char *selector;
    int64_t from_ns, to_ns;
    unsigned threads;
    bool raw_only;
    int64_t want; /* the sum that must come out; -1: whatever it is */
};

/* Milliseconds of one answer, of wall clock and of CPU: a busy machine shows in the difference. */
struct measure_time {
    double wall_ms, cpu_ms;
};
struct measure_time measure_ask_once(struct store *s, const struct measure_question *q);
/* The medians of some, after one that warms up. */
struct measure_time measure_ask(struct store *s, const struct measure_question *q);
/* The same, printed as "NAME: ... ms". Returns the milliseconds of CPU. */
double measure_print(struct store *s, const struct measure_question *q, const char *name);

/* The least work for the same sums: profiles of set R as columns of delta varints, added up by a
 * bare loop, totals by one backward pass. Milliseconds of CPU, the median of some. */
double measure_floor(const struct data_r *r);

int measure_set_r(const char *data, const char *work);
/* Stores a set R of this size in `work`, opens the store again and writes the sum of all of it. */
int measure_sum(const char *data, uint32_t pods, uint32_t windows, const char *work);
int measure_set_l(const char *work, uint32_t hours);
int measure_cold(const char *work, int64_t from_ns);
int measure_segments(const char *work);
