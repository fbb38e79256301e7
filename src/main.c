#include "base/build.h"
#include "base/mem.h"
#include "cli/commands.h"

int main(int argc, char **argv)
{
    const struct cli_cmd cmds[] = {
        cmd_demo,  cmd_import,   cmd_inspect, cmd_forecast, cmd_calibrate, cmd_simulate,
        cmd_tune,  cmd_train,    cmd_evaluate, cmd_explain, cmd_decisions, cmd_report, cmd_promote, cmd_config,
        cmd_run,      cmd_freeze, cmd_unfreeze, cmd_release, cmd_override, cmd_doctor, cmd_gpus, cmd_metrics,
    };
    const struct cli_app app = {
        .name = "sluice",
        .version = build_version(),
        .summary = "learns how much GPU capacity to run, and proves it on your own history",
        .cmds = cmds,
        .n_cmds = ARRAY_LEN(cmds),
        .settings = "config",
    };
    return cli_main(&app, argc, argv);
}
