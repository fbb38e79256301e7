/* safetensors files, checkpoints and policies. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "nn/checkpoint.h"
#include "nn/head.h"
#include "nn/policy.h"
#include "nn/safetensors.h"
#include "tests/support/test.h"

/* A file image of this header and n zero bytes of data. */
static size_t image(const char *header, size_t n_data, unsigned char *out)
{
    size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(out + 8, header, n);
    memset(out + 8 + n, 0, n_data);
    return 8 + n + n_data;
}

TEST(what_is_written_is_read_back)
{
    const float a[6] = {1, -2, 3.5f, 0, 1e-30f, 5};
    const double b[1] = {0.1};
    const int64_t c[3] = {INT64_MIN, 0, INT64_MAX};
    const uint8_t d[3] = {1, 2, 255};
    const struct st_tensor t[] = {
        {"a", ST_F32, 2, {2, 3}, a, sizeof a}, {"b", ST_F64, 1, {1}, b, sizeof b},
        {"empty", ST_U8, 1, {0}, d, 0},        {"d", ST_U8, 1, {3}, d, sizeof d},
        {"c", ST_I64, 1, {3}, c, sizeof c},
    };
    const struct st_meta meta[] = {{"layout", "12ab"},
                                   {"text", "quotes \" and \n lines, \xc3\xa9"}};
    const char *path = test_path("%s/round.safetensors", test_tmp_dir());
    struct st_file *f;
    struct err e;
    assert_ok(st_write(path, t, 5, meta, 2, &e), &e);
    assert_ok(st_open(path, &f, &e), &e);
    assert_int_equal(st_count(f), 5);
    for (int i = 0; i < 5; i++) {
        const struct st_tensor *r = st_find(f, t[i].name);
        assert_non_null(r);
        assert_int_equal(r->dtype, t[i].dtype);
        assert_int_equal(r->n_dims, t[i].n_dims);
        assert_int_equal(r->n_bytes, t[i].n_bytes);
        assert_int_equal((uintptr_t)r->data % 8, 0);
        assert_memory_equal(r->data, t[i].data, t[i].n_bytes);
    }
    assert_int_equal(st_meta_count(f), 2);
    assert_string_equal(st_meta_get(f, "text"), meta[1].value);
    assert_null(st_meta_get(f, "other"));
    assert_null(st_find(f, "e"));
    st_free(f);
}

TEST(malformed_files_are_refused_with_a_reason)
{
    static const struct {
        const char *header;
        size_t n_data;
        enum err_code code;
        const char *text;
    } bad[] = {
        {"", 0, ERR_PARSE, ""},
        {"[]", 0, ERR_PARSE, "expected an object"},
        {"{\"a\":1}", 0, ERR_PARSE, "a: expected an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, ERR_MISSING, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, ERR_PARSE, "F16"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, ERR_PARSE,
         "dimension 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, ERR_PARSE,
         "dimension 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, ERR_LIMIT,
         "dimensions"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1000000000,1000000000],\"data_offsets\":[0,8]}}", 8,
         ERR_LIMIT, "larger"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, ERR_PARSE,
         "two whole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, ERR_PARSE, "leave"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 4, ERR_PARSE, "leave"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, ERR_PARSE,
         "for a shape of 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, ERR_PARSE, "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, ERR_PARSE,
         "follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, ERR_PARSE, "overlapping"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, ERR_PARSE, ""},
        {"{\"__metadata__\":[]}", 0, ERR_PARSE, "__metadata__"},
        {"{\"__metadata__\":{\"k\":1}}", 0, ERR_PARSE, "k: expected a string"},
        {"{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":{}}", 0,
         ERR_LIMIT, "longer"},
    };
    unsigned char bytes[1024];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct st_file *f;
        struct err e;
        size_t n = image(bad[i].header, bad[i].n_data, bytes);
        assert_err(st_parse(bytes, n, &f, &e), bad[i].code, &e, bad[i].text);
        assert_null(f);
    }
}

TEST(truncated_and_oversized_headers_are_refused)
{
    unsigned char bytes[16] = {200};
    struct st_file *f;
    struct err e;
    assert_err(st_parse(bytes, 3, &f, &e), ERR_PARSE, &e, "too few");
    assert_err(st_parse(bytes, 16, &f, &e), ERR_PARSE, &e, "in a file of 16");
    memset(bytes, 0xff, sizeof bytes);
    assert_err(st_parse(bytes, 16, &f, &e), ERR_LIMIT, &e, "header of");
    assert_err(st_open(test_path("%s/none", test_tmp_dir()), &f, &e), ERR_IO, &e, "none");
    const char *empty = test_path("%s/empty", test_tmp_dir());
    test_write_file(empty, "", 0);
    assert_err(st_open(empty, &f, &e), ERR_PARSE, &e, "too few");
}

TEST(values_that_are_not_finite_are_neither_read_nor_written)
{
    unsigned char bytes[256];
    const float nan = NAN;
    struct st_file *f;
    struct err e;
    size_t n = image("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, bytes);
    memcpy(bytes + n - 4, &nan, 4);
    assert_err(st_parse(bytes, n, &f, &e), ERR_NUMERIC, &e, "w: value 1");
    const struct st_tensor t = {"w", ST_F32, 1, {1}, &nan, 4};
    assert_err(st_write(test_path("%s/nan", test_tmp_dir()), &t, 1, NULL, 0, &e), ERR_NUMERIC, &e,
               "w: value 0");
}

static int files_in(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d))
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(d);
    return n;
}

TEST(a_failed_write_leaves_the_old_file_and_no_temporary)
{
    const char *dir = test_path("%s/atomic", test_tmp_dir());
    assert_int_equal(mkdir(dir, 0700), 0);
    const char *path = test_path("%s/p.safetensors", dir);
    const float good = 1, bad = INFINITY;
    struct st_tensor t = {"w", ST_F32, 1, {1}, &good, 4};
    struct st_file *f;
    struct err e;
    assert_ok(st_write(path, &t, 1, NULL, 0, &e), &e);
    t.data = &bad;
    assert_err(st_write(path, &t, 1, NULL, 0, &e), ERR_NUMERIC, &e, path);
    assert_int_equal(files_in(dir), 1);
    assert_ok(st_open(path, &f, &e), &e);
    assert_true(*(const float *)st_find(f, "w")->data == 1);
    st_free(f);
    assert_err(st_write(test_path("%s/no/p", dir), &t, 0, NULL, 0, &e), ERR_IO, &e, NULL);
}

/* ---- policies
 * --------------------------------------------------------------------------------- */

enum { N_OBS = 11, N_ACTIONS = 5 };

static struct nn_net *net_of(enum nn_shape shape)
{
    struct nn_net_cfg cfg = nn_net_cfg_default(shape, N_OBS, N_ACTIONS, 2);
    struct rng rng = rng_stream(5, "policy");
    struct nn_net *net;
    struct err e;
    cfg.head_gain = 1;
    assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
    return net;
}

static const char *save_policy(const struct nn_net *net)
{
    const char *path = test_path("%s/policy.safetensors", test_tmp_dir());
    struct nn_norm norm;
    struct err e;
    nn_norm_init(&norm, N_OBS);
    norm.count = 100;
    for (int j = 0; j < N_OBS; j++) {
        norm.mean[j] = j;
        norm.m2[j] = 100 * (j + 1);
    }
    struct ckpt_out *c = ckpt_out_new();
    ckpt_add_net(c, net);
    ckpt_add_norm(c, &norm);
    ckpt_meta(c, "layout", "%s", "abc");
    assert_ok(ckpt_write(c, path, &e), &e);
    ckpt_out_free(c);
    nn_norm_fini(&norm);
    return path;
}

static void observations(float *x, int n)
{
    struct rng rng = rng_stream(test_seed(), "obs");
    for (int i = 0; i < n; i++)
        x[i] = (float)(i % N_OBS + 2 * rng_normal(&rng));
}

TEST(a_decision_alone_has_the_bits_it_has_in_a_batch)
{
    enum { ROWS = 100 };
    const enum nn_shape shapes[] = {NN_SEPARATE, NN_SHARED, NN_LSTM};
    float obs[ROWS * N_OBS], many[ROWS * 128] = {0}, one[ROWS * 128] = {0};
    int32_t action[ROWS];
    observations(obs, ROWS * N_OBS);
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct nn_net *net = net_of(shapes[s]);
        struct nn_policy *p;
        struct err e;
        assert_ok(nn_policy_load(save_policy(net), NULL, 0, &p, &e), &e);
        int dim = nn_net_state_dim(net);
        for (int step = 0; step < 3; step++) {
            assert_ok(nn_policy_act_many(p, obs, NULL, ROWS, many, action, &e), &e);
            for (int r = 0; r < ROWS; r++) {
                int a;
                float prob[N_ACTIONS], value[2];
                assert_ok(
                    nn_policy_act(p, obs + r * N_OBS, NULL, one + r * dim, &a, prob, value, &e),
                    &e);
                assert_int_equal(a, action[r]);
            }
            assert_memory_equal(one, many, (size_t)(ROWS * dim) * sizeof(float));
        }
        nn_policy_free(p);
        nn_net_free(net);
    }
}

TEST(a_policy_respects_the_mask_and_gives_probabilities)
{
    struct nn_net *net = net_of(NN_SEPARATE);
    struct nn_policy *p;
    struct err e;
    float obs[N_OBS], prob[N_ACTIONS], value[2];
    assert_ok(nn_policy_load(save_policy(net), NULL, 0, &p, &e), &e);
    observations(obs, N_OBS);
    for (int only = 0; only < N_ACTIONS; only++) {
        uint8_t mask[N_ACTIONS] = {0};
        int action;
        mask[only] = 1;
        assert_ok(nn_policy_act(p, obs, mask, NULL, &action, prob, value, &e), &e);
        assert_int_equal(action, only);
        assert_near((double)prob[only], 1, 1e-6, 0);
    }
    nn_policy_free(p);
    nn_net_free(net);
}

TEST(stale_or_impossible_input_is_an_error_not_a_guess)
{
    struct nn_net *net = net_of(NN_SHARED);
    struct nn_policy *p;
    struct err e;
    float obs[N_OBS] = {0};
    const uint8_t nothing[N_ACTIONS] = {0};
    int action = 77;
    assert_ok(nn_policy_load(save_policy(net), NULL, 0, &p, &e), &e);
    assert_err(nn_policy_act(p, obs, nothing, NULL, &action, NULL, NULL, &e), ERR_INVAL, &e,
               "mask");
    obs[4] = NAN;
    assert_err(nn_policy_act(p, obs, NULL, NULL, &action, NULL, NULL, &e), ERR_NUMERIC, &e,
               "observation 4");
    assert_int_equal(action, 77);
    nn_policy_free(p);
    nn_net_free(net);
}

TEST(attribution_is_the_slope_of_the_preference)
{
    struct nn_net *net = net_of(NN_SEPARATE);
    struct nn_policy *p;
    struct err e;
    float obs[N_OBS], grad[N_OBS], moved[N_OBS], scaled[N_OBS], a[N_ACTIONS], b[N_ACTIONS];
    assert_ok(nn_policy_load(save_policy(net), NULL, 0, &p, &e), &e);
    observations(obs, N_OBS);
    nn_policy_attribution(p, obs, NULL, NULL, 2, grad);
    struct nn_ws *ws;
    assert_ok(nn_ws_new(net, &ws, &e), &e);
    memcpy(moved, obs, sizeof moved);
    double want = 0;
    for (int j = 0; j < N_OBS; j++) {
        float step = 0.01f * sqrtf((float)(j + 1)) * (j % 2 ? 1.0f : -1.0f);
        moved[j] += step;
        want += (double)(grad[j] * step);
    }
    nn_norm_apply(nn_policy_norm(p), obs, N_OBS, 1, scaled, N_OBS);
    nn_net_forward(net, ws, scaled, N_OBS, 1, NULL, a, NULL);
    nn_norm_apply(nn_policy_norm(p), moved, N_OBS, 1, scaled, N_OBS);
    nn_net_forward(net, ws, scaled, N_OBS, 1, NULL, b, NULL);
    double got = 0;
    for (int k = 0; k < N_ACTIONS; k++)
        got += (double)(b[k] - a[k]) * (k == 2 ? 1 : -1.0 / (N_ACTIONS - 1));
    assert_near(got, want, 2e-3, 0.05);
    nn_ws_free(ws);
    nn_policy_free(p);
    nn_net_free(net);
}

TEST(a_flipped_bit_of_a_policys_weight_is_noticed)
{
    struct nn_net *net = net_of(NN_SHARED);
    const char *path = save_policy(net);
    struct nn_policy *p;
    struct err e;
    assert_ok(nn_policy_load(path, NULL, 0, &p, &e), &e);
    nn_policy_free(p);
    struct buf b = buf_init(1 << 24);
    float first = nn_net_params_const(net)->value[0];
    size_t at = 0;
    assert_ok(file_read(path, 1 << 24, &b, &e), &e);
    while (at + sizeof first <= b.n && memcmp(b.p + at, &first, sizeof first) != 0)
        at++;
    assert_true(at + sizeof first <= b.n);
    b.p[at] ^= 1;
    test_write_file(path, b.p, b.n);
    buf_fini(&b);
    assert_err(nn_policy_load(path, NULL, 0, &p, &e), ERR_MISMATCH, &e, "weights are damaged");
    nn_net_free(net);
}

TEST(a_policy_of_another_layout_or_shape_is_refused_by_name)
{
    struct nn_net *net = net_of(NN_SEPARATE);
    const char *path = save_policy(net);
    struct nn_policy *p;
    struct err e;
    const struct st_meta other = {"layout", "xyz"}, missing = {"data", "1"};
    assert_err(nn_policy_load(path, &other, 1, &p, &e), ERR_MISMATCH, &e,
               "layout: the file has \"abc\", expected \"xyz\"");
    assert_err(nn_policy_load(path, &missing, 1, &p, &e), ERR_MISMATCH, &e,
               "data: the file has none");
    struct st_file *f;
    assert_ok(st_open(path, &f, &e), &e);
    struct nn_net *shared = net_of(NN_SHARED);
    assert_err(ckpt_load_net(f, shared, &e), ERR_MISMATCH, &e, "trunk.0.weight is missing");
    struct nn_norm norm;
    nn_norm_init(&norm, N_OBS + 1);
    assert_err(ckpt_load_norm(f, &norm, &e), ERR_MISMATCH, &e, "norm.mean");
    nn_norm_fini(&norm);
    st_free(f);
    nn_net_free(shared);
    nn_net_free(net);
}

TEST(a_file_without_a_network_is_refused)
{
    const char *path = test_path("%s/none.safetensors", test_tmp_dir());
    struct nn_policy *p;
    struct err e;
    const struct st_meta meta[] = {{"nn.shape", "cube"}};
    assert_ok(st_write(path, NULL, 0, NULL, 0, &e), &e);
    assert_err(nn_policy_load(path, NULL, 0, &p, &e), ERR_MISSING, &e, "nn.shape");
    assert_ok(st_write(path, NULL, 0, meta, 1, &e), &e);
    assert_err(nn_policy_load(path, NULL, 0, &p, &e), ERR_PARSE, &e, "cube");
}

TEST(one_network_always_writes_the_same_bytes)
{
    struct nn_net *net = net_of(NN_LSTM);
    struct st_file *a, *b;
    struct err e;
    assert_ok(st_open(save_policy(net), &a, &e), &e);
    assert_ok(st_open(save_policy(net), &b, &e), &e);
    assert_int_equal(st_count(a), st_count(b));
    for (int i = 0; i < st_count(a); i++)
        assert_memory_equal(st_at(a, i)->data, st_at(b, i)->data, st_at(a, i)->n_bytes);
    st_free(a);
    st_free(b);
    nn_net_free(net);
}
