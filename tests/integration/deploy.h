/* deploy.h - the manifests of deploy/ as kubectl renders them, for the tests that look at them. */
#ifndef TESTS_INTEGRATION_DEPLOY_H
#define TESTS_INTEGRATION_DEPLOY_H

#include <stdbool.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "tests/support/test.h"

enum { DEPLOY_BYTES = 4 << 20, DEPLOY_DOCS = 64 };

struct manifests {
    struct yaml_doc *doc[DEPLOY_DOCS];
    size_t n;
    struct buf text;
};

/* Output of a shell command that must end with 0 (stderr is shown when it does not). */
static inline struct buf deploy_shell(const char *command)
{
    struct buf out = buf_init(DEPLOY_BYTES);
    const char *err = test_path("%s/stderr", test_tmp_dir());
    char line[1024];
    char chunk[4096];
    size_t n;
    assert_true((size_t)snprintf(line, sizeof line, "{ %s ; } 2> '%s'", command, err) <
                sizeof line);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(&out, chunk, n);
    int status = pclose(f);
    if (status != 0) {
        print_error("%.*s", (int)(out.n < 4000 ? out.n : 4000), out.p);
        if (system(test_path("cat '%s' >&2", err)) != 0)
            print_error("its errors cannot be shown\n");
        fail_msg("%s: ended with %d", command, status);
    }
    buf_char(&out, '\0');
    out.n--;
    return out;
}

/* Skips at a desk, fails in CI, where the program is not installed. */
static inline void need_program(const char *name)
{
    const char *ci = getenv("CI");
    if (system(test_path("command -v %s > /dev/null", name)) == 0)
        return;
    if (ci && *ci && strcmp(ci, "false") != 0)
        fail_msg("missing: %s (tools/packages.txt)", name);
    print_message("skipped, missing: %s\n", name);
    skip();
}

static inline void manifests_split(struct manifests *m, const char *name)
{
    struct err e;
    char *at = m->text.p;
    while (at && *at) {
        char *end = strncmp(at, "---\n", 4) == 0 ? at - 1 : strstr(at, "\n---\n");
        size_t n = end ? (size_t)(end + 1 - at) : strlen(at);
        if (n > 1) {
            assert_true(m->n < DEPLOY_DOCS);
            assert_ok(yaml_parse(at, n, name, &m->doc[m->n], &e), &e);
            if (yaml_root(m->doc[m->n]))
                m->n++;
            else
                yaml_free(m->doc[m->n]);
        }
        at = end ? end + 5 : NULL;
    }
}

/* Rendered once per run and kept: a dozen tests look at the same few. */
static inline struct manifests manifests_render(const char *dir)
{
    need_program("kubectl");
    const char *kept = test_path("%s/rendered-%s", test_tmp_dir(),
                                 strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
    struct manifests m = {.text = deploy_shell(test_path(
                              "{ [ -f '%s' ] || kubectl kustomize deploy/%s > '%s'; } && cat '%s'",
                              kept, dir, kept, kept))};
    manifests_split(&m, dir);
    assert_true(m.n > 0);
    return m;
}

static inline void manifests_fini(struct manifests *m)
{
    for (size_t i = 0; i < m->n; i++)
        yaml_free(m->doc[i]);
    buf_fini(&m->text);
    *m = (struct manifests){0};
}

/* "spec.template.spec.containers.0.image"; NULL when absent. */
static inline const struct yaml_node *at(const struct yaml_node *v, const char *path)
{
    char key[128];
    for (const char *p = path; v && *p; p += strcspn(p, "."), p += *p == '.') {
        /* keys that hold dots are looked up whole by the caller */
        (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(p, "."), p);
        if (v->kind == YAML_LIST) {
            long i = strtol(key, NULL, 10);
            for (v = v->first; v && i > 0; i--)
                v = v->next;
        } else {
            v = v->kind == YAML_MAP ? yaml_find(v, key) : NULL;
        }
    }
    return v;
}

static inline const char *text_at(const struct yaml_node *v, const char *path)
{
    const struct yaml_node *n = at(v, path);
    return n && n->kind == YAML_SCALAR ? n->text : "";
}

static inline const struct yaml_node *manifest(const struct manifests *m, const char *kind,
                                               const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct yaml_node *root = yaml_root(m->doc[i]);
        if (strcmp(text_at(root, "kind"), kind) == 0 &&
            strcmp(text_at(root, "metadata.name"), name) == 0)
            return root;
    }
    return NULL;
}

static inline const struct yaml_node *need_manifest(const struct manifests *m, const char *kind,
                                                    const char *name)
{
    const struct yaml_node *v = manifest(m, kind, name);
    if (!v)
        fail_msg("no %s %s", kind, name);
    return v;
}

/* Whether a list of scalars, or a map's values, hold the text. */
static inline bool holds(const struct yaml_node *list, const char *text)
{
    for (const struct yaml_node *v = list ? list->first : NULL; v; v = v->next)
        if (v->kind == YAML_SCALAR && strcmp(v->text, text) == 0)
            return true;
    return false;
}

/* The entry of a list of maps whose `key` is `value`. */
static inline const struct yaml_node *entry(const struct yaml_node *list, const char *key,
                                            const char *value)
{
    for (const struct yaml_node *v = list ? list->first : NULL; v; v = v->next)
        if (strcmp(text_at(v, key), value) == 0)
            return v;
    return NULL;
}

static inline void assert_text_at(const struct yaml_node *v, const char *path, const char *want)
{
    const char *got = text_at(v, path);
    if (strcmp(got, want) != 0)
        fail_msg("%s is \"%s\", expected \"%s\"", path, got, want);
}

#endif
