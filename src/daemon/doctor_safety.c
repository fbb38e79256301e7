/* doctor_safety.c - steps 11 and 12: can it be recorded, can it be stopped, and is it time for this
 * stage. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/stats.h"
#include "daemon/auth.h"
#include "daemon/doctor_priv.h"
#include "daemon/freeze.h"
#include "store/store.h"

enum { STAGE_DAYS = 7, LOOK_BACK_DAYS = 60, FREEZE_LATE_MS = 2000 };

/* ---- 11 store ---------------------------------------------------------------------------------
 */

/* For people: 12.3 GiB. */
static void bytes_text(int64_t bytes, char out[32])
{
    double mib = (double)bytes / (1 << 20);
    (void)snprintf(out, 32, mib < 1024 ? "%.0f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
}

static void see_space(struct doctor *d, const char *dir, int64_t used_bytes)
{
    struct statvfs v;
    char free_text[32], most_text[32];
    if (statvfs(dir, &v) != 0)
        return;
    int64_t free_bytes = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    int64_t wanted = d->config->store.max_bytes - used_bytes;
    bytes_text(free_bytes, free_text);
    bytes_text(d->config->store.max_bytes, most_text);
    if (free_bytes < (64 << 20))
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, dir,
                    "Enlarge the volume, or lower store.max_bytes; it recovers by itself.",
                    "only %s are free; a full disk stops all acting", free_text);
    else if (free_bytes < wanted)
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_WARN, dir,
                    "Lower store.max_bytes below the volume's size.",
                    "%s are free, and the record may grow to %s", free_text, most_text);
    else
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, dir, NULL,
                    "%s free, the record stays under %s", free_text, most_text);
}

static void see_record(struct doctor *d, const char *path, int64_t *bytes)
{
    struct store_opts o = store_opts_default(path);
    struct store_info info;
    struct store *s;
    struct err e;
    o.read_only = true;
    if (access(path, F_OK) != 0) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, NULL, NULL,
                    "there is no record yet; `sluice run` begins it");
        return;
    }
    if (store_open(&o, &s, &e)) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, NULL,
                    "Move the file away and start again; safety does not depend on it, the old "
                    "decisions are lost to reports.",
                    "%s", e.msg);
        return;
    }
    if (store_info(s, &info, &e)) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
    } else {
        *bytes = info.bytes + info.log_bytes;
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, NULL, NULL,
                    "%lld decisions on record, %lld acted on, %lld not finished",
                    (long long)info.decisions, (long long)info.acted, (long long)info.pending);
    }
    store_close(s);
}

static void see_folder(struct doctor *d)
{
    const char *dir = d->config->state_dir;
    int64_t bytes = 0;
    if (access(dir, F_OK) != 0) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_SKIP, dir,
                    "Run it in the pod to see the replica's disk.", "is not on this machine");
        return;
    }
    if (access(dir, W_OK | X_OK) != 0)
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, dir,
                    "fsGroup of the pod, or the owner of the folder.", "cannot be written: %s",
                    strerror(errno));
    char *path = store_path_default(dir);
    see_record(d, path, &bytes);
    mem_free(path);
    see_space(d, dir, bytes);
}

/* ---- 11 freeze --------------------------------------------------------------------------------
 */

struct brake {
    const char *ca_file, *token_file;
};

static struct http_server_opts endpoint(const struct doctor *d, const struct brake *b,
                                        const char *url)
{
    return (struct http_server_opts){.url = url,
                                     .ca_file = b->ca_file,
                                     .token_file = b->token_file,
                                     .connect_us = 2 * US_PER_S,
                                     .tls_server_name = d->o->server_name};
}

static const char *freeze_advice(int status)
{
    return status == 401 || status == 403
               ? "The token shown is not the replica's: --token-file, or the Secret sluice-token "
                 "changed after the pod read it."
               : "Until it answers, freeze with: kubectl -n sluice exec POD -- sh -c 'kill -USR1 "
                 "1'";
}

static void see_answer(struct doctor *d, const char *url, const struct http_reply *r)
{
    struct json_doc *doc = NULL;
    struct err e;
    if (r->status != 200) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, url, freeze_advice(r->status),
                    "the freeze endpoint answers %d", r->status);
        return;
    }
    bool frozen = false;
    const char *words = NULL;
    if (json_parse(r->body.p, r->body.n, 64 << 10, url, &doc, &e) == ERR_OK) {
        frozen = json_is_true(json_find(json_root(doc), "frozen"));
        words = json_text(json_find(json_root(doc), "freeze"));
    }
    double ms = (double)r->elapsed_us * 1e-3;
    if (frozen)
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_WARN, url,
                    "sluice unfreeze, once the reason is gone.", "%s", words ? words : "frozen");
    else
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, ms > FREEZE_LATE_MS ? DOCTOR_WARN : DOCTOR_OK, url,
                    ms > FREEZE_LATE_MS
                        ? "A freeze should be in force within 2 s: CPU limit, network?"
                        : NULL,
                    "the freeze endpoint answers in %.0f ms", ms);
    json_free(doc);
}

static void see_brake(struct doctor *d, const struct brake *b, const char *url)
{
    struct http_server_opts o = endpoint(d, b, url);
    struct http_server *s;
    struct http_reply reply;
    struct err e;
    if (http_server_new(&o, &s, &e)) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, url, NULL, "%s", e.msg);
        return;
    }
    const struct http_request get = {.method = HTTP_GET,
                                     .path = "/api/v1/freeze",
                                     .deadline_us = 5 * US_PER_S,
                                     .body_cap = 64 << 10};
    if (http_do(d->http, s, &get, &reply, &e))
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, url, freeze_advice(0), "%s", e.msg);
    else
        see_answer(d, url, &reply);
    http_reply_fini(&reply);
    http_server_free(s);
}

/* The replica this runs beside, when none is named. */
static bool own_url(const struct doctor *d, char *out, size_t n)
{
    const struct run_serve *s = &d->config->serve;
    bool any = !s->address || strcmp(s->address, "0.0.0.0") == 0 || strcmp(s->address, "::") == 0;
    (void)snprintf(out, n, "%s://%s:%lld", s->cert_file ? "https" : "http",
                   any ? "127.0.0.1" : s->address, (long long)s->port);
    return s->port != 0;
}

static void see_own_brake(struct doctor *d, const struct brake *b)
{
    char url[128];
    bool here = access(d->config->state_dir, F_OK) == 0;
    if (!here || !own_url(d, url, sizeof url)) {
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_SKIP, NULL,
                    "Name the replicas with --url, or run it in the pod.",
                    "no replica's freeze was tried");
        return;
    }
    see_brake(d, b, url);
    if (d->kube_config && d->kube_config->in_cluster)
        doctor_note(d, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, NULL,
                    "Name every replica with --url to try them all.",
                    "the other replica was not asked");
}

void doctor_see_store(struct doctor *d)
{
    char made[1100]; /* where the daemon puts a token of its own when none is configured */
    (void)snprintf(made, sizeof made, "%s/token", d->config->state_dir);
    struct brake b = {.ca_file = d->o->ca_file ? d->o->ca_file : d->config->serve.cert_file,
                            .token_file =
                                d->o->token_file ? d->o->token_file : d->config->serve.token_file};
    if (!b.token_file && file_exists(made))
        b.token_file = made;
    see_folder(d);
    for (size_t i = 0; b.token_file && i < d->o->n_replicas; i++)
        see_brake(d, &b, d->o->replicas[i]);
    if (!b.token_file)
        doctor_note(d, DOCTOR_STORE_AND_FREEZE,
                    d->config->stage == STAGE_OBSERVE ? DOCTOR_WARN : DOCTOR_FAIL, NULL,
                    "`sluice run` makes state_dir/token at its first start; or set serve.token_file. Without a "
                    "token nobody can freeze by the endpoint.",
                    "there is no token: neither serve.token_file nor %s", made);
    else if (!d->o->n_replicas)
        see_own_brake(d, &b);
}

/* ---- 12 stage ---------------------------------------------------------------------------------
 */

/* Hours of the last days with a decision, by stage. */
struct past_hours {
    int in[STAGES];
    int64_t at_us; /* of the decision found */
    int stage;
};

static bool note_stage(void *ctx, const struct store_decision *x, const struct store_target *t)
{
    struct past_hours *p = ctx;
    (void)t;
    p->stage = -1;
    for (int s = 0; s < STAGES; s++)
        if (strcmp(x->stage, run_stage_names[s]) == 0)
            p->stage = s;
    return false;
}

static enum err_code count_hours(struct doctor *d, struct store *s, struct past_hours *p,
                                 struct err *e)
{
    for (int h = LOOK_BACK_DAYS * 24; h > 0; h--) {
        struct store_query q = {
            .since_us = d->now_us - h * US_PER_HOUR, .limit = 1, .role = 1 + STORE_ACTING};
        q.until_us = q.since_us + US_PER_HOUR;
        p->stage = -1;
        enum err_code rc = store_decisions(s, &q, note_stage, p, e);
        if (rc)
            return rc;
        if (p->stage >= 0)
            p->in[p->stage]++;
    }
    return ERR_OK;
}

/* Units asked for and what the rules would have asked for in the same state: one round an hour,
 * added up by day. */
struct paired {
    double ours[STAGE_DAYS], rules[STAGE_DAYS];
    int rounds[STAGE_DAYS], day;
    bool any;
};

static bool add_pair(void *ctx, const struct store_decision *x, const struct store_target *t)
{
    struct paired *p = ctx;
    (void)t;
    if (x->rule) {
        p->ours[p->day] += x->executed;
        p->rules[p->day] += x->rule_units;
        p->any = true;
    }
    return true;
}

static enum err_code pair_days(struct doctor *d, struct store *s, struct paired *p, struct err *e)
{
    for (int h = STAGE_DAYS * 24; h > 0; h--) {
        struct store_query q = {.since_us = d->now_us - h * US_PER_HOUR, .role = 1 + STORE_ACTING};
        q.until_us = q.since_us + d->config->step_us;
        p->day = (STAGE_DAYS * 24 - h) / 24;
        p->any = false;
        enum err_code rc = store_decisions(s, &q, add_pair, p, e);
        if (rc)
            return rc;
        p->rounds[p->day] += p->any;
    }
    return ERR_OK;
}

/* Days are the clusters of the comparison: hours of one day are no independent proofs. */
static void see_pairs(struct doctor *d, const struct paired *p)
{
    double diff[STAGE_DAYS];
    size_t n = 0;
    struct stats_interval in;
    struct rng rng = rng_stream(1, "doctor");
    for (int i = 0; i < STAGE_DAYS; i++)
        if (p->rounds[i] >= 12 && p->rules[i] > 0)
            diff[n++] = 100 * (p->ours[i] - p->rules[i]) / p->rules[i];
    if (n < 3 || stats_bootstrap(diff, n, 1, 2000, 0.95, &rng, &in, NULL))
        return;
    const char *word = in.hi < 0 ? "fewer" : in.lo > 0 ? "more" : "neither fewer nor more";
    doctor_note(d, DOCTOR_STAGE, DOCTOR_OK, NULL,
                "Units are half of it: sluice evaluate --from-store --since 7d --target "
                "NAMESPACE/NAME sets cost and misses side by side.",
                "asked for %s units than the rules beside it: %+.1f %% (95 %% interval %+.1f to "
                "%+.1f, %zu days)",
                word, in.mean, in.lo, in.hi, n);
}

static void see_proof(struct doctor *d, const struct past_hours *p)
{
    static const char promote[] = "Promote when `sluice report --since 7d` is a win with no more "
                                  "misses, and its reasons convince you.";
    int stage = d->config->stage, before = stage - 1;
    double here = p->in[stage] / 24.0;
    if (stage > STAGE_OBSERVE) {
        double proof = p->in[before] / 24.0;
        bool early = proof < STAGE_DAYS && here < STAGE_DAYS;
        char todo[160];
        (void)snprintf(todo, sizeof todo,
                       "Go back for a while: kubectl apply -k deploy/overlays/%s",
                       run_stage_names[before]);
        doctor_note(d, DOCTOR_STAGE, early ? DOCTOR_WARN : DOCTOR_OK, NULL, early ? todo : NULL,
                    "%s%.1f days in %s came before %s; %d are asked for",
                    early ? "early promotion: " : "", proof, run_stage_names[before],
                    run_stage_names[stage], STAGE_DAYS);
    }
    if (stage + 1 < STAGES)
        doctor_note(d, DOCTOR_STAGE, DOCTOR_OK, NULL, here >= STAGE_DAYS ? promote : NULL,
                    "%.1f days in %s so far; %d before %s", here, run_stage_names[stage],
                    STAGE_DAYS, run_stage_names[stage + 1]);
    else
        doctor_note(d, DOCTOR_STAGE, DOCTOR_OK, NULL, NULL, "%.1f days in %s", here,
                    run_stage_names[stage]);
}

static void see_record_of_stages(struct doctor *d, struct store *s)
{
    struct past_hours p = {0};
    struct paired pairs = {0};
    struct err e;
    if (count_hours(d, s, &p, &e) || pair_days(d, s, &pairs, &e)) {
        doctor_note(d, DOCTOR_STAGE, DOCTOR_SKIP, NULL, NULL, "%s", e.msg);
        return;
    }
    see_proof(d, &p);
    see_pairs(d, &pairs);
}

void doctor_see_stage(struct doctor *d)
{
    struct store *s;
    struct err e;
    char *path = store_path_default(d->config->state_dir);
    struct store_opts o = store_opts_default(path);
    o.read_only = true;
    if (access(path, F_OK) != 0) {
        bool observe = d->config->stage == STAGE_OBSERVE;
        doctor_note(d, DOCTOR_STAGE, observe ? DOCTOR_OK : DOCTOR_WARN, NULL,
                    observe ? NULL
                            : "Begin with observe: kubectl apply -k deploy/overlays/observe. Or "
                              "run it in the pod, where the record is.",
                    observe ? "observe is where to begin; a week of it comes before single"
                            : "there is no record here that shows a week of %s",
                    run_stage_names[observe ? 0 : d->config->stage - 1]);
    } else if (store_open(&o, &s, &e)) {
        doctor_note(d, DOCTOR_STAGE, DOCTOR_SKIP, NULL, NULL, "the record cannot be read: %s",
                    e.msg);
    } else {
        see_record_of_stages(d, s);
        store_close(s);
    }
    mem_free(path);
}
