// The action's entry: GitHub calls it when its step begins, and again after a failure of the job.
const { spawnSync } = require("node:child_process");
const { join } = require("node:path");

const verb = process.env.STATE_started ? "transcript" : "start";
const done = spawnSync("bash", [join(__dirname, "action.sh"), verb], { stdio: "inherit" });
process.exit(done.status ?? 1);
