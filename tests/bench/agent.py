"""The agent on a node with eight GPUs: the real one, on the lab's NVML library."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.processes import Cost, costs

NODE = "n1"
NUM_GPUS = 8
PASSES = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path
from guardctl.judge import checks
from guardctl.observe import agent, kernel_log, spool
from guardctl.observe.identity import boot_id
from guardctl.observe.nvml import NvmlChild
from guardctl.words.policy import Policy

def rss_mib(pid):
    words = Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("VmRSS:") + 1]) / 1024

folder, passes = Path(sys.argv[1]), int(sys.argv[2])
observe = {"run_dir": folder / "run", "kmsg": folder / "kmsg", "sysfs": folder / "sys"}
policy = Policy.model_validate({"state_dir": folder / "state", "observe": observe})
with NvmlChild(policy.observe.nvml_deadline_s) as gpus:
    writer = spool.Spool(policy.state_dir, "n1", boot_id())
    probes = agent.Probes(policy, "n1", gpus, kernel_log.Tail(policy.observe.kmsg), writer, boot_id())
    for _ in range(passes):
        agent.one_pass(probes, lambda readings: checks.run(readings, policy), datetime.now(UTC))
    lines = [json.loads(line) for path in policy.state_dir.glob("telemetry/*/*") for line in path.open()]
    children = Path("/proc/self/task").glob("*/children")
    pids = ["self", *(pid for path in children for pid in path.read_text().split())]
    gpus_seen = len({line["device"] for line in lines if line.get("source") == "gpu"})
    print(json.dumps({"gpus": gpus_seen, "rss_mib": sum(map(rss_mib, pids))}))
"""


def measure(passes: int = 40, tries: int = 3) -> dict[str, Any]:
    """Processor ms per pass and resident memory, the driver's child and `tc` included; None without a C compiler."""
    if shutil.which("cc") is None:
        return {"cpu_ms_per_pass": None, "rss_mib": None}
    with tempfile.TemporaryDirectory(prefix="guardctl-bench-") as name:
        folder = Path(name)
        env = _gpus(folder)
        commands = [[sys.executable, "-c", PASSES, name, str(count)] for count in (1, 1 + passes)]
        once, often = costs(commands, tries, env)
    said = json.loads(often[-1].stdout)
    if said["gpus"] != NUM_GPUS:
        raise RuntimeError(f"the agent saw {said['gpus']} GPUs of {NUM_GPUS}")
    return {"cpu_ms_per_pass": round(1000 * (_least(often) - _least(once)) / passes, 1),
            "rss_mib": round(said["rss_mib"], 1)}  # fmt: skip


def _least(runs: list[Cost]) -> float:
    return min(each.cpu_s for each in runs)


def _gpus(folder: Path) -> dict[str, str]:
    """Eight GPUs for whoever loads the library with this environment, and an empty kernel log."""
    from tests.lab import gpus

    library, scenario = folder / "lib", folder / "nodes" / NODE
    for each in (library, scenario, folder / "sys"):
        each.mkdir(parents=True)
    (folder / "kmsg").touch()
    gpus.compile_library(library)
    gpus.write(scenario / "nvml", gpus.healthy("bench", NODE, NUM_GPUS))
    return {"LD_LIBRARY_PATH": str(library), "SLURMD_NODENAME": NODE}
