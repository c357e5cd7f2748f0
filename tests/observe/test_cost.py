"""What the parts that run everywhere cost in processor time; the least of some runs is ours, the rest the machine's."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guardctl.steptimer import StepTimer

pytestmark = pytest.mark.slow  # starts many processes

BIN = Path(sys.executable).parent
MAX_HOOK_S = 0.030  # over Python itself: it runs twice for every job on every node
MAX_HELP_S = 0.35
MAX_STEP_S = 100e-6
NUM_STEPS = 10_000


def script(name: str) -> str:
    """The installed script, as Slurm and people call it."""
    path = BIN / name
    if not path.exists():
        pytest.skip(f"{name} is not installed beside {sys.executable}: pip install -e .")
    return str(path)


def cpu_s(argv: list[str], **env: str) -> float:
    """User and system time of one child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env={**os.environ, **env}, capture_output=True, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_installed_hook_costs_little_more_than_python(tmp_path: Path) -> None:
    hook, env = script("guardctl-hook"), {"GUARDCTL_RUN": str(tmp_path), "SLURM_JOB_ID": "42"}
    runs = [(cpu_s([sys.executable, "-c", "pass"]), cpu_s([hook, "prolog"], **env)) for _ in range(7)]
    bare_s, hook_s = (min(times) for times in zip(*runs, strict=True))
    assert hook_s - bare_s <= MAX_HOOK_S


def test_help_is_quick() -> None:
    guardctl = script("guardctl")
    assert any(cpu_s([guardctl, "--help"]) < MAX_HELP_S for _ in range(15))  # often one; more beside a busy neighbour


def test_a_timed_step_costs_microseconds(tmp_path: Path) -> None:
    def run(number: int) -> float:
        with StepTimer(str(tmp_path), "7", number, "n1") as timer:
            began = time.process_time()
            for _ in range(NUM_STEPS):
                with timer.step(), timer.wait():
                    pass
            return (time.process_time() - began) / NUM_STEPS

    assert min(run(number) for number in range(3)) < MAX_STEP_S
