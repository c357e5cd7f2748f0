"""Takes a lab away completely, also one whose owner is dead or whose start was cut short.

As a program (`python -m tests.lab.teardown NAME NUMBER`) it is the lab's reaper: it waits for the end of its standard
input, which comes when the owner ends for whatever reason, and then takes the lab away.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab import cgroups, layout, network
from tests.lab.errors import LabError
from tests.lab.layout import Layout


def tree_of(name: str) -> Path:
    """The lab's cgroup."""
    controller = cgroups.find()
    if controller is None:
        raise LabError("no cgroup cpu controller")
    return controller.root / f"{layout.PREFIX}{name}"


def claim(plan: Layout) -> None:
    """Makes the lab's folder. LabError if a lab of this name runs; what a dead one left is cleared away."""
    if plan.path.exists() and _dead(plan):
        _clear(plan.name)
    try:
        plan.path.mkdir(mode=0o755)
    except FileExistsError as error:
        raise LabError(f"lab {plan.name!r} runs already: python -m tests.lab down --name {plan.name}") from error
    plan.save()


def _dead(plan: Layout) -> bool:
    """A lab without its bridge is dead. So is one whose number was given to the new lab."""
    try:
        old = layout.load(plan.path)
    except FileNotFoundError:
        return False
    return old.number == plan.number or not Path("/sys/class/net", old.bridge).exists()


def _clear(name: str) -> None:
    tree = tree_of(name)
    if tree.exists():
        cgroups.remove(tree)
    _remove_folder(layout.folder(name))


def teardown(name: str, number: int) -> None:
    """Ends every process of the lab, then removes cgroups, files, cables and, last, the bridge."""
    _clear(name)
    network.remove(number)


def _remove_folder(path: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    if f" {path}/" in mounts:  # would delete through the mount
        raise LabError(f"{path}: something is mounted below it; unmount it first")
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


class Reaper:
    """The process that outlives its owner and takes the lab away. The pipe to it is the owner's sign of life."""

    def __init__(self, plan: Layout) -> None:
        argv = [sys.executable, "-m", "tests.lab.teardown", plan.name, str(plan.number)]
        self._process = subprocess.Popen(
            argv, cwd=Path(__file__).resolve().parents[2], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def finish(self) -> None:
        """Lets the reaper do its work now and waits for it; the second time there is nothing to do."""
        if self._process.returncode is not None:
            return
        _, words = self._process.communicate(timeout=120)
        if self._process.returncode != 0:
            raise LabError(f"the lab was not taken away completely: {words.strip()}")


def main() -> int:
    """The reaper: waits for the end of its input, then takes the lab away."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, name, number_text = sys.argv
    sys.stdin.read()
    teardown(name, int(number_text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
