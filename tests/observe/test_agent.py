"""The agent on a node: one pass, trouble that lasts, its end; and that the hook believes what it wrote."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guardctl import hook
from guardctl.observe import agent, kernel_log, spool, verdict_file
from guardctl.observe.identity import boot_id
from guardctl.observe.nvml import NvmlChild
from guardctl.words.errors import SpoolError
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Reading, Source

NOW = datetime.now(UTC)
DRIVER = """
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    print(json.dumps({"num_gpus": 1} if ask["op"] == "count" else {
        "values": {"pci_bus_id": "00000000:18:00.0"}, "uuid": "GPU-0", "serial": "165", "lost": False}), flush=True)
"""
LOST = Finding("n1", "gpu_lost", "kernel log: GPU fell off the bus", hard=True, at=NOW, gpu=0)


def policy_of(folder: Path, **hook_policy: object) -> Policy:
    return Policy.model_validate({
        "state_dir": folder / "state",
        "kill_switch": folder / "stop",
        "observe": {"run_dir": folder / "run", "kmsg": folder / "kmsg", "sysfs": folder / "sys", "interface": "lo",
                    "expected_gpus": 8},
        "hook": hook_policy,
    })  # fmt: skip


@pytest.fixture
def probes(tmp_path: Path) -> Iterator[agent.Probes]:
    policy = policy_of(tmp_path, refuse=True)
    (tmp_path / "kmsg").write_text("3,1,1000000,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n")
    with NvmlChild(20.0, [sys.executable, "-S", "-c", DRIVER]) as gpus:
        yield agent.Probes(policy, "n1", gpus, kernel_log.Tail(policy.observe.kmsg),
                           spool.Spool(policy.state_dir, "n1", boot_id()), boot_id())  # fmt: skip


def well(_: Sequence[Reading]) -> list[Finding]:
    return []


def broken(_: Sequence[Reading]) -> list[Finding]:
    return [LOST]


def ask_hook(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setenv("GUARDCTL_RUN", str(policy.observe.run_dir))
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    return hook.run("prolog")


# --- one pass -------------------------------------------------------------------------------------------------------


def test_a_pass_samples_every_source(probes: agent.Probes) -> None:
    (port := probes.policy.observe.sysfs / "class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    readings = agent.sample(probes, NOW)
    assert {reading.source for reading in readings} == set(Source)
    assert {reading.node for reading in readings} == {"n1"}
    (log,) = [each for each in readings if each.source is Source.LOG]
    assert (log.values["xid"], log.values["gpu"], log.uuid) == (79, 0, "GPU-0")
    (host,) = [each for each in readings if each.source is Source.HOST]
    assert (host.values["num_gpus"], host.values["expected_gpus"], host.values["nvml_hang"]) == (1, 8, False)
    assert isinstance(host.values["mem_available_bytes"], int)


def test_a_pass_writes_the_spool_and_gives_the_check_its_readings(probes: agent.Probes) -> None:
    seen: list[Reading] = []

    def check(readings: Sequence[Reading]) -> list[Finding]:
        seen.extend(readings)
        return []

    agent.one_pass(probes, check, NOW)
    table = spool.read(probes.policy.state_dir, ["n1"], NOW - timedelta(minutes=1))
    assert len(table) == len([each for each in seen if each.source is not Source.LOG])  # that line is from boot
    assert probes.trouble == {}


def test_the_hook_believes_what_the_agent_wrote(probes: agent.Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.one_pass(probes, well, NOW)
    assert ask_hook(probes.policy, monkeypatch) == (0, "", "")
    agent.one_pass(probes, broken, NOW)
    assert ask_hook(probes.policy, monkeypatch) == (1, "refuse: GPU 0: kernel log: GPU fell off the bus", "")
    probes.policy.kill_switch.touch()
    assert ask_hook(probes.policy, monkeypatch)[0] == 0


def test_a_fault_does_not_outlive_the_agent(probes: agent.Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.one_pass(probes, broken, NOW - timedelta(seconds=probes.policy.hook.verdict_ttl_s + 1))
    code, _, said = ask_hook(probes.policy, monkeypatch)
    assert code == 0
    assert "expired" in said


def test_notes_of_hooks_are_kept_and_then_removed(probes: agent.Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDCTL_RUN", str(probes.policy.observe.run_dir))
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setenv("SLURM_JOB_UID", "1000")
    assert hook.run("epilog") == (0, "", "")
    notes = probes.policy.observe.run_dir / "notes"
    (notes / "43.json").write_text("no note", encoding="ascii")
    agent.one_pass(probes, well, NOW)
    assert list(notes.iterdir()) == []
    table = spool.read(probes.policy.state_dir, ["n1"], NOW - timedelta(minutes=1))
    (note,) = table[table["device"] == "hook"].to_dict("records")
    assert (note["hook"], note["job_id"], note["uid"]) == ("epilog", "42", 1000)


# --- trouble --------------------------------------------------------------------------------------------------------


def test_a_spool_that_cannot_be_written_is_said_once_and_costs_no_note(
    probes: agent.Probes, caplog: pytest.LogCaptureFixture
) -> None:
    state, notes = probes.policy.state_dir, probes.policy.observe.run_dir / "notes"
    state.touch()
    notes.mkdir(parents=True)
    (notes / "42.json").write_text(json.dumps({"schema": "guardctl.note/1", "hook": "epilog", "at": NOW.timestamp()}))
    for _ in range(3):
        agent.one_pass(probes, broken, NOW)
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    assert (notes / "42.json").exists()
    assert (probes.policy.observe.run_dir / "verdict.json").exists()
    state.unlink()
    agent.one_pass(probes, broken, NOW)
    assert not (notes / "42.json").exists()
    assert caplog.records[-1].getMessage() == "the spool can be written again"


def test_a_single_pass_in_trouble_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(SpoolError, match="state"):
        agent.run(policy_of(tmp_path), "n1", well, once=True)


def test_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    """It ends while it waits for the next pass, an hour away; `ready` is the check of the first pass."""
    code = f"""
import os, signal, sys
from guardctl.observe import agent
from tests.observe.test_agent import policy_of
from pathlib import Path
policy = policy_of(Path({str(tmp_path)!r}))
policy = policy.model_copy(update={{"observe": policy.observe.model_copy(update={{"period_s": 600.0}})}})
agent.run(policy, "n1", lambda readings: print("ready", flush=True) or [])
print("ended")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                               cwd=Path(__file__).parents[2], env={**os.environ, "LD_LIBRARY_PATH": ""})  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "ended\n")


# --- the verdict ----------------------------------------------------------------------------------------------------


def test_our_own_hard_finding_goes_before_what_the_monitor_said() -> None:
    policy = Policy()
    said = {"health": "SUSPECT", "why": "12 % slower than its peers"}
    soft = Finding("n1", "xid", "Xid 63", hard=False, at=NOW)
    for findings, monitor, expected in [
        ([], None, ("HEALTHY", False, "")),
        ([soft], None, ("HEALTHY", False, "")),
        ([], said, ("SUSPECT", False, said["why"])),
        ([soft, LOST], said, ("FAULTY", True, f"GPU 0: {LOST.detail}")),
        ([], {"health": "FAULTY", "why": "sweep failed"}, ("FAULTY", False, "sweep failed")),
    ]:
        found = verdict_file.document("n1", "boot", findings, monitor, policy, NOW)
        assert (found["health"], found["hard"], found["why"]) == expected
        assert found["refuse"] is False  # the default policy only observes


def test_what_the_monitor_said_counts_until_it_expires(tmp_path: Path) -> None:
    path = tmp_path / "verdicts/n1.json"
    content = verdict_file.document("n1", None, [LOST], None, Policy(), NOW)
    verdict_file.replace(path, content)
    assert [file.name for file in path.parent.iterdir()] == ["n1.json"]
    assert verdict_file.fresh(path, NOW) == content
    assert verdict_file.fresh(path, NOW + timedelta(seconds=Policy().hook.verdict_ttl_s)) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "guardctl.verdict/1", "health": "SICK", "why": ""}', "nan"]
)
def test_a_damaged_word_of_the_monitor_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "n1.json").write_text(text, encoding="ascii")
    assert verdict_file.fresh(tmp_path / "n1.json", NOW) is None
    assert verdict_file.fresh(tmp_path / "absent.json", NOW) is None
