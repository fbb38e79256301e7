/* kube_capture.h - one answer of a real API server from the shared data: request, status, headers,
 * body. */
#ifndef TESTS_SUPPORT_KUBE_CAPTURE_H
#define TESTS_SUPPORT_KUBE_CAPTURE_H

#include "base/json.h"

struct kube_capture;
/* kubernetes/<name>.json; skips the test without the shared data, fails it when the file is not
 * there. */
struct kube_capture *kube_capture_load(const char *name);
void kube_capture_free(struct kube_capture *c);
int kube_capture_status(const struct kube_capture *c);
const struct json *
kube_capture_body(const struct kube_capture *c); /* the response, object or string */
/* As the server sent it, near enough: the object's JSON text, or the plain text. */
char *kube_capture_text(const struct kube_capture *c); /* mem_free */
const char *kube_capture_header(const struct kube_capture *c,
                                const char *name);           /* NULL when absent */
const char *kube_capture_path(const struct kube_capture *c); /* of the request */

#endif
