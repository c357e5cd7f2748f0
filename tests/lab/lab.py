"""The lab as an object: start it, run commands in it, break it, heal it, take it away."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab import build, cgroups, devices, faults, gpus, layout, needs, network, spaces, teardown
from tests.lab.errors import LabError
from tests.lab.layout import Layout

USER = "nobody"
START_TIMEOUT_S = 60.0


class Lab:
    """A running cluster. Nodes are named n1, n2, ..., as in every other lab on this machine."""

    def __init__(self, plan: Layout, reaper: teardown.Reaper | None = None) -> None:
        self.layout = plan
        self.name = plan.name
        self.path = plan.path
        self.nodes = plan.nodes
        self.user = USER
        self.state = plan.path / "state"
        self.src = plan.path / "src"
        self.venv = plan.path / "venv"
        self.python = build.python_of(plan)
        self.env = build.operator_env(plan)
        self._tree = teardown.tree_of(plan.name)
        self._reaper = reaper
        self._children: list[subprocess.Popen[str]] = []

    @classmethod
    def start(
        cls,
        nodes: int = 8,
        gpus: int = 2,
        name: str | None = None,
        *,
        switches: int = 0,
        hooks: Path | None = None,
        stays: bool = False,
    ) -> Self:
        """Starts a lab and returns when every node is idle.

        `hooks`: a folder with prolog.sh, epilog.sh, health.sh and hook.py instead of the checkout's own.
        `stays`: the lab stays when this process ends. Else a reaper takes it away, also after a kill -9.
        """
        if (reason := needs.missing()) is not None:
            raise LabError(reason)
        scripts = build.hook_files(hooks)
        number = network.claim_number()
        plan = build.plan(name or f"lab{number}", number, nodes, gpus, switches)
        try:
            teardown.claim(plan)
        except LabError:
            network.remove(number)
            raise
        lab = cls(plan, None if stays else teardown.Reaper(plan))
        try:
            lab._boot(scripts)
        except BaseException:
            lab.stop()
            raise
        return lab

    @classmethod
    def attach(cls, name: str) -> Self:
        """A lab that somebody else started and that stays."""
        try:
            return cls(layout.load(layout.folder(name)))
        except FileNotFoundError as error:
            names = ", ".join(plan.name for plan in layout.running()) or "none"
            raise LabError(f"no lab {name!r} runs here (running: {names})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Takes the lab away: processes, namespaces, cables, cgroups, files."""
        if self._reaper is None:
            teardown.teardown(self.name, self.layout.number)
        else:
            self._reaper.finish()
        for child in self._children:
            child.wait(timeout=10)
        self._children.clear()

    def _boot(self, scripts: Sequence[Path]) -> None:
        build.folders(self.layout)
        build.files(self.layout, scripts)
        network.raise_bridge(self.layout)
        self._make_groups()
        self.start_munge()
        self._hold_spaces()
        for node in self.nodes:
            self._apply(node)
        self._start_slurmctld("-c")
        for node in self.nodes:
            self._start_slurmd(node, "-c")
        self.wait(self._all_idle, timeout_s=START_TIMEOUT_S, what="every node to be idle")

    def _make_groups(self) -> None:
        controller = cgroups.find()
        if controller is None:
            raise LabError("no cgroup cpu controller")
        cgroups.create(controller, self._tree, self.layout.groups)

    def _hold_spaces(self) -> None:
        group, log = self._tree / "login", self.path / "log/spaces.log"
        lines = [spaces.login_argv(self.layout, group)]
        lines += [spaces.node_argv(self.layout, node, group) for node in self.nodes]
        self._children += [spaces.start(line, log, {"PATH": needs.PATH}) for line in lines]
        folders = [self.path / "login", *map(self.layout.node, self.nodes)]
        self.wait(lambda: all(map(spaces.holder_pid, folders)), timeout_s=30, what="the nodes' namespaces")
        network.plug_in(self.layout, {node: self._holder(node) for node in self.nodes})

    def _holder(self, node: str | None) -> int:
        pid = spaces.holder_pid(self.path / "login" if node is None else self._folder(node))
        if pid is None:
            raise LabError(f"lab {self.name}: the namespaces of {node or 'the operator'} are not ready")
        return pid

    def _folder(self, node: str) -> Path:
        if node not in self.nodes:
            raise LabError(f"no node {node!r} in lab {self.name}: it has n1 to n{len(self.nodes)}")
        return self.layout.node(node)

    def _all_idle(self) -> bool:
        for child in self._children:
            if child.poll() is not None:
                raise LabError(f"a daemon of lab {self.name} ended at its start:\n{build.last_words(self.layout)}")
        done = self.run(["sinfo", "-h", "-N", "-o", "%T"], check=False)
        return done.stdout.split() == ["idle"] * len(self.nodes)

    # ---- daemons ----

    def _daemon(self, group: str, *argv: str, node: str | None = None, log: str) -> None:
        if node is not None:
            argv = tuple(spaces.enter_node(self._holder(node), Path("/"), *argv, network=True))
        line = spaces.enter_group(self._tree / group, *argv)
        env = {"PATH": needs.PATH, "SLURM_CONF": self.env["SLURM_CONF"], "LANG": "C.UTF-8"}
        self._children.append(spaces.start(line, self.path / "log" / log, env))

    def start_munge(self) -> None:
        """Starts the lab's own munged and waits for its socket."""
        munge = self.path / "munge"
        (munge / "socket").unlink(missing_ok=True)  # of a munged that was killed
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{name}={munge / file}" for name, file in files.items()]
        self._daemon("munge", "munged", "--foreground", "--num-threads=10", *options, log="munged.out")
        self.wait((munge / "socket").exists, timeout_s=10, what="munged")

    def stop_munge(self) -> None:
        """No credential can be made or checked until it is started again."""
        cgroups.stop(self._tree / "munge", signal.SIGTERM)

    def _start_slurmctld(self, *options: str) -> None:
        self._daemon("control", "slurmctld", "-D", *options, log="slurmctld.out")

    def start_controller(self) -> None:
        """Starts slurmctld with the state that it saved, and waits until it answers."""
        self._start_slurmctld()
        self.wait(self._answers, timeout_s=30, what="slurmctld to answer")

    def _answers(self) -> bool:
        return " is UP" in self.run(["scontrol", "ping"], check=False).stdout

    def stop_controller(self) -> None:
        """Stops slurmctld; nodes and jobs go on."""
        cgroups.stop(self._tree / "control", signal.SIGTERM)

    def _start_slurmd(self, node: str, *options: str) -> None:
        self._daemon(node, "slurmd", "-D", "-N", node, *options, node=node, log=f"slurmd-{node}.out")

    def kill_node(self, node: str) -> None:
        """Kills the node's slurmd and jobs at once, as a crash does."""
        cgroups.stop(self.node_cgroup(node))

    def revive_node(self, node: str) -> None:
        """Starts the node's slurmd again, as after a boot."""
        self._start_slurmd(node, "-c")

    # ---- commands ----

    def argv(self, argv: Sequence[str | Path], node: str | None = None, user: str | None = None) -> list[str]:
        """The command line that runs `argv` there: in the lab's cgroup, in the node's namespaces, as that user."""
        inner = spaces.as_user(user, *map(str, argv))
        inside = spaces.enter_node(self._holder(node), self.path / "home", *inner, network=node is not None)
        return spaces.enter_group(self._tree / "login", *inside)

    def run(
        self,
        argv: Sequence[str | Path],
        user: str | None = None,
        node: str | None = None,
        *,
        check: bool = True,
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command: as the operator on the host, or as `user`, or on `node`. `env` adds to the lab's."""
        done = subprocess.run(
            self.argv(argv, node, user), capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL, env={**self.env, **(env or {})},
        )  # fmt: skip
        if check and done.returncode != 0:
            words = (done.stderr or done.stdout).strip()
            raise LabError(f"{' '.join(map(str, argv))} on {node or 'host'} exited {done.returncode}: {words}")
        return done

    def spawn(
        self,
        argv: Sequence[str | Path],
        node: str | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stdout: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Starts a command that goes on, outside the node's quota. What it prints goes to the file `stdout`."""
        output = stdout or Path(os.devnull)
        child = spaces.start(self.argv(argv, node, user), output, {**self.env, **(env or {})})
        self._children.append(child)
        return child

    def wait(self, condition: Callable[[], object], timeout_s: float = 30, what: str = "the condition") -> None:
        """Polls until the condition holds. Raises LabError that names `what` was waited for."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"lab {self.name}: waited {timeout_s:g} s for {what}")
            time.sleep(0.05)

    # ---- faults ----

    def fault(self, node: str, fault: str) -> None:
        """Adds a fault to the node: see `faults.HELP`."""
        parsed = faults.parse(fault, self.layout.num_gpus)
        if isinstance(parsed, faults.Xid):
            devices.log_xid(self.kmsg(node), parsed.number, parsed.gpu)
            return
        before = self.faults(node)
        try:
            self._set_faults(node, [*before, fault])
        except LabError:
            self._set_faults(node, before)
            raise

    def heal(self, node: str) -> None:
        """Takes all faults from the node."""
        self._set_faults(node, [])

    def faults(self, node: str) -> list[str]:
        """The faults that the node has."""
        return (self._folder(node) / "faults").read_text().splitlines()

    def _set_faults(self, node: str, words: list[str]) -> None:
        (self._folder(node) / "faults").write_text("".join(f"{word}\n" for word in words))
        self._apply(node)

    def _apply(self, node: str) -> None:
        now = faults.condition(self.faults(node), self.layout.num_gpus)
        network.set_rate(self.layout, node, self._holder(node), now.rate)
        cgroups.set_share(self.node_cgroup(node), self.layout.share, now.speed)
        scenario = gpus.healthy(self.name, node, self.layout.num_gpus) | now.gpu_lines
        gpus.write(self._folder(node) / "nvml", scenario)

    # ---- places ----

    def node_cgroup(self, node: str) -> Path:
        """The node's quota group, with its cpu.stat."""
        return self._tree / node

    def kmsg(self, node: str) -> Path:
        """The node's kernel log."""
        return self._folder(node) / "kmsg"

    def sysfs(self, node: str) -> Path:
        """The node's sysfs tree."""
        return self._folder(node) / "sys"
