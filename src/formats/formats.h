#pragma once

#include "formats/format.h"

/* Every format, each defined in the file of its name. format.c holds the table. */
extern const struct format format_pprof;
extern const struct format format_pprof_legacy;
extern const struct format format_otlp;
extern const struct format format_otlp_json;
extern const struct format format_jfr;
extern const struct format format_perf_data;
extern const struct format format_perf_script;
extern const struct format format_collapsed;
extern const struct format format_cpuprofile;
extern const struct format format_heapprofile;
extern const struct format format_heapsnapshot;
extern const struct format format_chrome_trace;
extern const struct format format_speedscope;
extern const struct format format_firefox;
extern const struct format format_stackprof;
extern const struct format format_callgrind;
extern const struct format format_svg;
extern const struct format format_dhat;
extern const struct format format_ghc_prof;
extern const struct format format_massif;
extern const struct format format_pmcstat;
extern const struct format format_instruments;
extern const struct format format_dtrace;
extern const struct format format_macos_sample;
extern const struct format format_vtune_csv;
extern const struct format format_pyroscope_tree;
extern const struct format format_pyroscope_trie;
extern const struct format format_pyroscope_lines;
extern const struct format format_pyroscope_groups;
