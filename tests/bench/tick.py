"""One decision of the monitor: read the spool and the step files, judge, decide. Slurm and the ledger are left out."""

import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guardctl.act.decide import decide
from guardctl.monitor import conclude, look
from guardctl.words.records import Action, Verdict
from tests.bench import world

NODES = (64, 256, 1024)


def measure(nodes: Sequence[int] = NODES, tries: int = 2) -> dict[str, Any]:
    """Seconds of processor time by number of nodes."""
    return {"nodes": list(nodes), "seconds": [round(seconds(num_nodes, tries), 3) for num_nodes in nodes]}


def seconds(num_nodes: int, tries: int) -> float:
    """The least of some passes over the same files."""
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="guardctl-bench-") as folder:
        policy = world.policy(Path(folder))
        world.write_spool(policy, num_nodes, now)
        world.write_steps(policy, num_nodes, now)
        return min(one_pass(Path(folder), num_nodes, now)[0] for _ in range(tries))


def one_pass(folder: Path, num_nodes: int, now: datetime) -> tuple[float, list[Verdict], tuple[Action, ...]]:
    """Its seconds of processor time, and what it concluded."""
    policy, snapshot = world.policy(folder), world.snapshot(num_nodes, now)
    began = time.process_time()
    telemetry, steps = look(snapshot, {}, policy, now)
    _, _, verdicts = conclude(telemetry, steps, snapshot, {}, policy, now)
    actions = decide(verdicts, {}, snapshot, policy, now)
    return time.process_time() - began, verdicts, actions
