"""What is seen once a year on a big cluster: logs that quote users, clocks that drift, disks that fill in mid-pass."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guardctl.observe import agent, host, infiniband, kernel_log, nvml, spool, steps, verdict_file
from guardctl.observe.kernel_log import Tail, parse_xid, readings
from guardctl.observe.nvml import NvmlChild
from guardctl.words.errors import SpoolError
from guardctl.words.policy import Policy
from guardctl.words.records import Reading, Source

NOW = datetime(2026, 1, 2, 9, tzinfo=UTC)
BOOT = NOW - timedelta(days=60)
XID_79 = "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


# --- the kernel log -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quote", [
    "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/user.slice/user-1000.slice/{},task=python3,pid=4242,uid=1000",
    "cgroup: fork rejected by pids controller in /user.slice/user-1000.slice/{}",
    "usb 1-1: Product: {}",
])  # fmt: skip
def test_a_kernel_record_that_quotes_a_user_is_not_the_driver(quote: str) -> None:
    """A user may name a control group of his own as he likes, and the kernel prints the name when it kills."""
    assert parse_xid([f"6,1,2,-;{quote.format(XID_79)}"]) == []
    assert parse_xid([f"6,1,2,-;{quote.format('nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal')}"]) == []


def test_every_recorded_kmsg_line_is_told_apart(data_dir: Path) -> None:
    counts = {
        path.name: len(parse_xid(path.read_text(encoding="utf-8").splitlines()))
        for path in (data_dir / "nvidia/dmesg").iterdir()
    }
    assert counts == {
        "collected_other.txt": 7, "gpud_dmesg-with-xid-119.log": 5, "gpud_dmesg.decode.iso.nccl-segfault.log": 0,
        "gpud_fabricmanager.log": 0, "gpud_kmsg.1.log": 0, "gpud_kmsg.2.peermem.log": 0,
        "gpud_sxid_lines_unique.txt": 16, "gpud_xid_lines_unique.txt": 126,
    }  # fmt: skip


def test_a_new_line_is_no_older_than_the_last_look_though_the_logs_clock_lags() -> None:
    """Ten minutes behind after 60 days: as the line says it, whoever looks at the last six minutes would miss it."""
    lagging_s = timedelta(days=60).total_seconds() - 600
    (event,) = parse_xid([f"3,1,{int(lagging_s * 1e6)},-;{XID_79}"])
    looked_at = NOW - timedelta(seconds=30)
    assert readings([event], "n1", None, BOOT, NOW)[0].at == NOW - timedelta(minutes=10)
    assert readings([event], "n1", None, BOOT, NOW, looked_at)[0].at == looked_at


def test_a_line_of_an_honest_clock_keeps_its_time() -> None:
    at = timedelta(days=60).total_seconds() - 10
    (event,) = parse_xid([f"3,1,{int(at * 1e6)},-;{XID_79}"])
    assert readings([event], "n1", None, BOOT, NOW, NOW - timedelta(seconds=30))[0].at == NOW - timedelta(seconds=10)


def test_lines_are_new_only_where_reading_went_on(tmp_path: Path) -> None:
    """At first, after a rotation and after trouble the log is read from its start: what stands there is old."""
    log = tmp_path / "kmsg"
    tail = Tail(log)
    continued = [(tail.lines(), tail.continued)[1]]  # it is not there
    for content in ("one\n", "one\ntwo\n", "cut\n", "cut\nmore\n"):
        log.write_text(content, encoding="ascii")
        tail.lines()
        continued.append(tail.continued)
    tail.close()
    assert continued == [False, False, True, False, True]


def test_the_rest_of_a_long_log_is_not_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "MAX_READ_BYTES", 8)
    log = tmp_path / "kmsg"
    log.write_text("one two\nthree\n", encoding="ascii")
    tail = Tail(log)
    seen = [(tail.lines(), tail.continued) for _ in range(3)]
    tail.close()
    assert seen == [(["one two"], False), (["three"], False), ([], True)]


# --- the driver's child ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["42", "[]", "null", "{}", '"ok"', '{"num_gpus": "many"}', "not json", "{} {}"])
def test_a_child_that_talks_nonsense_is_replaced_and_no_gpu_is_blamed(said: str) -> None:
    code = f"import sys\nfor _ in sys.stdin: print({said!r}, flush=True)"
    with NvmlChild(20.0, [sys.executable, "-S", "-c", code]) as child:
        found = nvml.sample(child, "n1", None, NOW)
    assert (found.readings, found.num_gpus, found.hang) == ((), None, False)
    assert found.why


def test_a_child_whose_answer_never_ends_is_cut_off() -> None:
    code = "import sys; sys.stdin.readline()\nwhile True: sys.stdout.write('x' * 65536)"
    with NvmlChild(20.0, [sys.executable, "-S", "-c", code]) as child:
        answer = child.ask({"op": "count"})
    assert answer is not None
    assert answer["why"] == f"the driver's child was ended, for this is no answer: {b'x' * 80!r}"


def test_a_child_that_ends_says_its_exit_code() -> None:
    with NvmlChild(20.0, [sys.executable, "-S", "-c", "import sys; sys.stdin.readline(); sys.exit(3)"]) as child:
        answer = child.ask({"op": "count"})
    assert answer is not None
    assert answer["why"].startswith("the driver's child ended without an answer (exit code ")


# --- InfiniBand -----------------------------------------------------------------------------------------------------


def test_a_card_without_ports_hides_no_other(tmp_path: Path) -> None:
    """While a card is reset its folder is there, and its ports are not."""
    for number in range(6):
        device = tmp_path / f"class/infiniband/mlx5_{number}"
        device.mkdir(parents=True)
        if number % 2:
            (device / "ports/1").mkdir(parents=True)
    found = infiniband.read(tmp_path, "n1", None, NOW)
    assert [each.device for each in found] == ["mlx5_1/1", "mlx5_3/1", "mlx5_5/1"]


# --- notes of the hooks ---------------------------------------------------------------------------------------------


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy.model_validate({
        "state_dir": tmp_path / "state",
        "observe": {"run_dir": tmp_path / "run", "kmsg": tmp_path / "kmsg", "sysfs": tmp_path, "interface": "lo"},
    })  # fmt: skip


def note(folder: Path, job: str, at: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": host.NOTE_SCHEMA, "hook": "epilog", "job_id": job, "uid": 1, "at": at})
    (folder / f"{job}.json").write_text(text, encoding="utf-8")


def test_notes_come_oldest_first_and_rubbish_goes(policy: Policy) -> None:
    folder = policy.observe.run_dir / "notes"
    for job, at in (("9", 300.0), ("10", 200.0), ("100", 100.0)):
        note(folder, job, at)
    (folder / "1.json").write_text("[1]", encoding="ascii")
    (folder / "2.json").write_text('{"schema": "guardctl.note/1", "at": "NaN"}', encoding="ascii")
    os.mkfifo(folder / "3.json")
    (folder / ".4.json.17").write_text("{", encoding="ascii")  # one that a hook is writing
    assert [reading.values["job_id"] for _, reading in host.notes(policy, "n1", None)] == ["100", "10", "9"]
    assert sorted(path.name for path in folder.iterdir()) == [".4.json.17", "10.json", "100.json", "9.json"]


# --- full disks -----------------------------------------------------------------------------------------------------

NO_DRIVER = 'import sys\nfor _ in sys.stdin: print(\'{"why": "no driver"}\', flush=True)'


@pytest.fixture
def probes(policy: Policy) -> Iterator[agent.Probes]:
    with NvmlChild(20.0, [sys.executable, "-S", "-c", NO_DRIVER]) as gpus:
        tail = Tail(policy.observe.kmsg)
        yield agent.Probes(policy, "n1", gpus, tail, spool.Spool(policy.state_dir, "n1", None), None)
        tail.close()


def test_an_xid_that_comes_while_the_spool_is_full_is_written_later(probes: agent.Probes) -> None:
    """A line of the log is read once; a file in place of the spool's folder stands for the full disk."""
    state, kmsg = probes.policy.state_dir, probes.policy.observe.kmsg
    state.touch()
    kmsg.write_text(f"3,1,5000000,-;{XID_79}\n", encoding="ascii")
    agent.one_pass(probes, lambda _: [], NOW)
    agent.one_pass(probes, lambda _: [], NOW)
    assert [each.values["xid"] for each in probes.unwritten] == [79]
    state.unlink()
    for _ in range(2):
        agent.one_pass(probes, lambda _: [], NOW)
    table = spool.read(state, ["n1"], datetime(1970, 1, 1, tzinfo=UTC))
    assert table["xid"].dropna().tolist() == [79]
    assert set(table.loc[table["source"] == Source.HOST, "nvml_why"]) == {"no driver"}


def test_the_agent_knows_which_lines_are_new(probes: agent.Probes) -> None:
    """Both lines say that they are from right after boot; the second came between two passes."""
    kmsg, first = probes.policy.observe.kmsg, datetime.now(UTC) + timedelta(days=1)  # this host runs for longer then
    for now in (first, first + timedelta(seconds=30)):
        with kmsg.open("a", encoding="ascii") as out:
            out.write(f"3,1,1,-;{XID_79}\n")
        agent.one_pass(probes, lambda _: [], now)
    table = spool.read(probes.policy.state_dir, ["n1"], datetime(1970, 1, 1, tzinfo=UTC))
    old, new = table.loc[table["source"] == Source.LOG, "at"].sort_values()
    assert first - old > timedelta(days=0.9)
    assert abs(new - first) < timedelta(milliseconds=1)


def test_a_verdict_that_does_not_fit_leaves_the_old_one_and_no_part(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    code = f"""
import resource, signal
from pathlib import Path
from guardctl.observe import verdict_file
from guardctl.words.errors import SpoolError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path({str(tmp_path)!r}) / "verdict.json"
verdict_file.replace(path, {{"old": True}})
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
try:
    verdict_file.replace(path, {{"new": "x" * 1000}})
except SpoolError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{tmp_path}/verdict.json: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]
    assert json.loads((tmp_path / "verdict.json").read_bytes()) == {"old": True}


def test_a_note_that_is_cut_short_is_no_note(tmp_path: Path) -> None:
    hook = Path(agent.__file__).parents[1] / "hook.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(hook), "epilog"], capture_output=True, text=True, timeout=60, check=False,
        env={"GUARDCTL_RUN": str(tmp_path), "GUARDCTL_STOP": str(tmp_path / "stop"), "SLURM_JOB_ID": "42"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert "no note" in done.stderr
    assert list((tmp_path / "notes").iterdir()) == []


# --- numbers and letters that others cannot bear --------------------------------------------------------------------


@pytest.mark.parametrize("at", [9.9e9, 9e10, 1e300, -1.0])
def test_a_time_beyond_what_tables_hold_is_no_reading(tmp_path: Path, at: float) -> None:
    writer = spool.Spool(tmp_path, "n1", None)
    writer.append([Reading("n1", NOW, Source.HOST, values={"load1": 1.0})], NOW)
    (path,) = (tmp_path / "telemetry/n1").iterdir()
    with path.open("a", encoding="ascii") as out:
        out.write(json.dumps({"at": at, "source": "host", "values": {}}) + "\n")
    assert len(spool.read(tmp_path, ["n1"], NOW - timedelta(hours=1))) == 1


@pytest.mark.parametrize("at", ["9.9e9", "9e10", "1e300", "1e999", "NaN", "1" + "0" * 400])
def test_a_time_beyond_what_tables_hold_is_no_step(tmp_path: Path, at: str) -> None:
    table, warnings = read_steps(tmp_path, f'{{"step": 1, "busy_s": 1.0, "at": {at}}}')
    assert (table, len(warnings)) == (0, 1)


def test_a_warning_carries_no_control_letters_of_a_user(tmp_path: Path) -> None:
    _, (warning,) = read_steps(tmp_path, "\x1b]0;owned\x07\x1b[2J\r/etc/passwd")
    assert warning.isprintable()


def read_steps(state: Path, line: str) -> tuple[int, list[str]]:
    folder = state / "steps/7"
    folder.mkdir(parents=True)
    head = json.dumps({"schema": steps.SCHEMA, "node": "n1"})
    (folder / "rank0.jsonl").write_text(f"{head}\n{line}\n", encoding="utf-8")
    owners = {"7": steps.Owner(os.getuid(), frozenset({"n1"}))}
    table, warnings = steps.read(state, owners, datetime(1970, 1, 1, tzinfo=UTC), 2**20)
    return len(table), warnings


def test_a_verdict_file_names_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(SpoolError, match=r"run/verdict\.json: "):
        verdict_file.replace(tmp_path / "run/verdict.json", {})
