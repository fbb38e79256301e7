/* gpus.c - `sluice gpus`: the GPUs of this machine through NVML, for people or for node_exporter's textfile
 * collector. */
#include <math.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "collect/nvml.h"
#include "prom/text.h"
#include "report/table.h"

struct gpus_opts {
    char *library;
    bool exposition;
};
#define O struct gpus_opts
static const struct opt_row rows[] = {
    OPT_STRING(O, library, "library", "libnvidia-ml.so.1", "NVML, as it comes with the driver",
               .metavar = "FILE"),
    OPT_BOOL(O, exposition, "exposition", "false",
             "write Prometheus' text format under DCGM's names, e.g. for node_exporter's textfile "
             "collector"),
};
#undef O
static const struct opt_table table =
    OPT_TABLE("gpus", struct gpus_opts, rows, "The GPUs of this machine.");

static void write_table(const struct cli_ctx *c, const struct nvml_gpu *g, int n, struct buf *out)
{
    static const struct table_column columns[] = {{"gpu", NULL, 0},
                                                  {"uuid", NULL, 0},
                                                  {"name", NULL, 0},
                                                  {"gpu_util", "use", 2},
                                                  {"gpu_mem_util", "memory use", 2},
                                                  {"mem_total_gib", "memory GiB", 1},
                                                  {"power_w", "power W", 0},
                                                  {"temperature_c", "temperature C", 0}};
    struct table *t = table_new(columns, ARRAY_LEN(columns));
    for (int i = 0; i < n; i++) {
        table_num(t, i);
        table_text(t, g[i].uuid);
        table_text(t, g[i].name);
        table_num(t, g[i].gpu_util);
        table_num(t, g[i].gpu_mem_util);
        table_num(t, g[i].mem_total_bytes / 0x1p30);
        table_num(t, g[i].power_w);
        table_num(t, g[i].temperature_c);
    }
    table_format(t, c->format, cli_colour(c), out);
    table_free(t);
}

/* One family: value(g) of every card that has it. */
static void write_family(struct prom_writer *w, const char *name, const char *help,
                         const struct nvml_gpu *g, int n, double (*value)(const struct nvml_gpu *g))
{
    prom_family(w, name, PROM_GAUGE, help);
    for (int i = 0; i < n; i++) {
        char index[16];
        (void)snprintf(index, sizeof index, "%d", i);
        if (!isnan(value(&g[i])))
            prom_put(w, value(&g[i]), "gpu", index, "UUID", g[i].uuid, "modelName", g[i].name,
                     NULL);
    }
}

static double use_percent(const struct nvml_gpu *g)
{
    return 100 * g->gpu_util;
}

static double used_mib(const struct nvml_gpu *g)
{
    return g->mem_used_bytes / 0x1p20;
}

static double free_mib(const struct nvml_gpu *g)
{
    return (g->mem_total_bytes - g->mem_used_bytes) / 0x1p20;
}

static double power_w(const struct nvml_gpu *g)
{
    return g->power_w;
}

static double temperature_c(const struct nvml_gpu *g)
{
    return g->temperature_c;
}

static void write_exposition(const struct nvml_gpu *g, int n, struct buf *out)
{
    struct prom_writer w = prom_writer_init(out);
    write_family(&w, "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", g, n, use_percent);
    write_family(&w, "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", g, n, used_mib);
    write_family(&w, "DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", g, n, free_mib);
    write_family(&w, "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", g, n, power_w);
    write_family(&w, "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", g, n, temperature_c);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct gpus_opts *o = c->opts;
    struct nvml_gpu *gpus = mem_zero(NVML_GPUS_MAX, sizeof *gpus);
    struct buf out = buf_init(CLI_TEXT_MAX);
    struct nvml *nvml = NULL;
    int n = 0;
    enum err_code rc = o->exposition && c->format_given
                           ? err_set(e, ERR_USAGE, "either --exposition or --format")
                           : nvml_open(o->library, &nvml, e);
    if (!rc)
        rc = nvml_read(nvml, gpus, NVML_GPUS_MAX, &n, e);
    nvml_close(nvml);
    if (!rc && o->exposition)
        write_exposition(gpus, n, &out);
    else if (!rc)
        write_table(c, gpus, n, &out);
    mem_free(gpus);
    if (rc) {
        buf_fini(&out);
        return rc;
    }
    return cli_finish(c, &out, e);
}

const struct cli_cmd cmd_gpus = {
    .name = "gpus",
    .summary = "the GPUs of this machine, through NVML",
    .help = "What a card does not support is left out.  With --exposition and a timer this feeds\n"
            "node_exporter where DCGM does not run:\n\n  sluice gpus --exposition -o /var/lib/node_exporter/gpus.prom\n",
    .opts = &table,
    .run = run,
};
