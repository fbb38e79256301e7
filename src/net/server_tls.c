/* server_tls.c - the server's certificate, and who may connect.
 *
 * libmicrohttpd asks for certificate and key at each handshake, so a rotated pair is used by the
 * next connection without a restart.  A generation (certificate, key, trusted CAs) is immutable;
 * older ones are kept until the server stops, since a handshake may still be using them.  They are
 * a few KiB, and a reload that finds the files unchanged makes none.
 *
 * A client certificate is verified within the handshake against client_ca_file (chain, validity,
 * client-auth purpose); one that fails ends the handshake with an alert, whether certificates are
 * required or not. The session finds its server through the pointer of the (unused) session cache.
 */
#include "net/server_priv.h"

#include <string.h>

#include <gnutls/x509.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

enum { CHAIN_MAX = 16, PEM_BYTES_MAX = 1 << 20 };

struct generation {
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned n_chain;
    gnutls_privkey_t key;
    gnutls_x509_trust_list_t trust; /* NULL without client_ca_file */
    uint64_t hash;
    struct generation *older;
};

struct server_tls {
    const struct server_opts *o;
    pthread_mutex_t lock;
    struct generation *now; /* under lock; the generation itself never changes */
};

static void generation_free(struct generation *g)
{
    if (!g)
        return;
    for (unsigned i = 0; i < g->n_chain; i++)
        gnutls_pcert_deinit(&g->chain[i]);
    if (g->key)
        gnutls_privkey_deinit(g->key);
    if (g->trust)
        gnutls_x509_trust_list_deinit(g->trust, 1);
    mem_free(g);
}

static gnutls_datum_t datum(const struct buf *b)
{
    return (gnutls_datum_t){(unsigned char *)b->p, (unsigned)b->n};
}

static enum err_code tls_err(struct err *e, int rc, const char *file)
{
    return err_set(e, ERR_PARSE, "%s: %s", file, gnutls_strerror(rc));
}

static enum err_code read_chain(struct generation *g, const char *file, const struct buf *pem,
                                struct err *e)
{
    gnutls_datum_t d = datum(pem);
    unsigned n = CHAIN_MAX;
    int rc = gnutls_pcert_list_import_x509_raw(g->chain, &n, &d, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return tls_err(e, rc, file);
    g->n_chain = n;
    return ERR_OK;
}

/* The key must be the one of the certificate, or each handshake would fail later. */
static enum err_code read_key(struct generation *g, const char *file, const struct buf *pem,
                              struct err *e)
{
    gnutls_datum_t d = datum(pem);
    int rc = gnutls_privkey_init(&g->key);
    if (!rc)
        rc = gnutls_privkey_import_x509_raw(g->key, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc)
        return tls_err(e, rc, file);
    unsigned char a[64], b[64];
    size_t n_a = sizeof a, n_b = sizeof b;
    gnutls_pubkey_t pub = NULL;
    rc = gnutls_pubkey_init(&pub);
    if (!rc)
        rc = gnutls_pubkey_import_privkey(pub, g->key, 0, 0);
    if (!rc)
        rc = gnutls_pubkey_get_key_id(pub, GNUTLS_KEYID_USE_SHA256, a, &n_a);
    if (!rc)
        rc = gnutls_pubkey_get_key_id(g->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &n_b);
    if (pub)
        gnutls_pubkey_deinit(pub);
    if (rc)
        return tls_err(e, rc, file);
    if (n_a != n_b || memcmp(a, b, n_a) != 0)
        return err_set(e, ERR_MISMATCH, "%s: not the key of the certificate", file);
    return ERR_OK;
}

static enum err_code read_trust(struct generation *g, const char *file, const struct buf *pem,
                                struct err *e)
{
    gnutls_datum_t d = datum(pem);
    int rc = gnutls_x509_trust_list_init(&g->trust, 0);
    if (!rc)
        rc = gnutls_x509_trust_list_add_trust_mem(g->trust, &d, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (rc < 0)
        return tls_err(e, rc, file);
    return rc > 0 ? ERR_OK : err_set(e, ERR_PARSE, "%s: no certificate in it", file);
}

static enum err_code generation_read(const struct server_opts *o, const struct buf *cert,
                                     const struct buf *key, const struct buf *ca,
                                     struct generation **out, struct err *e)
{
    struct generation *g = mem_zero(1, sizeof *g);
    enum err_code rc = read_chain(g, o->cert_file, cert, e);
    if (!rc)
        rc = read_key(g, o->key_file, key, e);
    if (!rc && o->client_ca_file)
        rc = read_trust(g, o->client_ca_file, ca, e);
    if (rc) {
        generation_free(g);
        return rc;
    }
    *out = g;
    return ERR_OK;
}

static enum err_code read_files(struct server_tls *t, struct buf pem[3], struct err *e)
{
    enum err_code rc = file_read(t->o->cert_file, PEM_BYTES_MAX, &pem[0], e);
    if (!rc)
        rc = file_read(t->o->key_file, PEM_BYTES_MAX, &pem[1], e);
    if (!rc && t->o->client_ca_file)
        rc = file_read(t->o->client_ca_file, PEM_BYTES_MAX, &pem[2], e);
    return rc;
}

enum err_code server_tls_reload(struct server_tls *t, struct err *e)
{
    struct buf pem[3] = {0};
    struct generation *g = NULL;
    enum err_code rc = read_files(t, pem, e);
    if (!rc) {
        struct hash h = hash_init(0);
        for (int i = 0; i < 3; i++)
            hash_bytes(&h, pem[i].p ? pem[i].p : "", pem[i].n);
        pthread_mutex_lock(&t->lock);
        bool same = t->now && t->now->hash == hash_value(&h);
        pthread_mutex_unlock(&t->lock);
        if (!same)
            rc = generation_read(t->o, &pem[0], &pem[1], &pem[2], &g, e);
        if (g)
            g->hash = hash_value(&h);
    }
    if (g) {
        pthread_mutex_lock(&t->lock);
        g->older = t->now;
        t->now = g;
        pthread_mutex_unlock(&t->lock);
    }
    for (int i = 0; i < 3; i++) {
        if (pem[i].size)
            gnutls_memset(pem[i].p, 0, pem[i].size); /* the key */
        buf_fini(&pem[i]);
    }
    return rc;
}

enum err_code server_tls_new(const struct server_opts *o, struct server_tls **out, struct err *e)
{
    struct server_tls *t = mem_zero(1, sizeof *t);
    t->o = o;
    pthread_mutex_init(&t->lock, NULL);
    enum err_code rc = server_tls_reload(t, e);
    if (rc) {
        server_tls_free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

void server_tls_free(struct server_tls *t)
{
    if (!t)
        return;
    for (struct generation *g = t->now; g;) {
        struct generation *older = g->older;
        generation_free(g);
        g = older;
    }
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

static struct generation *current(struct server_tls *t)
{
    pthread_mutex_lock(&t->lock);
    struct generation *g = t->now;
    pthread_mutex_unlock(&t->lock);
    return g;
}

static bool verify_chain(struct generation *g, const gnutls_datum_t *raw, unsigned n)
{
    gnutls_x509_crt_t crt[CHAIN_MAX];
    unsigned n_crt = 0, status = 1;
    bool ok = n <= CHAIN_MAX;
    while (ok && n_crt < n) {
        ok = gnutls_x509_crt_init(&crt[n_crt]) == 0;
        if (!ok)
            break;
        ok = gnutls_x509_crt_import(crt[n_crt], &raw[n_crt], GNUTLS_X509_FMT_DER) == 0;
        n_crt++;
    }
    char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st data = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                  .data = (unsigned char *)purpose};
    if (ok)
        ok = gnutls_x509_trust_list_verify_crt2(g->trust, crt, n_crt, &data, 1, 0, &status, NULL) ==
                 0 &&
             status == 0;
    for (unsigned i = 0; i < n_crt; i++)
        gnutls_x509_crt_deinit(crt[i]);
    return ok;
}

static int verify(gnutls_session_t session)
{
    struct server_tls *t = gnutls_db_get_ptr(session);
    unsigned n = 0;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &n);
    if ((!raw || n == 0) && !t->o->client_cert_required)
        return 0;
    if (raw && n > 0 && verify_chain(current(t), raw, n))
        return 0;
    gnutls_alert_send(session, GNUTLS_AL_FATAL,
                      raw ? GNUTLS_A_BAD_CERTIFICATE : GNUTLS_A_CERTIFICATE_REQUIRED);
    return -1;
}

void server_tls_attach(struct server_tls *t, gnutls_session_t session)
{
    gnutls_db_set_ptr(session, t);
    if (!t->o->client_ca_file)
        return;
    gnutls_certificate_server_set_request(
        session, t->o->client_cert_required ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST);
    gnutls_session_set_verify_function(session, verify);
}

int server_tls_certificate(gnutls_session_t session, const gnutls_datum_t *ca, int n_ca,
                           const gnutls_pk_algorithm_t *algos, int n_algos, gnutls_pcert_st **chain,
                           unsigned int *n_chain, gnutls_privkey_t *key)
{
    (void)ca, (void)n_ca, (void)algos, (void)n_algos;
    struct server_tls *t = gnutls_db_get_ptr(session);
    if (!t)
        return -1;
    struct generation *g = current(t);
    *chain = g->chain;
    *n_chain = g->n_chain;
    *key = g->key;
    return 0;
}

bool server_tls_peer(gnutls_session_t session, char *cn, size_t n)
{
    unsigned n_raw = 0;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &n_raw);
    gnutls_x509_crt_t crt;
    if (!raw || n_raw == 0 || gnutls_x509_crt_init(&crt) != 0)
        return false;
    bool ok = gnutls_x509_crt_import(crt, &raw[0], GNUTLS_X509_FMT_DER) == 0 &&
              gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, cn, &n) == 0 &&
              strlen(cn) == n; /* a NUL inside would pass for another name */
    gnutls_x509_crt_deinit(crt);
    return ok;
}
