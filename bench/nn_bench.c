/* nn_bench.c - the kernels under the networks, on one core: products of a policy's size beside
 * oneDNN's, the fast tanh, a single decision and a batch of them. */
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "nn/gemm.h"
#include "nn/net.h"
#include "nn/vec.h"

enum { ROWS = 128, WIDTH = 64, LOOPS = 2000, REPEATS = 15, N_OBS = 48, N_ACTIONS = 7 };

struct product_bench {
    struct gemm gemm;
    float *x, *w, *y;
};

static float *normals(size_t n)
{
    struct rng rng = rng_stream(1, "nn_bench");
    float *x = try_zero_aligned(n, sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        x[i] = (float)rng_normal(&rng);
    return x;
}

static double gflops(double seconds)
{
    return 2.0 * ROWS * WIDTH * WIDTH * LOOPS / seconds / 1e9;
}

static double run_product(void *arg)
{
    const struct product_bench *b = arg;
    double start = bench_now_s();
    for (int i = 0; i < LOOPS; i++)
        gemm_run(&b->gemm);
    return gflops(bench_now_s() - start);
}

static double run_onednn(void *arg)
{
    const struct product_bench *b = arg;
    double start = bench_now_s();
    for (int i = 0; i < LOOPS; i++)
        if (dnnl_sgemm('N', 'N', ROWS, WIDTH, WIDTH, 1, b->x, WIDTH, b->w, WIDTH, 0, b->y, WIDTH) !=
            dnnl_success)
            return NAN;
    return gflops(bench_now_s() - start);
}

static void bench_products(void)
{
    struct product_bench b = {
        .x = normals(ROWS * WIDTH), .w = normals(WIDTH * WIDTH), .y = normals(ROWS * WIDTH)};
    float *panels = normals(WIDTH * WIDTH), *pairs = normals(ROWS * WIDTH);
    gemm_pack(b.w, WIDTH, WIDTH, WIDTH, panels);
    b.gemm = (struct gemm){.m = ROWS,
                           .n = WIDTH,
                           .k = WIDTH,
                           .a = b.x,
                           .a_m = WIDTH,
                           .a_k = 1,
                           .b = panels,
                           .c = b.y,
                           .c_m = WIDTH};
    bench_report("nn_product_gflops", "GF/s", REPEATS, run_product, &b);
    b.gemm.end = GEMM_TANH;
    bench_report("nn_product_tanh_gflops", "GF/s", REPEATS, run_product, &b);
    gemm_pairs_neighbours(b.x, WIDTH, ROWS, WIDTH, pairs, WIDTH / 2);
    gemm_pack(b.w, WIDTH, WIDTH, WIDTH, panels);
    b.gemm = (struct gemm){.m = ROWS,
                           .n = WIDTH,
                           .k = WIDTH / 2,
                           .a = pairs,
                           .a_m = WIDTH / 2,
                           .a_k = 1,
                           .b = panels,
                           .c = b.y,
                           .c_m = WIDTH,
                           .pairs = true};
    bench_report("nn_product_bf16_gflops", "GF/s", REPEATS, run_product, &b);
    bench_report("nn_product_onednn_gflops", "GF/s", REPEATS, run_onednn, &b);
    float *all[] = {b.x, b.w, b.y, panels, pairs};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        mem_free(all[i]);
}

static double run_peak(void *arg)
{
    enum { CHAINS = 16 };
    v16 sum[CHAINS], half = v16_set(0.5f);
    float *sink = arg;
    for (int j = 0; j < CHAINS; j++)
        sum[j] = v16_set((float)j);
    double start = bench_now_s();
    for (int i = 0; i < LOOPS * 500; i++)
#pragma GCC unroll 16
        for (int j = 0; j < CHAINS; j++)
            sum[j] = v16_fma(sum[j], half, half);
    double seconds = bench_now_s() - start;
    for (int j = 0; j < CHAINS; j++)
        *sink += v16_sum(sum[j]);
    return 2.0 * VEC * CHAINS * LOOPS * 500 / seconds / 1e9;
}

static double run_tanh(void *arg)
{
    float *x = arg;
    double start = bench_now_s();
    for (int i = 0; i < LOOPS; i++)
        for (int j = 0; j < ROWS * WIDTH; j += VEC)
            v16_store(x + j, v16_tanh(v16_load(x + j)));
    return (double)ROWS * WIDTH * LOOPS / (bench_now_s() - start);
}

struct forward_bench {
    struct nn_net *net;
    struct nn_ws *ws;
    float *obs, *logits;
    int rows;
};

static double run_forward(void *arg)
{
    const struct forward_bench *b = arg;
    double start = bench_now_s();
    for (int i = 0; i < LOOPS; i++)
        nn_net_forward(b->net, b->ws, b->obs, N_OBS, b->rows, NULL, b->logits, NULL);
    return LOOPS * (double)b->rows / (bench_now_s() - start);
}

static double run_decision_us(void *arg)
{
    return 1e6 / run_forward(arg);
}

static void bench_forward(void)
{
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SEPARATE, N_OBS, N_ACTIONS, 1);
    struct rng rng = rng_stream(1, "init");
    struct forward_bench b = {
        .obs = normals(ROWS * N_OBS), .logits = normals(ROWS * N_ACTIONS), .rows = 1};
    struct err e;
    if (nn_net_new(&cfg, &rng, &b.net, &e) || nn_ws_new(b.net, &b.ws, &e)) {
        (void)fprintf(stderr, "nn_bench: %s\n", e.msg);
        exit(1);
    }
    bench_report("nn_decision_us", "us", REPEATS, run_decision_us, &b);
    b.rows = ROWS;
    bench_report("nn_decisions_in_batch_per_s", "1/s", REPEATS, run_forward, &b);
    nn_ws_free(b.ws);
    nn_net_free(b.net);
    mem_free(b.obs);
    mem_free(b.logits);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("OMP_NUM_THREADS")) { /* oneDNN reads it once, before main */
        if (setenv("OMP_NUM_THREADS", "1", 1) == 0)
            (void)execv("/proc/self/exe", argv);
        return 1;
    }
    float sink = 0, *x = normals(ROWS * WIDTH);
    bench_report("nn_peak_gflops", "GF/s", REPEATS, run_peak, &sink);
    bench_products();
    bench_report("nn_tanh_per_s", "1/s", REPEATS, run_tanh, x);
    bench_forward();
    mem_free(x);
    return 0;
}
