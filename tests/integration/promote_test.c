/* `sluice promote` as a program: exit codes, and what --apply leaves. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/unit/daemon/record_fixture.h"

static void live(struct fix *f, int hours)
{
    struct err e;
    assert_ok(store_begin(f->store, &e), &e);
    for (int i = 0; i < hours * 240; i++) {
        fix_step(f);
        struct store_sample x = {.target_id = f->target_id, .time_us = f->now_us};
        x.value[FIELD_QPS] = f->view.qps_last;
        assert_ok(store_put_sample(f->store, &x, &e), &e);
    }
    assert_ok(store_commit(f->store, &e), &e);
}

/* Exit status; what was printed, both streams, is in `out`. */
static int promote(const char *args, struct buf *out)
{
    char self[512];
    struct err e;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 3; up++)
        *strrchr(self, '/') = '\0';
    int status =
        system(test_path("%s/sluice promote --store %s/promote.db --seeds 1 %s > %s/out 2>&1", self,
                         test_tmp_dir(), args, test_tmp_dir()));
    assert_true(WIFEXITED(status));
    assert_ok(file_read(test_path("%s/out", test_tmp_dir()), 1 << 20, out, &e), &e);
    return WEXITSTATUS(status);
}

static void assert_run(const char *args, int status, const char *words)
{
    struct buf out;
    int got = promote(args, &out);
    if (got != status || !strstr(out.p, words))
        fail_msg("promote %s: exit %d, expected %d and \"%s\":\n%s", args, got, status, words,
                 out.p);
    buf_fini(&out);
}

static bool on_note(void *ctx, const struct store_note *n)
{
    if (n->kind == STORE_NOTE_PROMOTE && strcmp(n->author, "ann") == 0 &&
        strstr(n->text, "mpc costs"))
        ++*(int *)ctx;
    return true;
}

TEST(promote_exits_0_for_a_win_and_1_otherwise_and_apply_leaves_a_note)
{
    struct fix *f = fix_new("promote.db", "static");
    struct err e;
    int notes = 0;
    f->chance = rng_stream(7, "demand");
    f->cfg.spec.slo_violation_max = 0.2;
    fix_configure(f);
    live(f, 80);
    fix_close(f);
    assert_run("--challenger mpc", 0, "Promote: mpc costs");
    assert_run("--challenger mpc --format json", 0, "\"verdict\": \"promote\"");
    assert_run("--challenger threshold --champion mpc", 1, "Do not promote");
    assert_run("--challenger mpc --since 24h", 1, "days are recorded");
    assert_run("", 2, "--challenger names the policy");
    assert_run("--challenger mpc --format csv", 2, "a table or json");
    assert_run("--challenger mpc --apply --author ann", 0,
               "reloaded within seconds:\n  policy: mpc");
    fix_open(f, f->path);
    assert_ok(store_notes(f->store, 0, INT64_MAX, on_note, &notes, &e), &e);
    assert_int_equal(notes, 1);
    assert_run("--challenger mpc --apply --author ann", 0, "noted in "); /* while the daemon has it */
    notes = 0;
    assert_ok(store_notes(f->store, 0, INT64_MAX, on_note, &notes, &e), &e);
    assert_int_equal(notes, 2);
    live(f, 1); /* which goes on */
    assert_run(test_path("--store %s/nowhere.db --challenger mpc --apply", test_tmp_dir()), 1, "no store at");
    fix_free(f);
}
