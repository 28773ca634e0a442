#pragma once

#include "wire/input.h"

/*
 * The files of a tar, one after the other, as they stream in: ustar, with GNU's long names and
 * pax's paths and sizes. Folders, links and devices are passed over. Names are as they stand: what
 * becomes of "../x" is for whoever makes a file of it.
 *
 *     struct tar_reader t = {.in = in};
 *     while ((r = tar_next(&t, &entry, err)) > 0)
 *         while ((n = tar_read(&t, to, sizeof(to), err)) > 0) ...
 */
#define TAR_NAME_MAX 4096

struct tar_entry {
    const char *name; /* until the next tar_next() */
    uint64_t size;
};

struct tar_reader {
    struct input *in;
    uint64_t left;    /* of the entry's content */
    uint64_t padding; /* behind it */
    bool ended;
    /* What records before an entry say of it. */
    char name[TAR_NAME_MAX + 1];
    bool has_name, has_size;
    uint64_t size;
};

/* 1 and the next file; 0 at the end; -EBADMSG (no tar, or damaged), or what the input says. What
 * was not read of the one before is passed over. */
int tar_next(struct tar_reader *t, struct tar_entry *ret, struct error *err);

/* The next bytes of the file: 1..size, 0 at its end, or a negative errno. */
ssize_t tar_read(struct tar_reader *t, void *to, size_t size, struct error *err);
