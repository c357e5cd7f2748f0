"""The small training, for real with two local ranks."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # starts many processes

PROGRAM = Path(__file__).with_name("train.py")


@pytest.fixture
def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(port: str, state: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "GUARDCTL"))}
    meet = {**kept, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "GUARDCTL_STATE": str(state),
            "PYTHONPATH": str(PROGRAM.parents[2])}  # fmt: skip
    argv = [sys.executable, str(PROGRAM), "--batch", "64", *arguments]
    return [
        subprocess.Popen(argv, env={**meet, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True) for rank in (0, 1)
    ]


def finish(ranks: list[subprocess.Popen[str]]) -> list[str]:
    texts = [rank.communicate(timeout=90)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    return texts


def losses(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"^step \d+ loss (\S+) step_s \d", text, re.MULTILINE)]


def ends(texts: list[str]) -> list[tuple[str, str]]:
    """Number of steps and hash of the weights, of each rank."""
    return [re.findall(r"rank \d: (\d+) steps, weights (\w+)", text)[0] for text in texts]


def test_the_loss_falls_and_all_ranks_hold_the_same_weights(tmp_path: Path, free_port: str) -> None:
    texts = finish(start(free_port, tmp_path, "--steps", "12"))
    found = losses(texts[0])
    assert len(found) == 12
    assert found[-1] < found[1] < found[0]
    assert ends(texts)[0] == ends(texts)[1]
    assert losses(texts[1]) == []


def test_a_signal_to_one_rank_ends_both_with_a_checkpoint_to_go_on_from(tmp_path: Path, free_port: str) -> None:
    checkpoint = tmp_path / "run.pt"
    ranks = start(free_port, tmp_path, "--checkpoint", str(checkpoint))
    assert ranks[0].stdout is not None
    assert ranks[0].stdout.readline().startswith("step 0 ")
    ranks[1].send_signal(signal.SIGUSR1)
    (steps, weights), other = ends(finish(ranks))
    assert (steps, weights) == other
    assert checkpoint.is_file()
    resumed = finish(start(free_port, tmp_path, "--checkpoint", str(checkpoint), "--steps", str(int(steps) + 2)))
    assert re.findall(r"^step (\d+)", resumed[0], re.MULTILINE) == [steps, str(int(steps) + 1)]
