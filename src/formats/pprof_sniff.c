/*
 * Telling pprof from other protobuf, and from text: raw protobuf has no magic number, so the first
 * bytes are walked as a pprof Profile and every field must have the shape that pprof gives it.
 */
#include "formats/pprof_internal.h"
#include "wire/protobuf.h"

/*
 * The shape of a message: for each field number its kind. 'v' is a number, 'r' a repeated one, 's'
 * a string; a digit is a message of the shape of that index; a dot is no field of pprof's.
 */
static const char *const shapes[] = {
    [0] = ".12345svvvv1vrvv", /* Profile */
    [1] = ".vv",              /* ValueType */
    [2] = ".rr6",             /* Sample */
    [3] = ".vvvvvvvvvv",      /* Mapping */
    [4] = ".vvv7v",           /* Location */
    [5] = ".vvvvv",           /* Function */
    [6] = ".vvvv",            /* Label */
    [7] = ".vvv",             /* Line */
};

/* Enough to be sure. */
#define FIELDS_LOOKED_AT 256

struct findings {
    size_t known;   /* fields as pprof has them */
    size_t unknown; /* fields that pprof does not have: allowed, but not many */
    bool wrong;     /* a field that cannot be pprof's */
};

static char kind_of(const char *shape, uint32_t field)
{
    if (field >= strlen(shape))
        return '.';
    return shape[field];
}

static void look(const char *shape, struct bytes message, struct findings *f);

static void look_at_field(const char *shape, const struct pb_reader *r, struct findings *f)
{
    char kind = kind_of(shape, r->field);

    if (kind == '.') {
        f->unknown++;
        return;
    }
    f->known++;
    bool is_number = r->wire == PB_VARINT, is_bytes = r->wire == PB_BYTES;
    if (!(kind == 'v' ? is_number : kind == 'r' ? is_number || is_bytes : is_bytes))
        f->wrong = true;
    else if (kind >= '1' && kind <= '9')
        look(shapes[kind - '0'], r->data, f);
}

/* Shapes refer only to larger ones, so this goes three deep at most. */
static void look(const char *shape, struct bytes message, struct findings *f)
{
    struct pb_reader r = pb_reader(message);

    while (!f->wrong && pb_next(&r))
        look_at_field(shape, &r, f);
    if (r.failure)
        f->wrong = true;
}

int pprof_sniff(struct bytes head)
{
    struct findings f = {0};
    struct pb_reader r = pb_reader(head);
    size_t tables = 0;
    bool saw_string = false;

    for (size_t n = 0; n < FIELDS_LOOKED_AT && !f.wrong && pb_next(&r); n++) {
        look_at_field(shapes[0], &r, &f);
        tables += r.field <= PPROF_STRING;
        if (r.field == PPROF_STRING && !saw_string) {
            saw_string = true;
            f.wrong |= r.data.len != 0; /* the first string is always the empty one */
        }
    }
    if (f.wrong || tables == 0 || f.unknown > f.known)
        return 0;
    /* The head is cut somewhere, and so may a damaged file be: what was read until there counts,
     * when it is enough. */
    return !r.failure ? 60 : tables > 1 ? 40 : 0;
}
