"""Real children that hang, ignore signals, leave children, print much, or do not exist."""

import os
import sys
import time
from pathlib import Path

import pytest

from guardctl.cluster import commands
from guardctl.words.errors import ClusterError, CommandError, CommandTimeoutError

BASE = {"PATH": os.environ["PATH"]}
SLACK_S = 2 * commands.GRACE_S + 1.0


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether the process is dead, or a zombie that waits for its new parent."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
    return False


def sh(script: str, deadline_s: float = 10.0) -> commands.Result:
    return commands.run(["sh", "-c", script], deadline_s=deadline_s, env=BASE)


def test_output_and_errors_are_kept_apart() -> None:
    assert sh("echo out; echo err >&2") == commands.Result("out\n", "err\n")


def test_stdin_is_the_text_or_nothing() -> None:
    assert commands.run(["cat"], deadline_s=5, stdin="caf\u00e9\n", env=BASE).stdout == "caf\u00e9\n"
    assert commands.run(["cat"], deadline_s=5, env=BASE).stdout == ""


def test_much_output_does_not_block() -> None:
    program = "import sys; sys.stdout.write('x' * 8_000_000); sys.stderr.write('y' * 8_000_000)"
    result = commands.run([sys.executable, "-c", program], deadline_s=30)
    assert (len(result.stdout), len(result.stderr)) == (8_000_000, 8_000_000)


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert sh(r"printf 'caf\351\n'").stdout == "caf\ufffd\n"


def test_a_failure_carries_everything() -> None:
    with pytest.raises(CommandError, match="failed with exit code 3: no luck") as caught:
        sh("echo no luck >&2; exit 3")
    assert (caught.value.returncode, caught.value.stderr) == (3, "no luck")


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="command not found") as caught:
        commands.run(["sinfo-that-is-not-there"], deadline_s=5)
    assert "apt-get install slurm-client" in caught.value.hint


def test_a_command_that_cannot_be_run(tmp_path: Path) -> None:
    script = tmp_path / "sinfo"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(CommandError, match="Permission denied"):
        commands.run([str(script)], deadline_s=5)
    with pytest.raises(CommandError, match="null byte"):
        commands.run(["echo", "a\0b"], deadline_s=5)


def test_a_child_that_hangs_ends_at_the_deadline() -> None:
    start = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"no answer within 0\.3 s") as caught:
        sh("echo started >&2; exec sleep 60", deadline_s=0.3)
    assert time.monotonic() - start < 0.3 + SLACK_S
    assert isinstance(caught.value, ClusterError)
    assert caught.value.stderr == "started"


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    start = time.monotonic()
    with pytest.raises(CommandTimeoutError):
        sh(f"trap '' TERM; echo $$ > {pid}; while :; do sleep 0.05; done", deadline_s=0.5)
    assert commands.GRACE_S <= time.monotonic() - start < 0.5 + SLACK_S
    assert gone(int(pid.read_text()))


def test_a_grandchild_with_our_output_neither_delays_nor_survives(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    start = time.monotonic()
    result = sh(f"sh -c 'echo $$ > {pid}; exec sleep 60' & until [ -s {pid} ]; do :; done; echo done")
    assert result.stdout == "done\n"
    assert time.monotonic() - start < SLACK_S
    assert gone(int(pid.read_text()))


def test_a_grandchild_that_ignores_sigterm_goes_with_its_group(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sh -c \"trap '' TERM; echo \\$\\$ > {pid}; while :; do sleep 0.05; done\" & exec sleep 60"
    with pytest.raises(CommandTimeoutError):
        sh(script, deadline_s=0.5)
    assert gone(int(pid.read_text()))


def test_no_child_is_left_after_a_call() -> None:
    sh("true")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_options_of_the_caller_do_not_reach_slurm() -> None:
    caller = {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "SLURM_CLUSTERS": "other", "SINFO_FORMAT": "%n",
        "SQUEUE_USERS": "me", "SBATCH_PARTITION": "p", "SALLOC_X": "1", "SRUN_X": "1", "SCONTROL_ALL": "1",
        "SACCT_FORMAT": "x", "SCANCEL_STATE": "RUNNING", "SLURM_TIME_FORMAT": "relative",
        "LC_ALL": "de_DE", "TZ": "CET",
    }  # fmt: skip
    assert commands.environment(caller) == {
        "PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "LC_ALL": "C", "TZ": "UTC",
    }  # fmt: skip


def test_extra_variables_come_after_the_scrub() -> None:
    result = commands.run(["env"], deadline_s=5, env=BASE | {"SLURM_X": "1"}, extra={"SLURM_Y": "2"})
    assert "SLURM_X" not in result.stdout
    assert "SLURM_Y=2" in result.stdout


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("slurm_load_node error: Unable to contact slurm controller (connect failure)", "scontrol ping"),
        ("sinfo: error: Munge encode failed: Failed to access", "systemctl status munge"),
        ("slurm_send_node_msg: auth_g_create: REQUEST_NODE_INFO has authentication error", "systemctl status munge"),
        ("sinfo: fatal: Unable to find plugin: serializer/json", "serializer/json"),
        ("sinfo: fatal: Unable to process configuration file", "SLURM_CONF"),
        ("slurm_update error: Access/permission denied", "AdminLevel=Admin"),
    ],
)
def test_hints_say_what_to_do_next(stderr: str, hint: str) -> None:
    assert hint in commands.hint_for(stderr)


def test_no_hint_for_what_is_not_known() -> None:
    assert commands.hint_for("something else") == ""
