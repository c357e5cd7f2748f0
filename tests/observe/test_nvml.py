"""Asking the driver through a child: deadlines with children that really hang, values from a real library."""

import os
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from guardctl.observe import nvml, nvml_probe
from guardctl.observe.nvml import Gpus, NvmlChild
from tests.lab import gpus as lab_gpus

pytestmark = pytest.mark.slow  # starts many processes

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FRAME = """
import json, os, signal, subprocess, sys
def hang():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    while True:
        signal.pause()
for line in sys.stdin:
    ask = json.loads(line)
    gpu = ask.get("index")
    answer = {"num_gpus": 3} if ask["op"] == "count" else {
        "values": {"temperature_c": 50 + gpu, "pci_bus_id": f"00000000:1{gpu}:00.0"}, "uuid": f"GPU-{gpu}",
        "serial": str(gpu), "lost": False}
"""
ANSWER = """
    print(json.dumps(answer), flush=True)
"""


def child(more: str, deadline_s: float = 0.3) -> NvmlChild:
    """A child that answers for three GPUs, but for what `more` does first."""
    return NvmlChild(deadline_s, [sys.executable, "-S", "-c", FRAME + more + ANSWER], start_s=20.0)


def ask(one: NvmlChild) -> Gpus:
    return nvml.sample(one, "n1", "boot", NOW)


def told(gpus: Gpus, signal_name: str) -> list[object]:
    return [reading.values.get(signal_name) for reading in gpus.readings]


def test_every_gpu_gets_a_reading_with_its_identity() -> None:
    with child("") as one:
        gpus = ask(one)
    assert (gpus.num_gpus, gpus.why, gpus.hang) == (3, "", False)
    assert [(each.device, each.uuid, each.serial, each.boot_id) for each in gpus.readings] == [
        (str(gpu), f"GPU-{gpu}", str(gpu), "boot") for gpu in range(3)
    ]
    assert told(gpus, "temperature_c") == [50, 51, 52]
    assert told(gpus, "pci") == ["0000:10:00", "0000:11:00", "0000:12:00"]


def test_a_gpu_that_hangs_is_named_and_blinds_no_other(tmp_path: Path) -> None:
    """The child and its own child are gone afterwards: the group was killed, and SIGTERM would not have done it."""
    pids = tmp_path / "pids"
    hangs = f"""
    if gpu == 1:
        inner = subprocess.Popen(["sleep", "1000"])
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{inner.pid}}")
        hang()
"""
    with child(hangs) as one:
        gpus = ask(one)
        assert told(gpus, "hang") == [False, True, False]
        assert told(gpus, "why")[1] == "no answer within 0.3 s"
        assert told(gpus, "temperature_c") == [50, None, 52]
        assert all(not alive(int(pid)) for pid in pids.read_text().split())


def alive(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process runs on: one that was killed may take a moment, or wait as a zombie for init."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state in "ZX":
            return False
    return True


def test_a_gpu_that_hangs_later_keeps_its_identity(tmp_path: Path) -> None:
    sick = tmp_path / "sick"
    with child(f"    if gpu == 2 and os.path.exists({str(sick)!r}): hang()\n") as one:
        ask(one)
        sick.touch()
        hanging = ask(one).readings[2]
        sick.unlink()
        well = ask(one).readings[2]
    assert (hanging.uuid, hanging.serial, hanging.values["pci"]) == ("GPU-2", "2", "0000:12:00")
    assert (hanging.values["hang"], well.values["hang"]) == (True, False)


def test_a_driver_that_does_not_even_count_blames_no_gpu() -> None:
    with NvmlChild(0.2, [sys.executable, "-S", "-c", FRAME + "    hang()\n"], start_s=0.5) as one:
        gpus = ask(one)
    assert (gpus.readings, gpus.num_gpus, gpus.hang) == ((), None, True)
    assert gpus.why


def test_a_driver_that_stops_with_one_gpu_leaves_the_rest_unknown(tmp_path: Path) -> None:
    """The first child hangs at GPU 1, and every later one at once: GPUs behind it get no reading, not a bad one."""
    dead = tmp_path / "dead"
    more = f"""
    if gpu == 1: open({str(dead)!r}, "w")
    if os.path.exists({str(dead)!r}): hang()
"""
    with NvmlChild(0.3, [sys.executable, "-S", "-c", FRAME + more + ANSWER], start_s=2.0) as one:
        gpus = ask(one)
    assert [each.device for each in gpus.readings] == ["0", "1"]
    assert told(gpus, "hang") == [False, True]
    assert "after GPU 1" in gpus.why


@pytest.mark.parametrize("more", ["    sys.exit(3)\n", "    print('Traceback', flush=True); sys.exit(1)\n"])
def test_a_child_that_ends_is_no_hang(more: str) -> None:
    with child(more) as one:
        for _ in range(2):  # and the next pass starts another
            gpus = ask(one)
            assert (gpus.readings, gpus.num_gpus, gpus.hang) == ((), None, False)
            assert "ended" in gpus.why


def test_a_child_that_cannot_be_started_is_no_hang(tmp_path: Path) -> None:
    with NvmlChild(1.0, [str(tmp_path / "absent")]) as one:
        gpus = ask(one)
    assert (gpus.readings, gpus.num_gpus, gpus.hang) == ((), None, False)
    assert gpus.why


def test_a_child_that_somebody_kills_is_replaced() -> None:
    with child("") as one:
        ask(one)
        assert one._process is not None
        os.killpg(one._process.pid, signal.SIGKILL)
        one._process.wait(10)
        ask(one)
        assert ask(one).num_gpus == 3


@pytest.mark.parametrize(("mask", "names"), [
    (0, ""), (1, "gpu_idle"), (0x48, "hw_slowdown,hw_thermal_slowdown"), (0x80, "hw_power_brake_slowdown"),
    (0x8004, "sw_power_cap,0x8000"),
])  # fmt: skip
def test_a_mask_of_reasons_has_names(mask: int, names: str) -> None:
    assert nvml_probe.reason_names(mask) == names


# --- the real pynvml over a compiled library ------------------------------------------------------------------------


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that tells the lab's libnvidia-ml.so.1 what to answer."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) to build the lab's NVML library with")
    (tmp_path / "lib").mkdir()
    (tmp_path / "nodes/n1").mkdir(parents=True)
    lab_gpus.compile_library(tmp_path / "lib")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return tmp_path / "nodes/n1/nvml"


def test_the_probe_reads_every_signal_that_a_gpu_has(scenario: Path) -> None:
    lab_gpus.write(scenario, lab_gpus.healthy("lab", "n1", 2))
    with NvmlChild(10.0) as one:
        gpus = ask(one)
    first = gpus.readings[0].values
    assert {name for name, value in first.items() if value is None} == {"retired_pages_pending", "why"}
    assert set(nvml_probe.GETTERS) <= set(first)
    expected = {"name": "NVIDIA H100 80GB HBM3", "sm_clock_mhz": 1980, "power_limit_w": 700.0, "nvlinks_up": 18,
                "nvlink_errors": 0, "remapped_failed": False, "mig": False, "num_processes": 0,
                "event_reason_names": "", "recovery_action": 0, "pci": "0000:18:00",
                "memory_total_bytes": 85520809984}  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert gpus.readings[1].uuid == lab_gpus.gpu_uuid("lab", "n1", 1)


def test_lost_throttled_and_hanging_gpus_show_as_such(scenario: Path) -> None:
    healthy = lab_gpus.healthy("lab", "n1", 4)
    lab_gpus.write(scenario, healthy)
    sick = {
        "gpu0.clocks_event_reasons": "0x48",
        "gpu1.state": "lost",
        "gpu2.state": "hang",
        "gpu3.temperature_c": "n/a",
    }
    with NvmlChild(1.0) as one:
        ask(one)
        lab_gpus.write(scenario, healthy | sick)
        gpus = ask(one)
        lab_gpus.write(scenario, healthy)
        after = ask(one)
    assert told(gpus, "lost") == [False, True, False, False]
    assert told(gpus, "hang") == [False, False, True, False]
    assert told(gpus, "temperature_c")[3] is None
    assert told(gpus, "event_reason_names")[0] == "hw_slowdown,hw_thermal_slowdown"
    assert [each.uuid for each in gpus.readings] == [lab_gpus.gpu_uuid("lab", "n1", gpu) for gpu in range(4)]
    assert told(after, "lost") == told(after, "hang") == [False] * 4
    assert None not in told(after, "temperature_c")


def test_a_node_without_a_driver_says_why(scenario: Path) -> None:
    """No scenario file: the library is there, and says that no driver is loaded."""
    assert not scenario.exists()
    with NvmlChild(10.0) as one:
        gpus = ask(one)
    assert (gpus.readings, gpus.num_gpus, gpus.why, gpus.hang) == ((), None, "NVML: Driver Not Loaded", False)
