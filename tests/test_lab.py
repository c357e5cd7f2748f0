"""The lab itself: a real cluster whose faults can really be measured, and that leaves nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab, LabError, cgroups, conf, faults, gpus, layout, missing, needs, teardown
from tests.lab.layout import Layout

REASON = missing()
CHECKOUT = Path(__file__).resolve().parents[1]
in_lab = pytest.mark.skipif(REASON is not None, reason=REASON or "")

COUNT = """
import time
end, turns = time.monotonic() + 2.0, 0
while time.monotonic() < end:
    turns += 1
print(turns)
"""
RECEIVE = """
import socket, sys, time
with socket.create_server(("", 9900)) as server:
    open(sys.argv[1], "w").close()
    peer, _ = server.accept()
    begun, got = time.monotonic(), 0
    while part := peer.recv(65536):
        got += len(part)
print(got / (time.monotonic() - begun) * 8 / 1e6)
"""
SEND = "import socket, sys; socket.create_connection((sys.argv[1], 9900)).sendall(bytes(3_000_000))"
ASK = """
import json, pynvml
pynvml.nvmlInit()
out = []
for i in range(pynvml.nvmlDeviceGetCount()):
    try:
        gpu = pynvml.nvmlDeviceGetHandleByIndex(i)
        out.append({
            "temperature_c": pynvml.nvmlDeviceGetTemperature(gpu, 0),
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            "power_mw": pynvml.nvmlDeviceGetPowerUsage(gpu),
            "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
            "ecc": pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
            "remapped": pynvml.nvmlDeviceGetRemappedRows(gpu),
        })
    except pynvml.NVMLError as error:
        out.append(error.value)
print(json.dumps(out))
"""
WATCH = """
import pynvml, sys, time
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
while True:
    print(pynvml.nvmlDeviceGetTemperature(gpu, 0), flush=True)
    time.sleep(0.02)
"""
LOST_LATER = """
import pynvml, sys, time
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(1)
try:
    while True:
        pynvml.nvmlDeviceGetName(gpu)
        print("fine", flush=True)
        time.sleep(0.02)
except pynvml.NVMLError as error:
    print(error.value, pynvml.nvmlDeviceGetCount(), flush=True)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.start(nodes=4, gpus=2) as lab:
        yield lab


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "lab" in request.fixturenames:
        lab: Lab = request.getfixturevalue("lab")
        for node in lab.nodes:
            lab.heal(node)


def a_layout(**changes: Any) -> Layout:
    values: dict[str, Any] = {
        "name": "x", "number": 3, "num_nodes": 8, "num_gpus": 2, "cores": 2, "hostname": "head",
        "checkout": "/src", "venv": "/venv",
    }  # fmt: skip
    return Layout(**{**values, **changes})


def reads(condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, where a file that is not there yet means no."""

    def look() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return condition()
        return False

    return look


def leftovers(name: str, number: int) -> list[str]:
    """Whatever is still there of a lab."""
    folder, tree = layout.folder(name), teardown.tree_of(name)
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    bridge = layout.bridge(number)
    found = [str(path) for path in (folder, tree) if path.exists()]
    found += [link for link in links if link == bridge or link.startswith(f"{bridge}n")]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended as we looked
            if f"{folder}/" in process.read_text(errors="replace"):
                found.append(process.read_text(errors="replace"))
    return found


# --- what needs no cluster ------------------------------------------------------------------------------------------


def test_shares_leave_headroom_and_have_a_cap() -> None:
    assert a_layout().share == pytest.approx(0.2)
    assert a_layout(num_nodes=64).share * 64 == pytest.approx(1.6)
    assert a_layout(num_nodes=1).share == 0.5


@pytest.mark.parametrize("files", [("cpu.max",), ("cpu.cfs_period_us", "cpu.cfs_quota_us")])
def test_a_quota_reads_back_in_both_versions_of_cgroups(files: tuple[str, ...], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    cgroups.set_share(tmp_path, 0.2, 0.5)
    assert cgroups.share_of(tmp_path) == pytest.approx(0.1)
    with pytest.raises(LabError, match="less than the kernel can give"):
        cgroups.set_share(tmp_path, 0.2, 0.1)


@pytest.mark.parametrize("changes", [{"num_nodes": 0}, {"num_nodes": 65}, {"num_gpus": 17}, {"name": "../x"}])
def test_refuses_impossible_labs(changes: dict[str, Any]) -> None:
    with pytest.raises(LabError):
        a_layout(**changes)


def test_slurm_conf_has_a_line_per_node_and_no_gres_without_gpus() -> None:
    text = conf.slurm_conf(a_layout(num_nodes=3))
    assert text.count("\nNodeName=") == 3
    assert "NodeAddr=10.77.3.3" in text
    assert "Gres" not in conf.slurm_conf(a_layout(num_gpus=0))


def test_topology_splits_nodes_among_leaf_switches() -> None:
    text = conf.topology_conf(a_layout(num_nodes=5, switches=2))
    assert text.splitlines() == [
        "SwitchName=s1 Nodes=n[1-3]", "SwitchName=s2 Nodes=n[4-5]", "SwitchName=spine Switches=s[1-2]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fault",
    ["", "slow-link=fast", "slow-cpu=2", "slow-cpu=x", "gpu=tired:0", "gpu=lost:2", "xid=79", "xid=79:2", "gpu0.x"],
)
def test_names_the_faults_there_are(fault: str) -> None:
    with pytest.raises(LabError):
        faults.parse(fault, 2)


def test_faults_add_up() -> None:
    now = faults.condition(["slow-cpu=0.7", "gpu=throttle:1", "slow-link=50mbit", "gpu0.fan_percent=3"], 2)
    assert (now.speed, now.rate) == (0.5, "50mbit")
    assert now.gpu_lines["gpu1.temperature_c"] == "88"
    assert now.gpu_lines["gpu0.fan_percent"] == "3"


def test_equal_gpus_are_different_cards() -> None:
    one, same, other = (gpus.healthy("x", node, 1) for node in ("n1", "n1", "n2"))
    assert one == same
    assert one["gpu0.uuid"] != other["gpu0.uuid"]
    assert one["gpu0.serial"] != other["gpu0.serial"]


def test_says_in_one_line_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "PATH", "/nowhere")
    reason = missing()
    assert reason is not None
    assert "slurmctld" in reason
    assert "apt-get install" in reason
    assert "\n" not in reason


@in_lab
@pytest.mark.lab
def test_says_which_hook_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"prolog\.sh"):
        Lab.start(nodes=1, hooks=tmp_path)


# --- a cluster ------------------------------------------------------------------------------------------------------


@in_lab
@pytest.mark.lab
def test_a_job_of_an_ordinary_user_runs_between_prolog_and_epilog(lab: Lab) -> None:
    script = "id -un; echo $LD_LIBRARY_PATH; srun hostname; cat /etc/hosts"
    job = lab.run(["sbatch", "--wait", "--parsable", "-N2", "--gres=gpu:1", "--wrap", script], user=lab.user)
    printed = (lab.path / f"home/slurm-{job.stdout.strip()}.out").read_text().split()
    assert printed[:2] == ["nobody", str(lab.path / "lib")]
    assert {"n1", "n2"} <= set(printed)
    done = (lab.path / "log/jobcomp.txt").read_text()
    assert "JobState=COMPLETED" in done
    notes = [lab.layout.node(node) / "run/guardctl/notes" for node in ("n1", "n2")]
    lab.wait(reads(lambda: all(any(folder.iterdir()) for folder in notes)), 20, "the epilog's notes")


@in_lab
@pytest.mark.lab
def test_nodes_see_their_own_gpus_and_run_folder(lab: Lab) -> None:
    seen = lab.run(["srun", "-N4", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; ls /run"], user=lab.user)
    assert seen.stdout.count("0,1") == 4
    assert seen.stdout.count("guardctl\n") == 4
    lab.run(["touch", "/run/guardctl/mine"], node="n1")
    assert lab.run(["ls", "/run/guardctl/mine"], node="n2", check=False).returncode != 0
    assert not Path("/run/guardctl/mine").exists()


@in_lab
@pytest.mark.lab
def test_a_slow_processor_is_slow(lab: Lab) -> None:
    lab.fault("n1", "slow-cpu=0.5")
    counted = lab.run(["srun", "-N2", "-l", "-w", "n1,n2", lab.python, "-c", COUNT], user=lab.user).stdout
    slow, healthy = (int(line.split()[1]) for line in sorted(counted.splitlines()))
    assert 0.3 < slow / healthy < 0.7
    lab.heal("n1")
    assert cgroups.share_of(lab.node_cgroup("n1")) == pytest.approx(lab.layout.share, rel=0.01)


def transfer_mbps(lab: Lab, sender: str, receiver: str) -> float:
    """Speed of a real TCP transfer between two nodes."""
    ready, result = lab.path / "home/ready", lab.path / "home/result"
    for file in (ready, result):
        file.unlink(missing_ok=True)
    server = lab.spawn([lab.python, "-c", RECEIVE, ready], node=receiver, stdout=result)
    lab.wait(ready.exists, 10, "the receiver")
    lab.run([lab.python, "-c", SEND, receiver], node=sender)
    assert server.wait(timeout=30) == 0, result.read_text()
    return float(result.read_text())


@in_lab
@pytest.mark.lab
def test_a_slow_link_is_slow_both_ways(lab: Lab) -> None:
    lab.fault("n1", "slow-link=20mbit")
    assert transfer_mbps(lab, "n1", "n2") < 30
    assert transfer_mbps(lab, "n2", "n1") < 30
    shown = lab.run(["tc", "-s", "-j", "qdisc", "show", "dev", "eth0"], node="n1").stdout
    assert json.loads(shown)[0]["overlimits"] > 0
    lab.heal("n1")
    assert transfer_mbps(lab, "n1", "n2") > 200


def ask(lab: Lab, node: str) -> Any:
    """What the real pynvml says on that node: a dict per GPU, or the code of its error."""
    return json.loads(lab.run([lab.python, "-c", ASK], node=node, user=lab.user).stdout)


@in_lab
@pytest.mark.lab
def test_a_throttled_gpu_is_hot_slow_and_says_why(lab: Lab) -> None:
    before = ask(lab, "n1")
    lab.fault("n1", "gpu=throttle:1")
    healthy, hot = ask(lab, "n1")
    assert healthy == before[0]
    assert hot["temperature_c"] == 88
    assert hot["sm_mhz"] < before[1]["sm_mhz"] / 2
    assert hot["power_mw"] < before[1]["power_mw"] / 2
    assert hot["reasons"] == 0x48
    assert cgroups.share_of(lab.node_cgroup("n1")) == pytest.approx(lab.layout.share / 2, rel=0.01)
    lab.heal("n1")
    assert ask(lab, "n1") == before


@in_lab
@pytest.mark.lab
def test_memory_errors_are_counted(lab: Lab) -> None:
    lab.fault("n1", "gpu=ecc:0")
    broken, healthy = ask(lab, "n1")
    assert broken["ecc"] > 0
    assert broken["remapped"] == [0, 1, 0, 1]
    assert (healthy["ecc"], healthy["remapped"]) == (0, [0, 0, 0, 0])


@in_lab
@pytest.mark.lab
def test_a_lost_gpu_does_not_blind_the_others(lab: Lab) -> None:
    output = lab.path / "home/lost"
    watcher = lab.spawn([lab.python, "-c", LOST_LATER], node="n1", stdout=output)
    lab.wait(reads(lambda: "fine" in output.read_text()), 20, "the first answer")
    lab.fault("n1", "gpu=lost:1")
    healthy, lost = ask(lab, "n1")
    assert healthy["temperature_c"] < 60
    assert lost == 15
    watcher.wait(timeout=10)
    assert output.read_text().splitlines()[-1] == "15 2", "a handle from before is lost too, and the count is not"


@in_lab
@pytest.mark.lab
def test_a_fault_shows_in_a_process_that_already_runs(lab: Lab) -> None:
    output = lab.path / "home/watch"
    watcher = lab.spawn([lab.python, "-c", WATCH], node="n2", stdout=output)
    lab.wait(reads(lambda: bool(output.read_text())), 20, "the first reading")
    lab.fault("n2", "gpu0.temperature_c=71")
    lab.wait(lambda: output.read_text().endswith("71\n"), 10, "the fault to show")
    watcher.kill()
    watcher.wait(timeout=10)


def blocks(pid: int, number: signal.Signals) -> bool:
    """Whether the process holds back this signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))
    return bool(mask >> (number - 1) & 1)


@in_lab
@pytest.mark.lab
def test_a_hanging_driver_ends_by_sigkill_only(lab: Lab) -> None:
    output = lab.path / "home/hang"
    child = lab.spawn([lab.python, "-c", WATCH], node="n3", stdout=output)
    lab.wait(reads(lambda: bool(output.read_text())), 20, "the first reading")
    lab.fault("n3", "gpu=hang:0")
    lab.wait(lambda: blocks(child.pid, signal.SIGTERM), 10, "the hang")
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    child.kill()
    assert child.wait(timeout=10) == -signal.SIGKILL


@in_lab
@pytest.mark.lab
def test_an_xid_is_a_line_in_the_kernel_log(lab: Lab) -> None:
    lab.fault("n1", "xid=79:0")
    head, text = lab.kmsg("n1").read_text().splitlines()[-1].split(";")
    assert text == "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    priority, sequence, microseconds, flag = head.split(",")
    assert (priority, flag) == ("3", "-")
    assert int(sequence) == 2
    assert int(microseconds) <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    assert (lab.sysfs("n1") / "class/infiniband/mlx5_0/ports/1/state").read_text() == "4: ACTIVE\n"


@in_lab
@pytest.mark.lab
def test_every_getter_answers_the_real_pynvml(lab: Lab) -> None:
    lab.fault("n4", "gpu0.processes=123:4096,7:8192")
    lab.fault("n4", "gpu0.nvlink3_replay_errors=5")
    lab.fault("n4", "gpu0.power_limit_mw=n/a")
    program = (CHECKOUT / "tests/lab/getters.py").read_text()
    got = json.loads(lab.run([lab.python, "-c", program], node="n4", user=lab.user).stdout)
    expected = json.loads((CHECKOUT / "tests/lab/getters.json").read_text())
    scenario = gpus.healthy(lab.name, "n4", 2)
    for name in ("uuid", "serial", "temperature_c", "temperature_margin_c", "power_mw"):
        text = scenario[f"gpu0.{name}"]
        expected[name] = text if name in {"uuid", "serial"} else int(text)
    assert got == expected


@in_lab
@pytest.mark.lab
def test_munge_and_controller_stop_and_start(lab: Lab) -> None:
    lab.stop_munge()
    assert lab.run(["sinfo"], check=False).returncode != 0
    lab.start_munge()
    lab.stop_controller()
    assert lab.run(["scontrol", "show", "node", "n1"], check=False, timeout=30).returncode != 0
    lab.start_controller()
    assert "NodeName=n1" in lab.run(["scontrol", "show", "node", "n1"]).stdout


@in_lab
@pytest.mark.lab
def test_a_killed_node_is_noticed_and_comes_back(lab: Lab) -> None:
    def state() -> str:
        return lab.run(["sinfo", "-h", "-n", "n4", "-o", "%T"]).stdout.strip()

    lab.kill_node("n4")
    assert list(cgroups.pids(lab.node_cgroup("n4"))) == []
    lab.wait(lambda: state().startswith("down"), 40, "Slurm to notice")
    lab.revive_node("n4")
    lab.wait(lambda: state() == "idle", 30, "n4 to come back")


@in_lab
@pytest.mark.lab
def test_two_labs_side_by_side_and_twice_in_a_row(lab: Lab) -> None:
    for _ in range(2):
        with Lab.start(nodes=1, gpus=0, name="beside") as other:
            assert other.layout.number != lab.layout.number
            other.run(["touch", "/run/guardctl/theirs"], node="n1")
            assert lab.run(["ls", "/run/guardctl/theirs"], node="n1", check=False).returncode != 0
            assert other.run(["srun", "hostname"], user=other.user).stdout == "n1\n"
            with pytest.raises(LabError, match="runs already"):
                Lab.start(nodes=1, name="beside")
            assert other.run(["sinfo", "-h", "-o", "%D"]).stdout.split() == ["1"]
        assert leftovers("beside", other.layout.number) == []
    assert lab.run(["srun", "-N4", "hostname"], user=lab.user).stdout.split()


@in_lab
@pytest.mark.lab
def test_an_owner_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    told = tmp_path / "number"
    program = f"""
from pathlib import Path
import time
from tests.lab import Lab
lab = Lab.start(nodes=2, gpus=1, name="orphan")
lab.fault("n1", "gpu=hang:0")
child = lab.spawn([lab.python, "-c", {WATCH!r}], "n1")
Path({str(told)!r}).write_text(str(lab.layout.number))
time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=CHECKOUT, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (told.exists() and told.read_text()):
        assert owner.poll() is None
        assert time.monotonic() < deadline, "the orphan's lab did not start"
        time.sleep(0.05)
    number = int(told.read_text())
    assert leftovers("orphan", number)
    os.killpg(owner.pid, signal.SIGKILL)
    owner.wait(timeout=10)
    while left := leftovers("orphan", number):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.lab", *words]
    return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)


@in_lab
@pytest.mark.lab
def test_by_hand() -> None:
    name = ("--name", "by-hand")
    try:
        begun = command("up", *name, "--nodes", "2")
        assert f"export SLURM_CONF={layout.folder('by-hand')}/etc/slurm.conf" in begun.stdout, begun.stderr
        number = layout.load(layout.folder("by-hand")).number
        assert command("fault", *name, "n2", "slow-cpu=0.5").returncode == 0
        lines = command("status", *name).stdout.splitlines()
        assert lines[1].split() == ["n1", "idle", "0.5", "-"]
        assert lines[2].split() == ["n2", "idle", "0.25", "slow-cpu=0.5"]
        assert command(
            "exec", *name, "--node", "n2", "--user", "nobody", "--", "sh", "-c", "hostname; id -un"
        ).stdout == ("n2\nnobody\n")
        wrong = command("fault", *name, "n9", "slow-cpu=0.5")
        assert (wrong.returncode, wrong.stderr) == (1, "lab: no node 'n9' in lab by-hand: it has n1 to n2\n")
        assert command("heal", *name, "n2").returncode == 0
    finally:
        assert "taken away" in command("down", *name).stdout
    assert leftovers("by-hand", number) == []
