#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "wire/input.h"

/*
 * A streaming JSON reader: tokens in, nothing kept. It reads an input in chunks, so a file larger
 * than memory costs one chunk; strings are unescaped only when they have escapes. Grammar is
 * checked in what is skipped, too; that text is UTF-8 is not checked.
 *
 *     struct json_reader *r = json_reader_new(input, budget);
 *     json_enter_object(r);
 *     for (struct bytes key; json_next_key(r, &key);) {
 *         if (bytes_are(key, "nodes")) read_nodes(r);
 *         else if (bytes_are(key, "startTime")) start = json_get_i64(r);
 *         else json_skip(r);
 *     }
 *     int result = json_finish(r, "cpuprofile", err);     the sticky error, if any
 *
 * Errors are sticky: after the first, every loop ends and every getter yields zero, so a decoder
 * reads straight through and asks once, at the end. json_fail() makes an error of the decoder's
 * own in the same way. Depth is limited (JSON_DEPTH_MAX).
 */
struct json_reader;

#define JSON_DEPTH_MAX 1024

enum json_kind {
    JSON_NONE, /* after an error, or past the end */
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

/* `in` may be NULL: then there is nothing to read until json_reader_set_text(). */
struct json_reader *json_reader_new(struct input *in, struct budget *budget);

/* Starts over with this text, which is copied. Offsets count from `offset`. */
void json_reader_set_text(struct json_reader *r, struct bytes text, uint64_t offset);

void json_reader_free(struct json_reader *r);
DEFINE_CLEANUP(struct json_reader *, json_reader_free)

/* What the next value is, without reading it. */
enum json_kind json_peek(struct json_reader *r);

/* Steps into the object or array that comes next; anything else is an error. */
void json_enter_object(struct json_reader *r);
void json_enter_array(struct json_reader *r);

/* The next key of the current object, or false at its end (which is then left). The key is
 * borrowed until the next call on r. */
bool json_next_key(struct json_reader *r, struct bytes *ret_key);

/* True while the current array has another element to read; false leaves the array. */
bool json_next_element(struct json_reader *r);

/* The same, but the end of the input also ends the array, as trace logs that were cut off have it.
 * *ret_is_cut, when asked for, is then true. */
bool json_next_element_or_end(struct json_reader *r, bool *ret_is_cut);

/* Reads past one whole value of any kind, at scanning speed. */
void json_skip(struct json_reader *r);

/* Getters read one value. A string is borrowed until the next call on r. */
struct bytes json_get_string(struct json_reader *r);
double json_get_double(struct json_reader *r);
bool json_get_bool(struct json_reader *r);

/* A number or a string holding one (as OTLP writes 64-bit values); a fraction is cut off. A value
 * that does not fit is an error. */
int64_t json_get_i64(struct json_reader *r);
uint64_t json_get_u64(struct json_reader *r);

/*
 * Fast path for long arrays of small numbers: reads up to n elements of the current array into
 * `to` and returns how many; fewer than n means that the array has ended and was left.
 */
size_t json_get_i64_run(struct json_reader *r, int64_t *to, size_t n);

/* Like json_get_string but null, and anything that is not a string, yields "" and is skipped. */
struct bytes json_get_string_or_empty(struct json_reader *r);

/* The text of one whole value, its grammar checked; borrowed until the next call on r. With
 * json_reader_set_text() it can be read later, once what comes behind it is known. */
struct bytes json_get_raw(struct json_reader *r);

/* Makes the reader fail with a reason of the decoder's own. The first reason stays. */
void json_fail(struct json_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a fault that lies elsewhere: at a json_offset() kept from before. */
void json_fail_at(struct json_reader *r, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool json_failed(const struct json_reader *r);
uint64_t json_offset(const struct json_reader *r); /* bytes read so far */

/*
 * Checks that nothing but white space follows, and returns 0, or the first error as
 * "FORMAT at byte N: reason" (-EBADMSG; -ENOBUFS when the budget is spent; or an I/O error).
 */
int json_finish(struct json_reader *r, const char *format, struct error *err);

/* The same without looking at what follows the value: for documents inside other text. */
int json_result(struct json_reader *r, const char *format, struct error *err);

/*
 * Writing: appends to a buf; commas are the writer's business. Strings are escaped; bytes that are
 * not UTF-8 become U+FFFD.
 */
struct json_writer {
    struct buf *out;
    bool needs_comma;
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_bytes(struct json_writer *w, struct bytes key);
void json_string(struct json_writer *w, struct bytes s);
void json_cstring(struct json_writer *w, const char *s);
void json_i64(struct json_writer *w, int64_t v);
void json_u64(struct json_writer *w, uint64_t v);
void json_i64_string(struct json_writer *w, int64_t v); /* "123", as OTLP wants 64-bit values */
void json_u64_string(struct json_writer *w, uint64_t v);
void json_double(struct json_writer *w, double v); /* not finite becomes null */
void json_bool(struct json_writer *w, bool v);
void json_null(struct json_writer *w);
