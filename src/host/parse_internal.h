#pragma once

#include "base/budget.h"
#include "host/name_table.h"
#include "host/parse.h"
#include "symbols/elf_file.h"

/* The parts of the parsing worker; each works on files that are open, and opens none. */

/* What one question may take of memory. */
#define PARSE_MEMORY_MAX ((size_t)192 << 20)

int parse_facts_of(struct elf_file *f, struct parse_file *ret, struct error *err);

/* parse_go.c: Go's build information into the facts; nothing when there is none. */
void parse_go_facts(struct elf_file *f, struct parse_facts *ret);
/* The two texts of it, for tests and fuzzing. */
void parse_go_build_info(struct bytes version, struct bytes module, struct parse_facts *ret);

/* parse_tls.c: OTEP 4947's variable, and where Go keeps g. */
void parse_tls_facts(struct elf_file *f, struct parse_facts *ret);

/* parse_names.c: all functions of the file. `debug` may be NULL. */
int parse_names_of(struct elf_file *f, struct elf_file *debug, int out, struct error *err);

/* parse_text.c: the same of texts, read from where the descriptor is. */
int parse_perf_map_of(int fd, int out, struct error *err);
int parse_kallsyms_of(int fd, int out, struct error *err);

/* parse_lines.c */
int parse_lines_of(struct bytes question, int fd, int debug, struct buf *ret, struct error *err);

/* Copies a text into an array, cut where it does not fit; what cannot be shown becomes '?'. */
void parse_put_text(char *to, size_t size, struct bytes text);
#define PARSE_PUT(to, text) parse_put_text((to), sizeof(to), (text))
