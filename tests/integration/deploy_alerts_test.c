/* Alerts, dashboard and pages of deploy/ and docs/: that they are right, and that they speak of the
 * same things.
 *
 * An alert on a metric that nobody exports never fires; a runbook that does not exist helps nobody
 * at three in the morning. */
#include <ctype.h>

#include "base/file.h"
#include "base/json.h"
#include "daemon/config.h"
#include "daemon/doctor.h"
#include "daemon/metrics.h"
#include "tests/integration/deploy.h"

static const char rules_path[] = "deploy/alerts/sluice.rules.yaml";

static struct buf read_text(const char *path)
{
    struct buf text;
    struct err e;
    assert_ok(file_read(path, DEPLOY_BYTES, &text, &e), &e);
    buf_char(&text, '\0');
    text.n--;
    return text;
}

static const struct yaml_node *groups_of(struct yaml_doc **doc)
{
    struct err e;
    assert_ok(yaml_load(rules_path, doc, &e), &e);
    const struct yaml_node *groups = at(yaml_root(*doc), "groups");
    assert_non_null(groups);
    return groups;
}

/* for each alert of each group */
#define EACH_ALERT(a, groups)                                                                      \
    for (const struct yaml_node *g_ = (groups)->first; g_; g_ = g_->next)                          \
        for (const struct yaml_node *a = at(g_, "rules")->first; a; a = a->next)

/* ---- alerts ------------------------------------------------------------------------------------
 */

TEST(alert_rules_are_accepted_by_promtool)
{
    need_program("promtool");
    struct buf out = deploy_shell("promtool check rules deploy/alerts/sluice.rules.yaml");
    assert_non_null(strstr(out.p, "SUCCESS"));
    buf_fini(&out);
}

TEST(alerts_wait_fire_and_stay_silent_on_a_healthy_day)
{
    need_program("promtool");
    struct buf out = deploy_shell("promtool test rules deploy/alerts/sluice.test.yaml");
    assert_non_null(strstr(out.p, "SUCCESS"));
    buf_fini(&out);
}

TEST(every_alert_has_a_test_and_says_what_to_do)
{
    struct yaml_doc *doc;
    struct buf tests = read_text("deploy/alerts/sluice.test.yaml");
    const struct yaml_node *groups = groups_of(&doc);
    static const char *const words[] = {"annotations.summary",
                                        "annotations.description",
                                        "annotations.action",
                                        "annotations.runbook",
                                        "for",
                                        "expr"};
    int n = 0;
    EACH_ALERT(a, groups)
    {
        const char *name = text_at(a, "alert"), *severity = text_at(a, "labels.severity");
        if (!strstr(tests.p, test_path("- name: %s\n", name)) &&
            !strstr(tests.p, test_path("- name: %s ", name)))
            fail_msg("%s has no test", name);
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
            if (!*text_at(a, words[i]))
                fail_msg("%s has no %s", name, words[i]);
        if (strcmp(severity, "critical") != 0 && strcmp(severity, "warning") != 0 &&
            strcmp(severity, "info") != 0)
            fail_msg("%s: severity \"%s\"", name, severity);
        n++;
    }
    assert_true(n > 25);
    yaml_free(doc);
    buf_fini(&tests);
}

TEST(every_runbook_is_a_heading_of_the_page_and_every_heading_of_an_alert_has_one)
{
    struct yaml_doc *doc;
    struct buf page = read_text("docs/troubleshooting.md");
    const struct yaml_node *groups = groups_of(&doc);
    int alerts = 0, headings = 0;
    EACH_ALERT(a, groups)
    {
        char lower[64];
        size_t i = 0;
        const char *name = text_at(a, "alert");
        for (; name[i] && i < sizeof lower - 1; i++)
            lower[i] = (char)tolower((unsigned char)name[i]);
        lower[i] = '\0';
        assert_text_at(a, "annotations.runbook", test_path("docs/troubleshooting.md#%s", lower));
        if (!strstr(page.p, test_path("\n### %s\n", name)))
            fail_msg("docs/troubleshooting.md has no heading %s", name);
        alerts++;
    }
    for (const char *p = page.p; (p = strstr(p, "\n### Sluice")); p++)
        headings++;
    assert_int_equal(alerts, headings);
    yaml_free(doc);
    buf_fini(&page);
}

TEST(the_operators_rules_are_those_of_the_plain_file)
{
    struct buf made = deploy_shell("tools/prometheusrule deploy/alerts/sluice.rules.yaml");
    struct buf kept = read_text("deploy/extras/prometheusrule/prometheusrule.yaml");
    assert_string_equal(made.p, kept.p); /* tools/check_generated -u writes it */
    struct manifests m = manifests_render("extras/prometheusrule");
    struct yaml_doc *doc;
    const struct yaml_node *plain = groups_of(&doc);
    const struct yaml_node *groups =
        at(need_manifest(&m, "PrometheusRule", "sluice"), "spec.groups");
    assert_int_equal(groups->n_children, plain->n_children);
    for (const struct yaml_node *a = plain->first, *b = groups->first; a; a = a->next, b = b->next)
        assert_int_equal(at(a, "rules")->n_children, at(b, "rules")->n_children);
    yaml_free(doc);
    manifests_fini(&m);
    buf_fini(&made);
    buf_fini(&kept);
}

/* ---- metrics -----------------------------------------------------------------------------------
 */

static bool exported(const char *name, size_t n)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    for (int m = 0; m < METRICS; m++)
        for (size_t s = 0; s < ARRAY_LEN(suffixes); s++) {
            const char *full = test_path("%s%s", metric_name((enum metric_id)m), suffixes[s]);
            if (strlen(full) == n && strncmp(full, name, n) == 0)
                return true;
        }
    return false;
}

static void assert_exported(const char *text, const char *where)
{
    for (const char *p = text; (p = strstr(p, "sluice_"));) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!exported(p, n))
            fail_msg("%s speaks of %.*s, which nothing exports", where, (int)n, p);
        p += n;
    }
}

TEST(alerts_and_their_tests_speak_of_metrics_that_are_exported)
{
    struct yaml_doc *doc;
    const struct yaml_node *groups = groups_of(&doc);
    EACH_ALERT(a, groups)
    assert_exported(text_at(a, "expr"), text_at(a, "alert"));
    struct buf tests = read_text("deploy/alerts/sluice.test.yaml");
    assert_exported(tests.p, "sluice.test.yaml");
    buf_fini(&tests);
    yaml_free(doc);
}

TEST(pages_speak_of_metrics_that_are_exported)
{
    static const char *const pages[] = {"docs/deploy.md", "docs/live.md", "docs/operations.md",
                                        "docs/troubleshooting.md"};
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct buf page = read_text(pages[i]);
        assert_exported(page.p, pages[i]);
        buf_fini(&page);
    }
}

/* ---- dashboard ---------------------------------------------------------------------------------
 */

static void look_at_panel(const struct json *p, int *queries)
{
    const char *title = json_text(json_find(p, "title"));
    assert_non_null(title);
    if (strcmp(json_text(json_find(p, "type")), "row") == 0)
        return;
    assert_non_null(json_text(json_find(p, "description")));
    const struct json *targets = json_find(p, "targets");
    for (const struct json *t = json_first(targets); t; t = json_next(t)) {
        const char *expr = json_text(json_find(t, "expr"));
        assert_non_null(expr);
        assert_exported(expr, title);
        (*queries)++;
    }
    assert_true(json_count(targets) > 0);
}

TEST(the_dashboard_asks_for_metrics_that_are_exported_and_no_two_panels_overlap)
{
    struct json_doc *doc;
    struct err e;
    char taken[24][400] = {{0}};
    int queries = 0;
    assert_ok(json_load("deploy/extras/grafana/sluice-dashboard.json", 1 << 20, &doc, &e), &e);
    const struct json *panels = json_find(json_root(doc), "panels");
    for (const struct json *p = json_first(panels); p; p = json_next(p)) {
        const struct json *g = json_find(p, "gridPos");
        int x = (int)json_number(json_find(g, "x")), y = (int)json_number(json_find(g, "y"));
        int w = (int)json_number(json_find(g, "w")), h = (int)json_number(json_find(g, "h"));
        look_at_panel(p, &queries);
        for (int i = x; i < x + w; i++)
            for (int j = y; j < y + h; j++) {
                assert_true(i < 24 && j < 400);
                assert_int_equal(taken[i][j]++, 0);
            }
    }
    assert_true(queries > 20);
    json_free(doc);
}

/* Prometheus itself reads each expression of the dashboard. */
TEST(the_dashboards_queries_are_promql)
{
    need_program("promtool");
    struct json_doc *doc;
    struct err e;
    struct buf rules = buf_init(1 << 20);
    assert_ok(json_load("deploy/extras/grafana/sluice-dashboard.json", 1 << 20, &doc, &e), &e);
    buf_str(&rules, "groups:\n  - name: dashboard\n    rules:\n");
    for (const struct json *p = json_first(json_find(json_root(doc), "panels")); p;
         p = json_next(p))
        for (const struct json *t = json_first(json_find(p, "targets")); t; t = json_next(t)) {
            const char *expr = json_text(json_find(t, "expr"));
            buf_fmt(&rules, "      - {record: a_%zu, expr: ", rules.n);
            json_quote(&rules, expr, strlen(expr));
            buf_str(&rules, "}\n");
        }
    const char *path = test_path("%s/dashboard.yaml", test_tmp_dir());
    test_write_file(path, rules.p, rules.n);
    struct buf out = deploy_shell(test_path("promtool check rules %s", path));
    assert_non_null(strstr(out.p, "SUCCESS"));
    buf_fini(&out);
    buf_fini(&rules);
    json_free(doc);
}

/* ---- pages -------------------------------------------------------------------------------------
 */

TEST(the_twelve_steps_of_the_checklist_are_doctors_checks_in_its_order)
{
    struct buf page = read_text("docs/operations.md");
    const char *p = page.p;
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        p = strstr(p, test_path("\n### %d %s\n", c + 1, doctor_check_name((enum doctor_check)c)));
        if (!p)
            fail_msg("docs/operations.md has no step \"%d %s\" in its place", c + 1,
                     doctor_check_name((enum doctor_check)c));
        const char *end = strstr(p + 1, "\n#");
        static const char *const parts[] = {"*Why:*", "*Look:*", "*Good:*", "*Otherwise:*"};
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
            const char *part = strstr(p, parts[i]);
            if (!part || (end && part > end))
                fail_msg("step %d lacks %s", c + 1, parts[i]);
        }
    }
    buf_fini(&page);
}

TEST(paths_of_deploy_that_the_pages_name_exist)
{
    static const char *const pages[] = {"docs/deploy.md",          "docs/live.md",
                                        "docs/operations.md",      "docs/troubleshooting.md",
                                        "deploy/base/sluice.yaml", "deploy/base/statefulset.yaml"};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct buf page = read_text(pages[i]);
        for (const char *p = page.p; (p = strstr(p, "deploy/")); n++) {
            char path[200];
            size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789-_./STAGE");
            while (len && strchr(".-", p[len - 1]))
                len--;
            (void)snprintf(path, sizeof path, "%.*s", (int)len, p);
            p += len;
            if (!strstr(path, "STAGE") && !file_exists(path) && access(path, F_OK) != 0)
                fail_msg("%s names %s, which does not exist", pages[i], path);
        }
        buf_fini(&page);
    }
    assert_true(n > 20);
}

/* A heading as GitHub links it: lower case, blanks to hyphens, punctuation gone. */
static void slug(const char *heading, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < size; i++) {
        unsigned char c = (unsigned char)heading[i];
        if (isalnum(c) || c == '-' || c == '_')
            out[k++] = (char)tolower(c);
        else if (c == ' ')
            out[k++] = '-';
    }
    out[k] = '\0';
}

static bool has_anchor(const char *text, const char *anchor)
{
    char s[128];
    for (const char *p = text; (p = strstr(p, "\n#")); p++) {
        const char *h = p + 1 + strspn(p + 1, "#");
        h += strspn(h, " ");
        slug(h, strcspn(h, "\n"), s, sizeof s);
        if (strcmp(s, anchor) == 0)
            return true;
    }
    return false;
}

static void follow_link(const char *page, const char *link)
{
    char file[200], *anchor;
    (void)snprintf(file, sizeof file, "%s", link);
    anchor = strchr(file, '#');
    if (anchor)
        *anchor++ = '\0';
    const char *path = *file ? test_path("docs/%s", file) : page;
    if (access(path, F_OK) != 0)
        fail_msg("%s links to %s, which does not exist", page, link);
    if (!anchor)
        return;
    struct buf text = read_text(path);
    if (!has_anchor(text.p, anchor))
        fail_msg("%s links to %s: no such heading", page, link);
    buf_fini(&text);
}

TEST(links_between_the_live_pages_lead_somewhere)
{
    static const char *const pages[] = {"docs/deploy.md", "docs/live.md", "docs/operations.md",
                                        "docs/troubleshooting.md"};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct buf page = read_text(pages[i]);
        for (const char *p = page.p; (p = strstr(p, "](")); n++) {
            char link[200];
            p += 2;
            (void)snprintf(link, sizeof link, "%.*s", (int)strcspn(p, ")"), p);
            follow_link(pages[i], link);
        }
        buf_fini(&page);
    }
    assert_true(n > 20);
}
