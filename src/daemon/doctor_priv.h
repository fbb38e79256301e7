/* doctor_priv.h - shared by the files of doctor.h: the visit, and its notes. */
#ifndef DAEMON_DOCTOR_PRIV_H
#define DAEMON_DOCTOR_PRIV_H

#include "collect/collect.h"
#include "daemon/cluster.h"
#include "daemon/doctor.h"
#include "daemon/roster.h"
#include "kube/client.h"
#include "kube/config.h"
#include "net/http.h"
#include "prom/client.h"

/* What the checks hand on to each other.  NULL: could not be had, and an earlier check says why. */
struct doctor {
    const struct doctor_opts *o;
    const struct run_config *config;
    struct doctor_report *report;
    int64_t now_us; /* wall clock at the start */
    int64_t wait_us;
    struct http_client *http;
    struct kube_config *kube_config;
    struct kube *kube; /* answers */
    char who[200];     /* we are to the API server, "system:serviceaccount:sluice:sluice"; "" when it does not say */
    bool crd;          /* CapacityTarget is served */
    bool may_read;     /* everything that the stage must read */
    struct cluster *cluster;
    struct roster *roster; /* synced */
    char *prom_password;
    struct http_server *prom_server;
    struct prom *prom;                     /* answers */
    int64_t prom_skew_us, samples_skew_us; /* their clocks minus ours; INT64_MIN: not known */
    bool days_known;
    double days_recorded; /* of the target with the shortest history */
};

/* One finding.  `about` and the todo may be NULL. */
void doctor_note(struct doctor *d, enum doctor_check c, enum doctor_verdict v, const char *about,
                 const char *todo, const char *fmt, ...) PRINTF_LIKE(6, 7);

void doctor_see_api(struct doctor *d);
void doctor_see_crd(struct doctor *d);
void doctor_see_permissions(struct doctor *d);
void doctor_see_prometheus(struct doctor *d);
void doctor_see_queries(struct doctor *d);
void doctor_see_history(struct doctor *d);
void doctor_see_clocks(struct doctor *d);
void doctor_see_ownership(struct doctor *d);
void doctor_see_profile(struct doctor *d);
void doctor_see_startup(struct doctor *d);
void doctor_see_store(struct doctor *d);
void doctor_see_stage(struct doctor *d);

/* "shop/api" */
const char *doctor_target(const struct live *l, char out[2 * TARGET_NAME]);
/* Lists the cluster and brings the roster up to date, once; false (with a skip noted under c) when
 * it cannot be had. */
bool doctor_need_roster(struct doctor *d, enum doctor_check c);
bool doctor_need_prometheus(struct doctor *d, enum doctor_check c);

#endif
