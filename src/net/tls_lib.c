#include "net/tls_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

#define TLS_ENTRY(function) {#function, offsetof(struct tls_lib, function)},
static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {TLS_FUNCTIONS(TLS_ENTRY)};

static bool load(struct tls_lib *to)
{
    void *library = dlopen("libssl.so." TEXT_OF(OPENSSL_SHLIB_VERSION), RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].symbol);
        if (!found)
            return false;
        memcpy((char *)to + functions[i].offset, &found, sizeof(found));
    }
    return true;
}

static struct tls_lib loaded;
static bool is_there;

static void load_once(void)
{
    is_there = load(&loaded);
}

int tls_lib_get(const struct tls_lib **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_once);
    if (!is_there)
        return error_set(err, -EOPNOTSUPP,
                         "TLS needs OpenSSL's libssl.so." TEXT_OF(
                             OPENSSL_SHLIB_VERSION) ", which is not installed (Debian: apt-get "
                                                    "install libssl-dev)");
    *ret = &loaded;
    return 0;
}
