"""The prolog, which runs before every job on every node, and `guardctl --help`, which everybody waits for."""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from guardctl.observe import verdict_file
from guardctl.observe.identity import boot_id
from guardctl.words.policy import Policy
from tests.bench.processes import costs

HOOK = Path(__file__).resolve().parents[2] / "guardctl" / "hook.py"
SYSTEM_PYTHON = Path("/usr/bin/python3")  # what slurm/prolog.sh runs it with


def hook(runs: int = 200) -> dict[str, Any]:
    """The prolog on a healthy node, as slurm/prolog.sh calls it; CPU is what it costs over a bare Python."""
    python = str(SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else sys.executable)
    with tempfile.TemporaryDirectory(prefix="guardctl-bench-") as folder:
        _verdict(Path(folder))
        env = {"GUARDCTL_RUN": folder, "GUARDCTL_STOP": f"{folder}/stop", "SLURM_JOB_ID": "1"}
        bare, prolog = costs([[python, "-I", "-S", "-c", "pass"], [python, "-I", "-S", str(HOOK), "prolog"]], runs, env)
    over_s = median(each.cpu_s for each in prolog) - median(each.cpu_s for each in bare)
    wall_s = median(each.wall_s for each in prolog)
    return {"prolog_cpu_ms_over_python": round(1000 * over_s, 2), "prolog_wall_ms_p50": round(1000 * wall_s, 2),
            "runs": runs}  # fmt: skip


def _verdict(folder: Path) -> None:
    now = datetime.now(UTC)
    said = verdict_file.document("n1", boot_id(), (), None, Policy(), now)
    verdict_file.replace(folder / "verdict.json", said)


def cli_help(runs: int = 5) -> dict[str, Any]:
    """`guardctl --help`."""
    (found,) = costs([[str(Path(sys.executable).parent / "guardctl"), "--help"]], runs)
    return {"cpu_s": round(min(each.cpu_s for each in found), 3)}
