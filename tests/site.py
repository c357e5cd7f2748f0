"""A lab with guardctl set up in it as a site would: a policy, an agent per node, a monitor, and a user who trains."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guardctl.ledger.store import Ledger
from guardctl.words import policy as policies
from guardctl.words.policy import Policy
from guardctl.words.policy_text import render
from guardctl.words.records import Event, Standing, State
from tests.lab import Lab

COMMAND = Path(sys.executable).parent / "guardctl"
# A lab lives in seconds what a cluster lives in hours: short windows, small matrices, and a budget for a few nodes. All
# its nodes share two cores, so that equal pairs differ by a quarter from run to run; on real links it is some percent.
QUICK: dict[str, dict[str, Any]] = {
    "observe": {"period_s": 2.0},
    "judge": {"window_s": 8.0, "windows": 3, "windows_slow": 3, "slow_fraction": 0.25},
    "act": {"mode": "act", "max_out": 4, "max_out_percent": 50.0},
    "quarantine": {"probation_s": 20.0, "suspect_s": 60.0},
    "sweep": {"seconds": 5.0, "pair_seconds": 4.0, "size": 384, "pair_bytes": 2**22,
              "min_ratio": 0.8, "pair_min_ratio": 0.5, "time_limit_s": 180.0},
}  # fmt: skip


class Site:
    """guardctl on a lab. `policy` is what its policy file says; commands run as the operator on the host."""

    def __init__(
        self, lab: Lab, changes: dict[str, dict[str, Any]] | None = None, look: dict[str, str] | None = None
    ) -> None:
        self.lab = lab
        self.look = look or {}  # how commands print: COLUMNS, FORCE_COLOR
        self.config = lab.path / "guardctl.toml"
        self.guardctl("init", "--output", self.config, "--state-dir", lab.state, config=False)
        self.policy = self._adjusted(changes or {})
        self.config.write_text(render(self.policy), encoding="utf-8")
        self._daemons: dict[str, subprocess.Popen[str]] = {}

    def _adjusted(self, changes: dict[str, dict[str, Any]]) -> Policy:
        policy = policies.load(self.config)
        wanted = policy.model_dump()
        wanted["kill_switch"] = self.lab.path / "stop"
        for part in (QUICK, changes):
            for section, keys in part.items():
                wanted[section].update(keys)
        return Policy.model_validate(wanted)

    # ---- commands ----

    def argv(self, *words: str | Path, config: bool = True) -> list[str | Path]:
        """The command line of a guardctl command."""
        options: list[str | Path] = ["--config", self.config] if config else []
        return [COMMAND, *options, *words]

    def guardctl(
        self, *words: str | Path, config: bool = True, codes: Sequence[int] = (0,), timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; an exit code that is not in `codes` is an error with what it said."""
        done = self.lab.run(self.argv(*words, config=config), check=False, timeout=timeout, env=self.look)
        if done.returncode not in codes:
            said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            raise AssertionError(f"guardctl {' '.join(map(str, words))} exited {done.returncode}:\n{said}")
        return done

    def tick(self) -> dict[str, Any]:
        """One tick of the monitor, as its JSON."""
        done = self.guardctl("monitor", "--once", "--json", codes=(0, 1, 2))
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    # ---- daemons ----

    def start_agents(self) -> None:
        """An agent on every node, and wait until each has written."""
        for node in self.lab.nodes:
            places = {
                "--cgroup": self.lab.node_cgroup(node),
                "--kmsg": self.lab.kmsg(node),
                "--sysfs": self.lab.sysfs(node),
            }
            words: list[str | Path] = [word for option, place in places.items() for word in (option, place)]
            argv = self.argv("agent", "--node", node, *words)
            self._daemons[node] = self.lab.spawn(argv, node=node, stdout=self.log(f"agent-{node}"))
        self.lab.wait(self._all_wrote, timeout_s=90, what="every agent to write telemetry")

    def _all_wrote(self) -> bool:
        return all(list((self.lab.state / "telemetry" / node).glob("*.jsonl")) for node in self.lab.nodes)

    def start_monitor(self, period_s: float = 2.0) -> None:
        """The monitor as a daemon."""
        argv = self.argv("monitor", "--period", str(period_s))
        self._daemons["monitor"] = self.lab.spawn(argv, stdout=self.log("monitor"))

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a daemon by a signal, and wait until it is gone."""
        child = self._daemons.pop(name)
        os.kill(child.pid, number)
        child.wait(timeout=30)

    def log(self, name: str) -> Path:
        """Where a daemon's words go."""
        return self.lab.path / "log" / f"{name}.log"

    # ---- what is known ----

    def standings(self) -> dict[str, Standing]:
        """What the ledger's events add up to now."""
        with Ledger.open(self.policy.ledger_url) as ledger:
            return ledger.standings(datetime.now(UTC))

    def events(self, node: str | None = None) -> list[Event]:
        """The ledger."""
        with Ledger.open(self.policy.ledger_url) as ledger:
            return ledger.events(node=node)

    def states(self, *nodes: str) -> list[State]:
        """The state of each of `nodes`."""
        standings = self.standings()
        return [standings.get(node, Standing(node)).state for node in nodes]

    # ---- a user's job ----

    def train(self, nodes: Sequence[str] | None = None, num_nodes: int | None = None, seconds: float = 600) -> str:
        """Submit the training program as the ordinary user, on exactly `nodes` or on any `num_nodes`; its job id."""
        where = [f"--nodelist={','.join(nodes)}"] if nodes else []
        count = len(nodes) if nodes else num_nodes
        done = self.lab.run(
            ["sbatch", "--parsable", "--chdir", self.lab.path / "home", f"--nodes={count}", *where,
             self.lab.src / "tests" / "training" / "train.sbatch", "--seconds", str(seconds)],
            user=self.lab.user,
            env={"GUARDCTL_PYTHON": str(self.lab.python), "GUARDCTL_CHECKOUT": str(self.lab.src)},
        )  # fmt: skip
        return done.stdout.strip().split(";")[0]

    def end_job(self, job: str) -> None:
        """What a user does at his checkpoint: the program saves and ends."""
        self.lab.run(["scancel", "--signal=USR1", job], user=self.lab.user)

    def running(self, job: str) -> bool:
        """Whether the job still holds nodes."""
        return bool(self.lab.run(["squeue", "--noheader", "--jobs", job], check=False).stdout.strip())

    def step_times(self, job: str, since: datetime | None = None) -> list[float]:
        """Wall time in s of each step of rank 0 that began after `since`, as the step timer wrote it."""
        path = self.lab.state / "steps" / job / "rank0.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}") and '"step_s"' in line]
        return [row["step_s"] for row in rows if since is None or _when(row) > since]


def _when(row: dict[str, Any]) -> datetime:
    at = row["at"]
    return datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.fromisoformat(at)
