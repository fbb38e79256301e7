/* captures.h - recordings of a real API server, replayed: what the tests of captures_*_test.c
 * share. */
#ifndef TESTS_UNIT_APISERVER_CAPTURES_H
#define TESTS_UNIT_APISERVER_CAPTURES_H

#include "tests/unit/apiserver/rest.h"

#define MERGE "application/merge-patch+json"
#define STRATEGIC "application/strategic-merge-patch+json"
#define APPLY "application/apply-patch+yaml"

struct step {
    const char *capture;              /* NULL: a request of our own */
    const char *method, *path, *body; /* instead of the recorded */
    const char *type, *token, *accept;
    int status; /* of our own: expected */
};

enum { MAP_MAX = 400, SEEN_MAX = 300 };
struct run {
    struct apiserver *a;
    const char *dir;
    char *from[MAP_MAX], *to[MAP_MAX]; /* recorded text to ours: quoted uids and versions */
    size_t n_map;
};

struct diff {
    struct buf out;
    int n;
};

struct run captures_begin(const struct apiserver_opts *o); /* skips without the data */
void captures_end(struct run *r);
void captures_run(struct run *r, const struct step *s, size_t n);
void captures_step(struct run *r, const struct step *s);
/* The request alone; compare with captures_compare. */
struct rest captures_play(struct run *r, const struct step *s, const cJSON *capture);
cJSON *captures_load(const char *dir, const char *name); /* cJSON_Delete */
void captures_compare(struct diff *d, const char *path, const cJSON *want, const cJSON *got);
char *captures_text(const cJSON *v);  /* mem_free */
void captures_seen(const char *name); /* counts as compared */
void captures_nodes(struct run *r);   /* gpu-1, gpu-2, gpu-3 of the recordings */

#define PODS "/api/v1/namespaces/default/pods"
#define POD(name) PODS "/" name
#define REC(...)                                                                                   \
    {                                                                                              \
        .capture = __VA_ARGS__                                                                     \
    }
#define OWN(m, p, b, code)                                                                         \
    {                                                                                              \
        .method = m, .path = p, .body = b, .status = code                                          \
    }

/* The pods of the recordings: one container with one GPU. */
#define SPEC                                                                                       \
    "\"containers\":[{\"name\":\"c\",\"image\":\"registry.k8s.io/"                                 \
    "pause:3.10\",\"resources\":{\"requests\":{\"cpu\":\"1\","                                     \
    "\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"1\"},\"limits\":{\"nvidia.com/"                       \
    "gpu\":\"1\"}}}],\"schedulerName\":\"nobody\""
#define MAKE_POD(name, more)                                                                       \
    OWN("POST", PODS,                                                                              \
        "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"app\":\"" name                         \
        "\"}},\"spec\":{" SPEC more "}}",                                                          \
        201)

#endif
