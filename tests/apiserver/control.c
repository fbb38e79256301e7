/* control.c - placeholder */
#include "tests/apiserver/api_priv.h"
void control_start(struct apiserver *a) { (void)a; }
void control_stop(struct apiserver *a) { (void)a; }
void control_event(struct apiserver *a, struct shelf *s, const struct event *e) { (void)a; (void)s; (void)e; }
void apiserver_settle(struct apiserver *a) { (void)a; }
