#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

/*
 * The functions of OpenSSL that are used here, loaded when the first https URL or TLS listener is
 * met: a program that never speaks TLS does not pay for a library whose tables are most of its
 * start-up.
 */
#define TLS_FUNCTIONS(X)                                                                           \
    X(BIO_free)                                                                                    \
    X(BIO_new)                                                                                     \
    X(BIO_read)                                                                                    \
    X(BIO_s_mem)                                                                                   \
    X(ERR_clear_error)                                                                             \
    X(ERR_get_error)                                                                               \
    X(ERR_reason_error_string)                                                                     \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_load_verify_locations)                                                               \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_alpn_select_cb)                                                                  \
    X(SSL_CTX_set_client_CA_list)                                                                  \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_session_id_context)                                                              \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_accept)                                                                                  \
    X(SSL_connect)                                                                                 \
    X(SSL_ctrl)                                                                                    \
    X(SSL_free)                                                                                    \
    X(SSL_get0_alpn_selected)                                                                      \
    X(SSL_get0_param)                                                                              \
    X(SSL_get1_peer_certificate)                                                                   \
    X(SSL_get_error)                                                                               \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_load_client_CA_file)                                                                     \
    X(SSL_new)                                                                                     \
    X(SSL_peek)                                                                                    \
    X(SSL_pending)                                                                                 \
    X(SSL_read)                                                                                    \
    X(SSL_set1_host)                                                                               \
    X(SSL_set_alpn_protos)                                                                         \
    X(SSL_set_fd)                                                                                  \
    X(SSL_shutdown)                                                                                \
    X(SSL_write)                                                                                   \
    X(TLS_client_method)                                                                           \
    X(TLS_server_method)                                                                           \
    X(X509_NAME_print_ex)                                                                          \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_free)                                                                                   \
    X(X509_get_subject_name)                                                                       \
    X(X509_verify_cert_error_string)

#define TLS_FIELD(function) __typeof__(function) *function;
struct tls_lib {
    TLS_FUNCTIONS(TLS_FIELD)
};

/* From any thread. 0 and the library, kept until the program ends; -EOPNOTSUPP when it is not
 * there. */
int tls_lib_get(const struct tls_lib **ret, struct error *err);
