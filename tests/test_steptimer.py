"""The step timer as training code uses it, and what it leaves for the monitor to read."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from guardctl.observe import steps
from guardctl.steptimer import StepTimer


def lines(state: Path, rank: int = 0) -> list[dict[str, Any]]:
    text = (state / f"steps/7/rank{rank}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def spend(seconds: float) -> None:
    """Work for that long: a sleep would not show a timer that counts processor time."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_waiting_is_not_work(tmp_path: Path) -> None:
    with StepTimer(str(tmp_path), "7", 0, "n1") as timer, timer.step():
        spend(0.01)
        with timer.wait():
            spend(0.03)
    _, step = lines(tmp_path)
    assert step["step_s"] >= 0.04
    assert 0.01 <= step["busy_s"] <= step["step_s"] - 0.03 + 1e-5


def test_the_monitor_reads_what_it_wrote(tmp_path: Path) -> None:
    with StepTimer(str(tmp_path), "7", 3, "n2", gpu=1, stage=0) as timer:
        for tokens in (None, 4096):
            with timer.step(tokens=tokens):
                pass
        with timer.step(number=10):
            pass
    owners = {"7": steps.Owner(os.getuid(), frozenset({"n2"}))}
    table, warnings = steps.read(tmp_path, owners, datetime.now(UTC) - timedelta(hours=1), 2**20)
    assert warnings == []
    assert table["step"].tolist() == [10, 1, 0]
    assert set(zip(table["job_id"], table["rank"], table["node"], table["gpu"], table["stage"], strict=True)) == {
        ("7", 3, "n2", 1, 0)
    }
    assert table["tokens"].dropna().tolist() == [4096]


def test_who_it_is_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    given = {"GUARDCTL_STATE": str(tmp_path), "SLURM_JOB_ID": "7", "SLURM_PROCID": "5", "SLURM_LOCALID": "1",
             "SLURMD_NODENAME": "n3", "SLURM_STEP_GPUS": "4,6"}  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    StepTimer().close()
    (head,) = lines(tmp_path, rank=5)
    assert head == {"schema": "guardctl.steps/1", "job_id": "7", "rank": 5, "node": "n3", "gpu": 6, "stage": None}


def test_without_a_job_it_warns_once_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with StepTimer(str(tmp_path), rank=0) as timer:
        for _ in range(3):
            with timer.step(), timer.wait():
                pass
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_stops_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "steps").touch()
    with StepTimer(str(tmp_path), "7", 0) as timer, timer.step():
        pass
    assert "step times are not recorded" in capsys.readouterr().err


def test_a_disk_that_is_full_stops_no_training(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the write of the second flush fails."""
    code = f"""
import resource
from guardctl.steptimer import StepTimer
timer = StepTimer({str(tmp_path)!r}, "7", 0, "n1")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for _ in range(1000):
    with timer.step():
        pass
timer.close()
print("trained")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("step times are not recorded") == 1


def test_the_monitor_may_look_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        StepTimer(str(tmp_path), "7", 0, "n1").close()
    finally:
        os.umask(before)
    folder = tmp_path / "steps/7"
    assert (folder.stat().st_mode & 0o777, (folder / "rank0.jsonl").stat().st_mode & 0o777) == (0o755, 0o644)


def test_a_requeued_job_starts_a_new_file_where_the_rank_moved(tmp_path: Path) -> None:
    for node in ("n1", "n1", "n2"):
        with StepTimer(str(tmp_path), "7", 0, node) as timer, timer.step():
            pass
    assert [row.get("node", row.get("step")) for row in lines(tmp_path)] == ["n2", 0]
    assert len(list((tmp_path / "steps/7").iterdir())) == 2


def test_a_step_that_fails_is_not_recorded(tmp_path: Path) -> None:
    timer = StepTimer(str(tmp_path), "7", 0, "n1")
    with pytest.raises(ZeroDivisionError), timer.step():
        raise ZeroDivisionError
    with timer.step():
        pass
    timer.close()
    timer.close()
    assert [row.get("step") for row in lines(tmp_path)[1:]] == [0]


def test_a_step_costs_few_calls_and_no_system_call_of_its_own(tmp_path: Path) -> None:
    timer = StepTimer(str(tmp_path), "7", 0, "n1")
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        calls[event] += 1
        calls[getattr(argument, "__name__", "") if event == "c_call" else frame.f_code.co_name] += 1

    num_steps = 200  # below what is buffered; the time limit may flush a few times on a machine that is busy
    sys.setprofile(count)
    try:
        for _ in range(num_steps):
            with timer.step(), timer.wait():
                pass
    finally:
        sys.setprofile(None)
    assert (calls["call"] + calls["c_call"]) / num_steps < 30
    assert calls["write"] + calls["flush"] < num_steps / 10
    timer.close()


def test_it_brings_no_other_room_along() -> None:
    code = "import sys, guardctl.steptimer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert not {"torch", "numpy", "pandas", "pydantic", "guardctl.words", "guardctl.observe"} & set(loaded.split())
