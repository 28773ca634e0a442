#include "net/tls_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"
#include "net/tls_lib.h"

struct tls_server {
    const struct tls_lib *lib;
    char *client_ca_file; /* may be NULL */
    pthread_mutex_t lock; /* of `context` */
    SSL_CTX *context;
};

struct tls_conn {
    const struct tls_lib *lib;
    SSL *tls;
};

/* The protocol we would rather speak, of those the client offers. */
static int choose_protocol(SSL *tls, const unsigned char **ret, unsigned char *ret_len,
                           const unsigned char *offered, unsigned len, void *arg)
{
    static const struct bytes ours[] = {
        {(const uint8_t *)"h2", 2},
        {(const uint8_t *)"http/1.1", 8},
    };

    (void)tls;
    (void)arg;
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        for (unsigned at = 0; at < len && at + 1U + offered[at] <= len; at += 1U + offered[at]) {
            if (!bytes_equal(ours[i], (struct bytes){offered + at + 1, offered[at]}))
                continue;
            *ret = offered + at + 1;
            *ret_len = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int failed(const struct tls_lib *lib, const char *what, const char *file, struct error *err)
{
    unsigned long code = lib->ERR_get_error();
    const char *why = code ? lib->ERR_reason_error_string(code) : NULL;

    lib->ERR_clear_error();
    return error_set(err, -EINVAL, "could not use %s \"%s\": %s", what, file,
                     why ? why : "it cannot be read");
}

static int require_client(const struct tls_server *t, SSL_CTX *context, struct error *err)
{
    STACK_OF(X509_NAME) *names = t->lib->SSL_load_client_CA_file(t->client_ca_file);

    if (!names || t->lib->SSL_CTX_load_verify_locations(context, t->client_ca_file, NULL) != 1)
        return failed(t->lib, "the clients' authority", t->client_ca_file, err);
    t->lib->SSL_CTX_set_client_CA_list(context, names);
    t->lib->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

static int load(const struct tls_server *t, SSL_CTX *context, const char *cert_file,
                const char *key_file, struct error *err)
{
    const struct tls_lib *lib = t->lib;

    lib->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    lib->SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                      SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                      NULL);
    lib->SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                          SSL_OP_CIPHER_SERVER_PREFERENCE |
                                          SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* Sessions are not kept: tickets do without memory. A name is needed where clients are asked
     * for certificates. */
    lib->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    lib->SSL_CTX_set_session_id_context(context, (const unsigned char *)"vesta", 5);
    lib->SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    if (lib->SSL_CTX_use_certificate_chain_file(context, cert_file) != 1)
        return failed(lib, "the certificate", cert_file, err);
    if (lib->SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1)
        return failed(lib, "the key", key_file, err);
    if (lib->SSL_CTX_check_private_key(context) != 1)
        return failed(lib, "the certificate with the key", key_file, err);
    return t->client_ca_file ? require_client(t, context, err) : 0;
}

int tls_server_reload(struct tls_server *t, const char *cert_file, const char *key_file,
                      struct error *err)
{
    SSL_CTX *context = t->lib->SSL_CTX_new(t->lib->TLS_server_method());

    if (!context)
        return error_set(err, -ENOMEM, "could not set up TLS");
    int r = load(t, context, cert_file, key_file, err);
    if (r < 0) {
        t->lib->SSL_CTX_free(context);
        return r;
    }
    pthread_mutex_lock(&t->lock);
    SSL_CTX *old = t->context;
    t->context = context;
    pthread_mutex_unlock(&t->lock);
    t->lib->SSL_CTX_free(old); /* connections hold it as long as they need it */
    return 0;
}

int tls_server_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                   struct tls_server **ret, struct error *err)
{
    const struct tls_lib *lib;

    if (!cert_file || !cert_file[0] || !key_file || !key_file[0])
        return error_set(err, -EINVAL, "TLS needs a certificate file and a key file");
    int r = tls_lib_get(&lib, err);
    if (r < 0)
        return r;
    CLEANUP(tls_server_freep) struct tls_server *t = must_calloc(1, sizeof(*t));
    t->lib = lib;
    if (client_ca_file && client_ca_file[0])
        t->client_ca_file = must_copy(bytes_of(client_ca_file));
    pthread_mutex_init(&t->lock, NULL);
    r = tls_server_reload(t, cert_file, key_file, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(t);
    return 0;
}

void tls_server_free(struct tls_server *t)
{
    if (!t)
        return;
    t->lib->SSL_CTX_free(t->context);
    pthread_mutex_destroy(&t->lock);
    free(t->client_ca_file);
    free(t);
}

/* ---- connections ---- */

struct tls_conn *tls_conn_new(struct tls_server *t, int fd)
{
    pthread_mutex_lock(&t->lock);
    SSL *tls = t->lib->SSL_new(t->context);
    pthread_mutex_unlock(&t->lock);
    if (!tls)
        return NULL;
    if (t->lib->SSL_set_fd(tls, fd) != 1) {
        t->lib->SSL_free(tls);
        return NULL;
    }
    struct tls_conn *c = must_calloc(1, sizeof(*c));
    *c = (struct tls_conn){t->lib, tls};
    return c;
}

void tls_conn_free(struct tls_conn *c)
{
    if (!c)
        return;
    c->lib->SSL_free(c->tls);
    free(c);
}

/* What a call that did not succeed means. */
static int outcome(struct tls_conn *c, int result)
{
    int code = c->lib->SSL_get_error(c->tls, result);

    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
        return -EAGAIN;
    return code == SSL_ERROR_ZERO_RETURN ? 0 : -EPROTO;
}

int tls_conn_handshake(struct tls_conn *c, const char **why)
{
    c->lib->ERR_clear_error(); /* another connection's would be taken for ours */
    int r = c->lib->SSL_accept(c->tls);
    if (r == 1)
        return 1;
    r = outcome(c, r);
    if (r == -EAGAIN)
        return r;
    unsigned long code = c->lib->ERR_get_error();
    const char *reason = code ? c->lib->ERR_reason_error_string(code) : NULL;
    *why = reason ? reason : "the client left within the handshake";
    return -EPROTO;
}

ssize_t tls_conn_read(struct tls_conn *c, void *to, size_t n)
{
    c->lib->ERR_clear_error();
    int r = c->lib->SSL_read(c->tls, to, n > INT32_MAX ? INT32_MAX : (int)n);

    return r > 0 ? r : outcome(c, r);
}

ssize_t tls_conn_write(struct tls_conn *c, const void *from, size_t n)
{
    c->lib->ERR_clear_error();
    int r = c->lib->SSL_write(c->tls, from, n > INT32_MAX ? INT32_MAX : (int)n);

    if (r > 0)
        return r;
    r = outcome(c, r);
    return r == 0 ? -EPIPE : r;
}

void tls_conn_shutdown(struct tls_conn *c)
{
    c->lib->ERR_clear_error();
    (void)c->lib->SSL_shutdown(c->tls);
}

bool tls_conn_is_http2(struct tls_conn *c)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    c->lib->SSL_get0_alpn_selected(c->tls, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

bool tls_conn_subject(struct tls_conn *c, char *to, size_t size)
{
    const struct tls_lib *lib = c->lib;
    X509 *certificate = lib->SSL_get1_peer_certificate(c->tls);
    bool is_written = false;

    if (!certificate)
        return false;
    BIO *text = lib->BIO_new(lib->BIO_s_mem());
    if (text && lib->X509_NAME_print_ex(text, lib->X509_get_subject_name(certificate), 0,
                                        XN_FLAG_RFC2253) >= 0) {
        int n = lib->BIO_read(text, to, (int)size - 1);
        if (n > 0) {
            to[n] = '\0';
            is_written = true;
        }
    }
    lib->BIO_free(text);
    lib->X509_free(certificate);
    return is_written;
}
