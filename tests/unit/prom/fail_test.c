/* fail_test.c - an answer that is read while memory gives out, at every point in turn. */
#include "base/buf.h"
#include "prom/result.h"
#include "tests/support/fail.h"
#include "tests/support/test.h"

/* Many series with labels and samples. */
static struct buf matrix(void)
{
    struct buf b = buf_init(1 << 20);
    buf_str(&b, "{\"status\":\"success\",\"warnings\":[\"partial\"],\"data\":{\"resultType\":\"matrix\",\"result\":[");
    for (int i = 0; i < 300; i++) {
        buf_fmt(&b, "%s{\"metric\":{\"__name__\":\"up\",\"pod\":\"p%d\",\"zone\":\"a \\u00e9\"},\"values\":[",
                i ? "," : "", i);
        for (int k = 0; k < 10; k++)
            buf_fmt(&b, "%s[%d,\"%d.5\"]", k ? "," : "", 15 * k, k);
        buf_str(&b, "]}");
    }
    buf_str(&b, "]}}");
    return b;
}

static enum err_code parse(void *ctx, struct err *e)
{
    const struct buf *text = ctx;
    struct prom_caps caps = prom_caps_default();
    struct prom_result r;
    prom_result_init(&r);
    enum err_code rc = prom_result_parse(text->p, text->n, &caps, &r, e);
    assert_true(rc || (r.n_series == 300 && r.n_samples == 3000));
    prom_result_fini(&r);
    return rc;
}

/* The same result and parser again and again, as a query that is repeated has it; fed in pieces. */
struct kept {
    struct buf text;
    struct prom_parser *parser;
    struct prom_result result;
};

static enum err_code parse_again(void *ctx, struct err *e)
{
    struct kept *k = ctx;
    struct prom_caps caps = prom_caps_default();
    enum err_code rc = ERR_OK;
    prom_parser_begin(k->parser, &caps, &k->result);
    for (size_t at = 0; at < k->text.n && !rc; at += 100)
        rc = prom_parser_feed(k->parser, k->text.p + at, k->text.n - at < 100 ? k->text.n - at : 100, e);
    if (rc) { /* and stays so */
        assert_int_equal(prom_parser_feed(k->parser, " ", 1, NULL), rc);
        assert_int_equal(prom_parser_end(k->parser, NULL), rc);
        return rc;
    }
    rc = prom_parser_end(k->parser, e);
    assert_true(rc || k->result.n_series == 300);
    return rc;
}

TEST(whichever_allocation_of_an_answer_fails_it_is_told_and_the_next_answer_is_read)
{
    struct kept k = {.text = matrix()};
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, parse, &k.text) >= 10);
    k.parser = prom_parser_new();
    prom_result_init(&k.result);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, parse_again, &k) >= 4);
    prom_parser_free(k.parser);
    prom_result_fini(&k.result);
    buf_fini(&k.text);
}
