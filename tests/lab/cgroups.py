"""Processor quotas and the certain end of every process of the lab, by cgroups (v1 and v2).

All processes of a lab live in one tree: `<controller>/guardctl-lab-<name>/{control,login,munge,n1,...}`. Only the
nodes have a quota. Killing the tree leaves no process behind, whatever it did with sessions and signals.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabError

MIN_PERIOD_US = 10_000  # short, so that a busy phase of 300 ms spans many periods and measures smoothly
MAX_PERIOD_US = 1_000_000  # the kernel's limit
HEALTHY_QUOTA_US = 4_000  # the kernel's least quota is 1,000: a node at a quarter of its speed is still possible
MOUNT_FIELDS = 4


@dataclass(frozen=True, slots=True)
class Controller:
    """Where the cpu controller is mounted, and which of its two interfaces it has."""

    root: Path
    version: int


def find() -> Controller | None:
    """The cpu controller of this machine, or None if it has none that root can write to."""
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    if unified.exists() and "cpu" in unified.read_text().split():
        return _writable(Controller(unified.parent, 2))
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options = line.split()[:MOUNT_FIELDS]
        if kind == "cgroup" and "cpu" in options.split(","):
            return _writable(Controller(Path(folder), 1))
    return None


def _writable(controller: Controller) -> Controller | None:
    return controller if os.access(controller.root, os.W_OK) else None


def create(controller: Controller, tree: Path, groups: tuple[str, ...]) -> None:
    """Makes the lab's tree with one leaf per group."""
    tree.mkdir()
    if controller.version == 2:
        (controller.root / "cgroup.subtree_control").write_text("+cpu")
        (tree / "cgroup.subtree_control").write_text("+cpu")
    # All else on this machine competes with the whole tree: by default a lab would get the weight of one process.
    weight, highest = ("cpu.weight", 10_000) if controller.version == 2 else ("cpu.shares", 262_144)
    (tree / weight).write_text(str(highest))
    for group in groups:
        (tree / group).mkdir()


def period_us(share: float) -> int:
    """Length of a quota period for a healthy node with this share of one processor."""
    return min(MAX_PERIOD_US, max(MIN_PERIOD_US, round(HEALTHY_QUOTA_US / share)))


def set_share(group: Path, share: float, factor: float) -> None:
    """Gives a node `factor` of its healthy `share` of one processor (0.2: a fifth of one core)."""
    period = period_us(share)
    quota = round(period * share * factor)
    if quota < 1_000:
        raise LabError(
            f"{group.name}: {factor:g} of {share:g} core is less than the kernel can give; use a larger factor"
        )
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota} {period}")
        return
    (group / "cpu.cfs_period_us").write_text(str(period))
    (group / "cpu.cfs_quota_us").write_text(str(quota))


def share_of(group: Path) -> float:
    """The share of one processor that the group may use now."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
    else:
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota) / int(period)


def pids(tree: Path) -> Iterator[int]:
    """Every process in the group and below it."""
    for path in sorted(tree.rglob("cgroup.procs")):
        try:
            yield from map(int, path.read_text().split())
        except OSError:  # the group went away as we looked
            continue


def stop(tree: Path, *signals: signal.Signals, timeout_s: float = 10.0) -> None:
    """Ends all processes of the group: the given signals first, 3 s each, then SIGKILL until none is left."""
    for number in signals:
        _send(tree, number)
        if _wait_empty(tree, 3.0):
            return
    deadline = time.monotonic() + timeout_s
    while not _wait_empty(tree, 0.02):
        if time.monotonic() > deadline:
            raise LabError(f"{tree}: processes {list(pids(tree))} survive SIGKILL")
        _send(tree, signal.SIGKILL)


def _send(tree: Path, number: signal.Signals) -> None:
    for pid in pids(tree):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _wait_empty(tree: Path, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while next(pids(tree), None) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def remove(tree: Path) -> None:
    """Ends what runs in the tree and removes it."""
    stop(tree)
    groups = sorted((path for path in tree.rglob("*") if path.is_dir()), reverse=True)
    for group in (*groups, tree):
        _rmdir(group)


def _rmdir(group: Path, tries: int = 200) -> None:
    """A group stays busy for some milliseconds after its last process has gone."""
    for left in reversed(range(tries)):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if not left:
                raise
            time.sleep(0.01)
        else:
            return
