/* import_rows.h - the options of import_table as a macro, for a table that has them and others.
 *
 * IMPORT_ROWS(S, M) are rows of a struct S whose member M is a struct import_cfg; the table's `check` calls
 * import_check(). */
#ifndef HISTORY_IMPORT_ROWS_H
#define HISTORY_IMPORT_ROWS_H

#include "base/opt.h"
#include "history/import.h"

extern const char *const import_stamps[], *const import_combines[], *const import_times[], *const import_delimiters[],
    *const import_headers[], *const import_measures[];

#define IMPORT_FIELD_ROW(S, M, id, text)                                                           \
    OPT_STRING(S, M.field[FIELD_##id], text, NULL,                                                 \
               "csv: column or sum of columns (a+b); prometheus: series selector",                 \
               .metavar = "WHAT")
#define IMPORT_ROWS(S, M) \
    IMPORT_FIELD_ROW(S, M, QPS, "qps"), \
    IMPORT_FIELD_ROW(S, M, GPU_UTIL, "gpu_util"), \
    IMPORT_FIELD_ROW(S, M, GPU_MEM_UTIL, "gpu_mem_util"), \
    IMPORT_FIELD_ROW(S, M, CPU_UTIL, "cpu_util"), \
    IMPORT_FIELD_ROW(S, M, MEM_UTIL, "mem_util"), \
    IMPORT_FIELD_ROW(S, M, P50_LATENCY_MS, "p50_latency_ms"), \
    IMPORT_FIELD_ROW(S, M, P99_LATENCY_MS, "p99_latency_ms"), \
    IMPORT_FIELD_ROW(S, M, QUEUE_LEN, "queue_len"), \
    IMPORT_FIELD_ROW(S, M, UNITS_READY, "units_ready"), \
    IMPORT_FIELD_ROW(S, M, UNITS_TOTAL, "units_total"), \
    OPT_STRING(S, M.workload, "workload", NULL, \
               "id of the workload; the first file's name without it", .metavar = "ID"), \
    OPT_STRING(S, M.task_type, "task_type", "service", "type of the workload"), \
    OPT_STRING(S, M.zone, "zone", "UTC", "IANA zone of local times and of calendar features"), \
    OPT_DURATION(S, M.step_us, "step", "0s", "0s", "366d", "time between samples; 0s detects it"), \
    OPT_ENUM(S, M.stamp, "stamp", "start", import_stamps, "which end of its step a time marks"), \
    OPT_DURATION(S, M.zero_gap_us, "zero_gap", "0s", "0s", "366d", \
                 "zeros of a load in runs at least this long are gaps; 0s keeps them"), \
    OPT_STRINGS(S, M.scale, "scale", NULL, "multiply a field: gpu_util=0.01", .metavar = "FIELD=K"), \
    OPT_STRINGS(S, M.offset, "offset", NULL, "add to a field, after scale: cpu_util=-0.1", \
                .metavar = "FIELD=K"), \
    OPT_STRINGS(S, M.per_step, "per_step", NULL, \
                "fields that are counts per step: they become rates per second", \
                .metavar = "FIELD"), \
    OPT_STRINGS(S, M.counter, "counter", NULL, \
                "fields that only grow: they become rates, resets handled", .metavar = "FIELD"), \
    OPT_STRINGS(S, M.missing, "missing", NULL, \
                "texts that stand for a missing value, besides empty, NA, null, -", \
                .metavar = "TEXT"), \
    OPT_ENUM(S, M.combine, "combine", "auto", import_combines, \
             "several values of a field in one step: auto keeps the last row and refuses several " \
             "series"), \
    OPT_DOUBLE(S, M.max_bad_frac, "max_bad", "0.05", "0", "1", \
               "fail when more than this share is wrong"), \
    OPT_BYTES(S, M.max_bytes, "max_bytes", "16GiB", "1B", "1024GiB", \
              "most bytes of one file, decompressed"), \
    OPT_STRING(S, M.time, "time", NULL, "csv: column of the times, by name or number from 1", \
               .metavar = "COLUMN"), \
    OPT_ENUM(S, M.time_format, "time_format", "auto", import_times, \
             "csv: epoch s, ms, us, ns; rfc3339; local (in zone); row: row number times step"), \
    OPT_STRING(S, M.start, "start", NULL, "csv: time of the first row where time_format is row", \
               .metavar = "TIME"), \
    OPT_ENUM(S, M.delimiter, "delimiter", "auto", import_delimiters, "csv: between columns"), \
    OPT_ENUM(S, M.header, "header", "auto", import_headers, \
             "csv: whether the first row names the columns"), \
    OPT_STRING(S, M.metric, "metric", NULL, \
               "csv, long form: column that says what a row measures; field options give its text", \
               .metavar = "COLUMN"), \
    OPT_STRING(S, M.value, "value", NULL, "csv, long form: column of the values", \
               .metavar = "COLUMN"), \
    OPT_STRING(S, M.series, "series", NULL, "csv: column that tells pods apart; see combine", \
               .metavar = "COLUMN"), \
    OPT_STRINGS(S, M.where, "where", NULL, "csv: keep only rows with this text in a column", \
                .metavar = "COLUMN=TEXT"), \
    OPT_BOOL(S, M.events, "events", "false", \
             "csv: each row is one arrival; qps names its weight, if any"), \
    OPT_BOOL(S, M.undo_time_scale, "undo_time_scale", "false", \
             "genai: divide time by 0.95, 57 s become 1 min"), \
    OPT_BOOL(S, M.api_requests, "api_requests", "false", "genai: count API requests too"), \
    OPT_BYTES(S, M.gpu_memory_bytes, "gpu_memory", "0B", "0B", "1024GiB", \
              "genai: memory of one GPU; without it gpu_mem_util is left out"), \
    OPT_ENUM(S, M.measure, "measure", "requests", import_measures, "azure-llm: what qps counts")

#endif
