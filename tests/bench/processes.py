"""What child processes cost, with everything that they start and leave behind.

Run as a program of its own, it adopts orphans (PR_SET_CHILD_SUBREAPER) and waits for them, so that a hook's forked
half or an agent's driver child is counted, too; the caller's own children are left alone.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time and time on the wall of one run of a command, in s, and what it printed."""

    cpu_s: float
    wall_s: float
    stdout: str


def costs(commands: Sequence[Sequence[str]], runs: int, env: Mapping[str, str] | None = None) -> list[list[Cost]]:
    """For each command its costs in `runs` runs; the commands take turns, so that a busy spell meets them alike."""
    order = json.dumps({"commands": [list(argv) for argv in commands], "runs": runs})
    argv = [sys.executable, "-P", __file__]
    done = subprocess.run(argv, input=order, capture_output=True, text=True, check=True, timeout=600,
                          env={**os.environ, **(env or {})})  # fmt: skip
    return [[Cost(*each) for each in found] for found in json.loads(done.stdout)]


def _run(argv: Sequence[str]) -> tuple[float, float, str]:
    before, began = _children_s(), time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    wall_s = time.perf_counter() - began
    while _reaped_one():
        pass
    return _children_s() - before, wall_s, done.stdout


def _reaped_one() -> bool:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return False
    return True


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Runs what stdin asks for and prints the costs."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    order = json.load(sys.stdin)
    found: list[list[tuple[float, float, str]]] = [[] for _ in order["commands"]]
    for _ in range(order["runs"]):
        for argv, one in zip(order["commands"], found, strict=True):
            one.append(_run(argv))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
