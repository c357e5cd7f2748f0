"""The programs of sweeps/, run for real on this machine's processor."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from guardctl.sweep.files import folder
from guardctl.sweep.results import GemmResult, PairResult, read

pytestmark = pytest.mark.slow  # starts many processes

MEET = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "GUARDCTL_NODES": "n1 n2"}


def environment(**more: str) -> dict[str, str]:
    """Ours without what Slurm or CUDA may have put there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "CUDA", "GUARDCTL"))}
    return {**kept, "SLURMD_NODENAME": "n1", **more}


def start(program: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    argv = [sys.executable, str(folder() / program), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=environment(**env), stdout=pipe, stderr=pipe, text=True)


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    done = [process.communicate(timeout=60) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, done, strict=True)]


def one_line(path: Path) -> dict[str, Any]:
    lines = path.read_text().splitlines()
    assert len(lines) == 1
    return dict(json.loads(lines[0]))


def test_gemm_measures_and_says_how_it_varied(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    arguments = ("--device", "cpu", "--seconds", "1.5", "--size", "128", "--attempt", "2", "--output", str(path))
    code, out, err = finish([start("gemm_burnin.py", *arguments)])[0]
    assert (code, err) == (0, "")
    assert "gflops" in out
    data = one_line(path)
    assert data["schema"] == "guardctl.sweep/1"
    assert min(data["samples"]) <= data["value"] <= max(data["samples"])
    result = read(tmp_path)[0]
    assert isinstance(result, GemmResult)
    assert (result.node, result.ok, result.size, result.unit, result.attempt) == ("n1", True, 128, "gflops", 2)


def test_gemm_tests_the_gpus_that_slurm_gave_into_one_file_per_node(tmp_path: Path) -> None:
    arguments = ("--device", "cpu", "--seconds", "0.3", "--size", "64", "--output", str(tmp_path))
    code, _, err = finish([start("gemm_burnin.py", *arguments, SLURM_STEP_GPUS="0,3", SLURM_GPUS_ON_NODE="2")])[0]
    results = [json.loads(line) for line in (tmp_path / "n1.jsonl").read_text().splitlines()]
    assert [each["gpu"] for each in results] == [0, 3], err
    assert code == (0 if all(each["ok"] for each in results) else 1)  # a machine with NVML may lack GPU 3


def test_gemm_says_that_a_gpu_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "n1.jsonl"
    arguments = ("--device", "cpu", "--seconds", "0.3", "--size", "64", "--output", str(path))
    code, _, _ = finish([start("gemm_burnin.py", *arguments, SLURM_STEP_GPUS="0", SLURM_GPUS_ON_NODE="2")])[0]
    first = json.loads(path.read_text().splitlines()[0])
    assert code == 1
    assert (first["ok"], first["fault"], first["message"]) == (False, "gpu_missing", "1 GPUs found, Slurm gave 2")


def test_two_ranks_reduce_and_report_once(tmp_path: Path, free_port: str) -> None:
    path = tmp_path / "pair.jsonl"
    arguments = ("--seconds", "2", "--bytes", "65536,262144", "--round", "3", "--output", str(path))
    ranks = [start("pair_allreduce.py", *arguments, RANK=str(rank), MASTER_PORT=free_port, **MEET) for rank in (0, 1)]
    assert [code for code, _, _ in finish(ranks)] == [0, 0]
    data = one_line(path)
    assert data["busbw_gbps"] == pytest.approx(data["bytes"] / data["p50_s"] / 1e9)  # 2(n-1)/n = 1 for two ranks
    assert data["p50_s"] <= data["p90_s"]
    result = read(tmp_path)[0]
    assert isinstance(result, PairResult)
    assert (sorted(result.nodes), result.ok, result.round, result.num_bytes) == (["n1", "n2"], True, 3, 262_144)


def test_a_rank_that_never_comes_ends_in_a_line(tmp_path: Path, free_port: str) -> None:
    path = tmp_path / "pair.jsonl"
    alone = start("pair_allreduce.py", "--start-s", "4", "--output", str(path), RANK="0", MASTER_PORT=free_port, **MEET)
    assert finish([alone])[0][0] == 1
    data = one_line(path)
    assert (data["ok"], data["busbw_gbps"], data["node_b"]) == (False, None, "n2")
    assert "the meeting of 2 ranks" in data["message"]


@pytest.mark.parametrize("script", ["gemm_burnin.sbatch", "pair_allreduce.sbatch"])
def test_a_batch_script_explains_itself(script: str) -> None:
    argv = ["bash", str(folder() / script)]
    asked = subprocess.run(
        [*argv, "--help"], env=environment(), capture_output=True, text=True, check=False, timeout=10
    )
    assert (asked.returncode, asked.stderr) == (0, "")
    assert f"{script} [--seconds" in asked.stdout
    by_hand = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False, timeout=10)
    assert by_hand.returncode == 2
