#include "net/websocket.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "net/http.h"
#include "wire/base64.h"

#define CONTROL_MAX 125
#define SHA1_BYTES  20
#define MAGIC       "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, section 1.3 */

enum { BIT_LAST = 0x80, BITS_RESERVED = 0x70, BITS_OPCODE = 0x0f, BIT_MASKED = 0x80 };
enum { LENGTH_16 = 126, LENGTH_64 = 127 };

/* ---- SHA-1, which the handshake asks for; it guards nothing here */

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

static void sha1(struct bytes data, uint8_t ret[SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint64_t bits = (uint64_t)data.len * 8;
    CLEANUP(buf_done) struct buf padded = {0};

    buf_add_bytes(&padded, data);
    buf_add_byte(&padded, 0x80);
    while (padded.len % 64 != 56)
        buf_add_byte(&padded, 0);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_add_byte(&padded, (uint8_t)(bits >> shift));
    for (size_t at = 0; at < padded.len; at += 64)
        sha1_block(h, padded.data + at);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- The handshake */

static void add_key(const uint8_t nonce[WEBSOCKET_NONCE], struct buf *out)
{
    base64_encode((struct bytes){nonce, WEBSOCKET_NONCE}, true, out);
}

void websocket_request(const char *host, const char *path, const uint8_t nonce[WEBSOCKET_NONCE],
                       struct buf *out)
{
    buf_addf(out, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, host);
    buf_add_str(out, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Key: ");
    add_key(nonce, out);
    buf_add_str(out, "\r\n\r\n");
}

void websocket_add_accept(const uint8_t nonce[WEBSOCKET_NONCE], struct buf *out)
{
    CLEANUP(buf_done) struct buf key = {0};
    uint8_t digest[SHA1_BYTES];

    add_key(nonce, &key);
    buf_add_str(&key, MAGIC);
    sha1(buf_bytes(&key), digest);
    base64_encode((struct bytes){digest, sizeof(digest)}, true, out);
}

static bool is_name(struct bytes name, const char *what)
{
    return name.len == strlen(what) && strncasecmp((const char *)name.data, what, name.len) == 0;
}

int websocket_check_reply(struct bytes head, const uint8_t nonce[WEBSOCKET_NONCE],
                          struct error *err)
{
    CLEANUP(buf_done) struct buf accept = {0};
    bool upgrades = false, connects = false, accepts = false, extends = false;
    struct bytes rest = head, line = {0};

    websocket_add_accept(nonce, &accept);
    if (!bytes_next_line(&rest, &line) || !bytes_start_with(line, BYTES("HTTP/1.1 101")))
        return error_set(err, -EBADMSG, "the reply to the request for a WebSocket is \"%.*s\"",
                         line.data ? (int)bytes_head(line, 60).len : 0, (const char *)line.data);
    while (bytes_next_line(&rest, &line)) {
        const uint8_t *colon = bytes_find_byte(line, ':');
        if (!colon)
            continue;
        struct bytes name = bytes_head(line, (size_t)(colon - line.data));
        struct bytes value = bytes_trim(bytes_from(line, name.len + 1));
        upgrades |= is_name(name, "upgrade") && is_name(value, "websocket");
        connects |= is_name(name, "connection") && http_value_has_token(value, "upgrade");
        accepts |= is_name(name, "sec-websocket-accept") && bytes_equal(value, buf_bytes(&accept));
        extends |= is_name(name, "sec-websocket-extensions");
    }
    if (!upgrades || !connects || !accepts || extends)
        return error_set(err, -EBADMSG,
                         "the reply to the request for a WebSocket does not agree to it");
    return 0;
}

/* ---- Sending */

void websocket_put(struct buf *out, enum websocket_opcode opcode, struct bytes payload,
                   const uint8_t mask[4])
{
    uint64_t len = payload.len;
    unsigned length_bytes = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;

    buf_add_byte(out, (uint8_t)(BIT_LAST | (unsigned)opcode));
    buf_add_byte(out, (uint8_t)(BIT_MASKED | (length_bytes == 0   ? len
                                              : length_bytes == 2 ? LENGTH_16
                                                                  : LENGTH_64)));
    for (unsigned i = length_bytes; i-- > 0;)
        buf_add_byte(out, (uint8_t)(len >> (8 * i)));
    buf_add(out, mask, 4);
    for (size_t i = 0; i < payload.len; i++)
        buf_add_byte(out, payload.data[i] ^ mask[i % 4]);
}

/* ---- Receiving */

void websocket_reader_done(struct websocket_reader *r)
{
    buf_done(&r->message);
    buf_done(&r->control);
}

static bool is_control(uint8_t opcode)
{
    return opcode & 8;
}

static int check_opcode(const struct websocket_reader *r, struct error *err)
{
    static const uint8_t known[] = {WEBSOCKET_CONTINUATION, WEBSOCKET_TEXT, WEBSOCKET_BINARY,
                                    WEBSOCKET_CLOSE,        WEBSOCKET_PING, WEBSOCKET_PONG};

    if (!memchr(known, r->opcode, sizeof(known)))
        return error_set(err, -EBADMSG, "a WebSocket frame has the opcode %u, which means nothing",
                         r->opcode);
    if (is_control(r->opcode) && (!r->is_last || r->left > CONTROL_MAX))
        return error_set(err, -EBADMSG, "a WebSocket control frame is in parts or too long");
    if (!is_control(r->opcode) && (r->opcode == WEBSOCKET_CONTINUATION) != r->is_fragmented)
        return error_set(err, -EBADMSG, "a WebSocket message is mixed up with another");
    return 0;
}

/* The head is there: how long the payload is, and whether that may be. */
static int begin_payload(struct websocket_reader *r, struct error *err)
{
    unsigned n = (unsigned)r->head_len - 2;

    if (r->head[0] & BITS_RESERVED)
        return error_set(err, -EBADMSG, "a WebSocket frame uses an extension");
    r->left = n == 0 ? r->head[1] : 0;
    for (unsigned i = 0; i < n; i++)
        r->left = r->left << 8 | r->head[2 + i];
    if ((n == 2 && r->left < LENGTH_16) || (n == 8 && r->left <= UINT16_MAX))
        return error_set(err, -EBADMSG, "a WebSocket frame says its length the long way");
    r->is_last = r->head[0] & BIT_LAST;
    r->opcode = r->head[0] & BITS_OPCODE;
    int bad = check_opcode(r, err);
    if (bad < 0)
        return bad;
    struct buf *to = is_control(r->opcode) ? &r->control : &r->message;
    if (!r->is_fragmented || is_control(r->opcode))
        buf_clear(to);
    if (!is_control(r->opcode) && r->left > r->max - r->message.len)
        return error_set(err, -EMSGSIZE, "a WebSocket message is larger than %zu bytes", r->max);
    if (r->opcode == WEBSOCKET_TEXT || r->opcode == WEBSOCKET_BINARY)
        r->message_opcode = r->opcode;
    if (!is_control(r->opcode))
        r->is_fragmented = !r->is_last;
    r->is_in_payload = true;
    return 0;
}

/* True once the head is whole. */
static bool read_head(struct websocket_reader *r, struct bytes *in)
{
    size_t need = 2;

    while (r->head_len < need || need == 2) {
        if (r->head_len >= 2) {
            uint8_t length = r->head[1] & 0x7f;
            need = length == LENGTH_16 ? 4 : length == LENGTH_64 ? 10 : 2;
            if (r->head_len >= need)
                return true;
        }
        if (in->len == 0)
            return false;
        r->head[r->head_len++] = in->data[0];
        *in = bytes_from(*in, 1);
    }
    return true;
}

int websocket_read(struct websocket_reader *r, struct bytes *in, enum websocket_opcode *ret_opcode,
                   struct bytes *ret, struct error *err)
{
    for (;;) {
        if (!r->is_in_payload) {
            if (!read_head(r, in))
                return 0;
            if (r->head[1] & BIT_MASKED)
                return error_set(err, -EBADMSG, "a WebSocket frame of a server is masked");
            int bad = begin_payload(r, err);
            if (bad < 0)
                return bad;
        }
        struct buf *to = is_control(r->opcode) ? &r->control : &r->message;
        struct bytes part = bytes_head(*in, r->left < in->len ? (size_t)r->left : in->len);
        buf_add_bytes(to, part);
        r->left -= part.len;
        *in = bytes_from(*in, part.len);
        if (r->left > 0)
            return 0;
        r->is_in_payload = false;
        r->head_len = 0;
        if (!r->is_last)
            continue;
        *ret_opcode =
            (enum websocket_opcode)(is_control(r->opcode) ? r->opcode : r->message_opcode);
        *ret = buf_bytes(to);
        return 1;
    }
}
