/* Heads, Adam and the observation normaliser. */
#include "base/mem.h"
#include "nn/adam.h"
#include "nn/gemm.h"
#include "nn/head.h"
#include "nn/norm.h"
#include "tests/support/test.h"

/* ---- products
 * --------------------------------------------------------------------------------- */

TEST(products_of_all_sizes_match_a_plain_loop)
{
    enum { MAX = 70 };
    struct rng rng = rng_stream(test_seed(), "gemm");
    float *a = mem_zero(MAX * MAX, sizeof *a), *b = mem_zero(MAX * MAX, sizeof *b);
    float *c = try_zero_aligned(MAX * 80, sizeof *c),
          *panels = try_zero_aligned(MAX * 80, sizeof *panels);
    float *bias = try_zero_aligned(80, sizeof *bias);
    for (int i = 0; i < MAX * MAX; i++) {
        a[i] = (float)rng_normal(&rng);
        b[i] = (float)rng_normal(&rng);
    }
    for (int j = 0; j < 80; j++)
        bias[j] = (float)j;
    for (int m = 1; m <= 20; m += 1)
        for (int n = 1; n <= MAX; n += 3) {
            int k = 1 + (m * 7 + n) % MAX;
            gemm_pack(b, k, n, MAX, panels);
            gemm_run(&(struct gemm){.m = m,
                                    .n = gemm_pad(n),
                                    .k = k,
                                    .a = a,
                                    .a_m = 1,
                                    .a_k = MAX,
                                    .b = panels,
                                    .c = c,
                                    .c_m = 80,
                                    .init = GEMM_BIAS,
                                    .bias = bias});
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    double sum = j;
                    for (int p = 0; p < k; p++)
                        sum += (double)a[p * MAX + i] * (double)b[p * MAX + j];
                    assert_near((double)c[i * 80 + j], sum, 1e-4, 1e-5);
                }
        }
    float *all[] = {a, b, c, panels, bias};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        mem_free(all[i]);
}

/* ---- heads
 * ------------------------------------------------------------------------------------ */

TEST(panels_of_a_transposed_matrix_are_the_panels_of_its_transpose)
{
    enum { MAX = 100, PADDED = 112 };
    struct rng rng = rng_stream(test_seed(), "panels");
    float *w = mem_zero(MAX * MAX, sizeof *w), *t = mem_zero(MAX * MAX, sizeof *t);
    float *direct = try_zero_aligned(MAX * PADDED, sizeof *direct);
    float *through = try_zero_aligned(MAX * PADDED, sizeof *through);
    for (int i = 0; i < MAX; i++)
        for (int j = 0; j < MAX; j++)
            w[i * MAX + j] = t[j * MAX + i] = (float)rng_normal(&rng);
    for (int k = 1; k <= MAX; k += 5)
        for (int n = 1; n <= MAX; n += 3) {
            memset(direct, 1, MAX * PADDED * sizeof *direct);
            memset(through, 2, MAX * PADDED * sizeof *through);
            gemm_pack(w, k, n, MAX, direct);
            gemm_pack_transposed(t, k, n, MAX, through);
            assert_memory_equal(direct, through, (size_t)(k * gemm_pad(n)) * sizeof *direct);
        }
    mem_free(w);
    mem_free(t);
    mem_free(direct);
    mem_free(through);
}

TEST(a_masked_action_has_no_probability_and_no_gradient)
{
    const float logits[5] = {1, 50, -2, 0.5f, 3};
    const uint8_t mask[5] = {1, 0, 1, 1, 0};
    float logp[5], d[5];
    double sum = 0;
    float entropy = nn_head_logp(logits, mask, 5, logp);
    for (int a = 0; a < 5; a++) {
        assert_int_equal(isinf(logp[a]) != 0, !mask[a]);
        sum += exp((double)logp[a]);
    }
    assert_near(sum, 1, 1e-6, 0);
    assert_int_equal(nn_head_argmax(logits, mask, 5), 0);
    nn_head_grad(logp, entropy, 5, 2, 1.0f, 0.3f, d);
    assert_true(d[1] == 0 && d[4] == 0);
}

TEST(log_probabilities_and_entropy_match_double)
{
    enum { N = 40 };
    float logits[N], logp[N];
    struct rng rng = rng_stream(test_seed(), "head");
    double sum = 0, entropy = 0;
    for (int a = 0; a < N; a++)
        logits[a] = (float)(4 * rng_normal(&rng));
    for (int a = 0; a < N; a++)
        sum += exp((double)logits[a]);
    float got = nn_head_logp(logits, NULL, N, logp);
    for (int a = 0; a < N; a++) {
        double want = (double)logits[a] - log(sum);
        entropy -= exp(want) * want;
        assert_near((double)logp[a], want, 2e-6, 1e-6);
    }
    assert_near((double)got, entropy, 1e-5, 1e-5);
}

TEST(sampling_follows_the_probabilities_and_the_ends_of_the_unit_interval)
{
    const float logits[4] = {0, 1, 2, 9};
    const uint8_t mask[4] = {1, 1, 1, 0};
    float logp[4];
    int count[4] = {0};
    struct rng rng = rng_stream(test_seed(), "sample");
    (void)nn_head_logp(logits, mask, 4, logp);
    for (int i = 0; i < 100000; i++)
        count[nn_head_sample(logp, 4, rng_unit(&rng))]++;
    for (int a = 0; a < 4; a++)
        assert_near(count[a] / 1e5, mask[a] ? exp((double)logp[a]) : 0, 0.006, 0);
    assert_int_equal(nn_head_sample(logp, 4, 0), 0);
    assert_int_equal(nn_head_sample(logp, 4, 1), 2);
}

TEST(head_gradients_match_differences)
{
    enum { N = 6 };
    float logits[N] = {0.3f, -1, 2, 0, 0.7f, 1}, logp[N], d[N];
    const uint8_t mask[N] = {1, 1, 1, 0, 1, 1};
    float entropy = nn_head_logp(logits, mask, N, logp);
    nn_head_grad(logp, entropy, N, 2, 0.7f, -0.4f, d);
    for (int a = 0; a < N; a++) {
        float up[N], down[N], x[N];
        memcpy(x, logits, sizeof x);
        x[a] += 0.01f;
        float h_up = nn_head_logp(x, mask, N, up);
        x[a] -= 0.02f;
        float h_down = nn_head_logp(x, mask, N, down);
        double want = (0.7 * (double)(up[2] - down[2]) - 0.4 * (double)(h_up - h_down)) / 0.02;
        assert_near((double)d[a], want, 1e-4, 1e-3);
    }
}

/* ---- Adam
 * ------------------------------------------------------------------------------------- */

static struct nn_params two_tensors(void)
{
    struct nn_params p = {0};
    struct err e;
    (void)nn_params_add(&p, "first", 3, 5, 0, 0);
    (void)nn_params_add(&p, "second", 7, 0, 0, 0);
    assert_ok(nn_params_alloc(&p, &e), &e);
    return p;
}

TEST(tensors_start_on_cache_lines_and_are_found_by_name)
{
    struct nn_params p = two_tensors();
    assert_int_equal(p.table[1].offset, 16);
    assert_int_equal(p.total, 32);
    assert_int_equal(nn_params_find(&p, "second"), 1);
    assert_int_equal(nn_params_find(&p, "third"), -1);
    assert_int_equal((uintptr_t)nn_params_value(&p, 1) % 64, 0);
    nn_params_fini(&p);
}

TEST(adam_follows_the_published_algorithm)
{
    struct nn_params p = two_tensors();
    struct nn_adam a = nn_adam_default();
    struct rng rng = rng_stream(test_seed(), "adam");
    double value[32] = {0}, m[32] = {0}, v[32] = {0};
    struct err e;
    for (int t = 1; t <= 50; t++) {
        double length = 0;
        float norm;
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < p.table[k].size; i++)
                nn_params_grad(&p, k)[i] = (float)rng_normal(&rng);
        for (int i = 0; i < 32; i++)
            length += (double)p.grad[i] * (double)p.grad[i];
        length = sqrt(length);
        assert_ok(nn_adam_step(&a, &p, 0.01f, &norm, &e), &e);
        assert_near((double)norm, length, 0, 1e-5);
        for (int i = 0; i < 32; i++) {
            double g = (double)p.grad[i] * fmin(1, 0.5 / length);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            value[i] -=
                0.01 * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-5);
            assert_near((double)p.value[i], value[i], 2e-5, 1e-4);
        }
    }
    nn_params_fini(&p);
}

TEST(a_gradient_that_is_not_finite_stops_with_the_name_of_its_tensor)
{
    struct nn_params p = two_tensors();
    struct nn_adam a = nn_adam_default();
    struct err e;
    nn_params_value(&p, 0)[0] = 3;
    nn_params_grad(&p, 1)[4] = NAN;
    assert_err(nn_adam_step(&a, &p, 0.1f, NULL, &e), ERR_NUMERIC, &e, "second[4]");
    nn_params_grad(&p, 1)[4] = 1e30f; /* its square overflows */
    assert_err(nn_adam_step(&a, &p, 0.1f, NULL, &e), ERR_NUMERIC, &e, "norm");
    assert_int_equal(a.t, 0);
    assert_true(nn_params_value(&p, 0)[0] == 3);
    nn_params_fini(&p);
}

/* ---- normaliser
 * ------------------------------------------------------------------------------- */

TEST(merged_statistics_match_two_passes_over_all_rows)
{
    enum { DIM = 19, ROWS = 500 };
    float *x = mem_zero(DIM * ROWS, sizeof *x);
    struct rng rng = rng_stream(test_seed(), "norm");
    for (int i = 0; i < DIM * ROWS; i++)
        x[i] = (float)(1e4 + (i % DIM) * 10 + (i % DIM + 1) * rng_normal(&rng)); /* far from zero */
    struct nn_norm n;
    nn_norm_init(&n, DIM);
    struct nn_norm_acc *acc[2] = {nn_norm_acc_new(&n), nn_norm_acc_new(&n)};
    nn_norm_acc_add(acc[0], &n, x, DIM, 100);
    nn_norm_acc_add(acc[1], &n, x + 100 * DIM, DIM, 50);
    nn_norm_merge(&n, acc, 2);
    nn_norm_acc_add(acc[1], &n, x + 150 * DIM, DIM, 350);
    nn_norm_merge(&n, acc, 2);
    assert_near(n.count, ROWS, 0, 0);
    for (int j = 0; j < DIM; j++) {
        double mean = 0, m2 = 0;
        for (int r = 0; r < ROWS; r++)
            mean += (double)x[r * DIM + j] / ROWS;
        for (int r = 0; r < ROWS; r++)
            m2 += ((double)x[r * DIM + j] - mean) * ((double)x[r * DIM + j] - mean);
        assert_near(n.mean[j], mean, 1e-6, 0);
        assert_near(n.m2[j], m2, 0, 1e-6);
    }
    float y[DIM];
    nn_norm_apply(&n, x, DIM, 1, y, DIM);
    for (int j = 0; j < DIM; j++)
        assert_near((double)y[j], ((double)x[j] - n.mean[j]) / sqrt(n.m2[j] / ROWS), 2e-2, 1e-3);
    mem_free(x);
    for (int i = 0; i < 2; i++)
        nn_norm_acc_free(acc[i]);
    nn_norm_fini(&n);
}

TEST(a_constant_feature_normalises_to_zero_and_outliers_are_clamped)
{
    struct nn_norm n;
    nn_norm_init(&n, 2);
    struct nn_norm_acc *acc = nn_norm_acc_new(&n);
    const float rows[8] = {5, 0, 5, 1, 5, 0, 5, 1};
    nn_norm_acc_add(acc, &n, rows, 2, 4);
    nn_norm_merge(&n, &acc, 1);
    float y[2];
    nn_norm_apply(&n, (const float[]){5, 1e9f}, 2, 1, y, 2);
    assert_true(y[0] == 0);
    assert_true(y[1] == 10);
    nn_norm_acc_free(acc);
    nn_norm_fini(&n);
}

TEST(before_any_data_observations_pass_unchanged)
{
    struct nn_norm n;
    float y[3];
    nn_norm_init(&n, 3);
    nn_norm_apply(&n, (const float[]){1, -2, 3}, 3, 1, y, 3);
    assert_near((double)y[1], -2, 1e-7, 1e-7);
    nn_norm_fini(&n);
}
