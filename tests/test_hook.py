"""The hook as Slurm runs it: a process with hardly an environment, whose exit code can take a node out."""

import ast
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from guardctl import hook

pytestmark = pytest.mark.slow  # starts many processes

CHECKOUT = Path(__file__).resolve().parents[1]
HOOK = CHECKOUT / "guardctl/hook.py"
BOOT_ID = Path(hook.BOOT_ID).read_text(encoding="ascii").strip()
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def env(run_dir: Path, **more: str) -> dict[str, str]:
    return {"GUARDCTL_RUN": str(run_dir), "GUARDCTL_STOP": str(run_dir / "stop"),
            "SLURM_JOB_ID": "42", "SLURM_JOB_UID": "1000", **more}  # fmt: skip


def run(which: str, run_dir: Path, **more: str) -> Done:
    argv = [sys.executable, "-I", "-S", str(HOOK), which]
    return subprocess.run(argv, env=env(run_dir, **more), capture_output=True, text=True, timeout=30, check=False)


def verdict(**changes: object) -> dict[str, Any]:
    now = time.time()
    return {
        "schema": "guardctl.verdict/1", "node": "n1", "boot_id": BOOT_ID, "at": now, "expires_at": now + 300,
        "health": "FAULTY", "hard": True, "refuse": True, "why": "GPU 3 is lost", "findings": [], **changes,
    }  # fmt: skip


def leave(run_dir: Path, **changes: object) -> None:
    (run_dir / "verdict.json").write_text(json.dumps(verdict(**changes)), encoding="utf-8")


# --- refusing a job -------------------------------------------------------------------------------------------------


def test_a_fresh_hard_fault_that_the_policy_lets_refuse_stops_the_job_and_leaves_a_note(run_dir: Path) -> None:
    leave(run_dir)
    done = run("prolog", run_dir)
    assert (done.returncode, done.stdout) == (1, "refuse: GPU 3 is lost\n")
    note = json.loads((run_dir / "notes/42.prolog.json").read_bytes())
    assert (note["hook"], note["job_id"], note["uid"], note["refused"]) == ("prolog", "42", 1000, True)


@pytest.mark.parametrize("changes", [
    {"refuse": False}, {"hard": False}, {"health": "SUSPECT"}, {"health": "HEALTHY"}, {"refuse": "true"}, {"hard": 1},
])  # fmt: skip
def test_anything_less_lets_the_job_start(run_dir: Path, changes: dict[str, object]) -> None:
    leave(run_dir, **changes)
    done = run("prolog", run_dir)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_hard_fault_that_may_not_refuse_is_noted_and_said(run_dir: Path) -> None:
    leave(run_dir, refuse=False)
    assert "GPU 3 is lost" in run("prolog", run_dir).stderr
    assert json.loads((run_dir / "notes/42.prolog.json").read_bytes())["refused"] is False


# --- what is no verdict ---------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[dict[str, object], str]] = {  # times count from when the test runs
    "expired": ({"expires_at": -9}, "expired"),
    "from the future": ({"at": 3600, "expires_at": 7200}, "future"),
    "before the boot": ({"boot_id": "another"}, "last boot"),
    "other schema": ({"schema": "guardctl.verdict/2"}, "schema"),
    "no times": ({"at": None}, "no times"),
    "not a number": ({"expires_at": float("nan")}, "expired"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_verdict_that_does_not_count_is_a_warning(run_dir: Path, name: str) -> None:
    changes, words = BROKEN[name]
    now = time.time()
    leave(run_dir, **{key: now + value if isinstance(value, int) else value for key, value in changes.items()})
    done = run("prolog", run_dir)
    assert (done.returncode, done.stdout) == (0, "")
    assert words in done.stderr


def test_a_document_that_is_no_object_is_a_warning(run_dir: Path) -> None:
    (run_dir / "verdict.json").write_text("[1]", encoding="utf-8")
    done = run("prolog", run_dir)
    assert (done.returncode, done.stdout) == (0, "")
    assert "schema" in done.stderr


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 60_000, b" " * 70_000 + b"{}", b"9" * 5000])
def test_bytes_that_are_no_verdict_are_a_warning(run_dir: Path, data: bytes) -> None:
    (run_dir / "verdict.json").write_bytes(data)
    done = run("prolog", run_dir)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no verdict" in done.stderr


@pytest.mark.parametrize("kind", ["absent", "link", "pipe", "folder"])
def test_a_file_that_is_not_a_plain_one_is_not_read_nor_waited_for(run_dir: Path, kind: str) -> None:
    place = run_dir / "verdict.json"
    if kind == "link":
        real = run_dir / "real.json"
        real.write_text(json.dumps(verdict()), encoding="utf-8")
        place.symlink_to(real)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    done = run("prolog", run_dir)
    assert done.returncode == 0
    assert "no verdict" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_verdict_of_a_user_does_not_count(run_dir: Path) -> None:
    leave(run_dir)
    os.chown(run_dir / "verdict.json", 65534, 65534)
    done = run("prolog", run_dir)
    assert done.returncode == 0
    assert "belongs to uid 65534" in done.stderr


def test_the_kill_switch_is_obeyed_wherever_it_is_named(run_dir: Path) -> None:
    switch = run_dir / "off"
    switch.touch()
    leave(run_dir, kill_switch=str(switch))
    assert run("prolog", run_dir, GUARDCTL_STOP="").returncode == 0
    leave(run_dir, kill_switch=str(run_dir / "not there"))
    assert run("prolog", run_dir, GUARDCTL_STOP="").returncode == 1
    assert run("prolog", run_dir, GUARDCTL_STOP=str(switch)).returncode == 0


# --- epilog and health ----------------------------------------------------------------------------------------------


def test_the_epilog_leaves_a_note_and_no_part_of_one(run_dir: Path) -> None:
    done = run("epilog", run_dir)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in (run_dir / "notes").iterdir()] == ["42.json"]
    note = json.loads((run_dir / "notes/42.json").read_bytes())
    assert (note["schema"], note["hook"], note["job_id"], note["uid"]) == ("guardctl.note/1", "epilog", "42", 1000)
    assert abs(note["at"] - time.time()) < 60


@pytest.mark.parametrize("job", ["", "../../etc/cron.d/x", "42 43", "9" * 40, "x"])
def test_a_job_id_that_is_none_makes_no_file(run_dir: Path, job: str) -> None:
    done = run("epilog", run_dir, SLURM_JOB_ID=job)
    assert done.returncode == 0
    assert "no note" in done.stderr
    assert list(run_dir.iterdir()) == []


def test_a_note_that_cannot_be_written_is_a_warning(run_dir: Path) -> None:
    (run_dir / "notes").touch()
    done = run("epilog", run_dir)
    assert done.returncode == 0
    assert "no note" in done.stderr


def test_notes_that_nobody_fetches_do_not_fill_the_memory(run_dir: Path) -> None:
    notes = run_dir / "notes"
    notes.mkdir()
    for number in range(hook.MAX_NOTES):
        (notes / f"{number + 1000}.json").touch()
    done = run("epilog", run_dir)
    assert done.returncode == 0
    assert "does the agent run" in done.stderr
    assert len(list(notes.iterdir())) == hook.MAX_NOTES


def test_the_health_program_says_one_line(run_dir: Path) -> None:
    assert run("health", run_dir).stdout.startswith("guardctl: no verdict: ")
    leave(run_dir, why="lost\nGPU\x1b[31m")
    done = run("health", run_dir)
    assert (done.returncode, done.stdout) == (0, "guardctl: FAULTY (hard): lost GPU [31m\n")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["prolog", "epilog"]])
def test_an_unknown_hook_is_a_mistake_of_the_caller(arguments: list[str]) -> None:
    argv = [sys.executable, "-I", "-S", str(HOOK), *arguments]
    done = subprocess.run(argv, env={}, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr == "usage: guardctl-hook prolog|epilog|health\n"


# --- the frame ------------------------------------------------------------------------------------------------------


def in_child(work: str) -> Done:
    """`bounded` around a piece of work, in a process of its own."""
    code = f"import signal, time, hook\nprint(hook.bounded(lambda: {work}, 0.3))"
    return subprocess.run([sys.executable, "-c", code], cwd=HOOK.parent, capture_output=True, text=True, timeout=30,
                          check=False)  # fmt: skip


def test_work_that_hangs_is_left_behind_at_the_deadline() -> None:
    done = in_child("[signal.pthread_sigmask(0, range(1, 32)), time.sleep(1000)]")
    assert done.stdout == "(0, '', 'no answer after 0.3 s')\n"


def test_work_that_fails_or_dies_lets_the_job_go_on() -> None:
    assert in_child("1 / 0").stdout == "(0, '', 'ZeroDivisionError: division by zero')\n"
    assert in_child("signal.raise_signal(9)").stdout == "(0, '', 'ended without an answer')\n"


def test_a_caller_that_closed_its_ends_changes_nothing(run_dir: Path) -> None:
    leave(run_dir, refuse=False)
    for which in hook.HOOKS:
        argv = ["sh", "-c", f'exec "$0" -I -S "$1" {which} <&- >&- 2>&-', sys.executable, str(HOOK)]
        assert subprocess.run(argv, env=env(run_dir), timeout=30, check=False).returncode == 0


def test_it_is_python_3_6_and_imports_little() -> None:
    ast.parse(HOOK.read_text(encoding="utf-8"), feature_version=(3, 6))
    code = "import sys, hook; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(HOOK.parent)!r}); {code}"]
    loaded = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    assert not {"argparse", "pathlib", "datetime", "typing", "subprocess", "logging", "json", "re"} & set(loaded)


def cpu_s(argv: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=environment, capture_output=True, timeout=30, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_it_costs_at_most_30_ms_of_processor_time_more_than_python_itself(run_dir: Path) -> None:
    """The least of nine runs each, in turn: what other processes add to a run is not the hook's."""
    leave(run_dir)
    runs = [(cpu_s([sys.executable, "-c", "pass"], env(run_dir)),
             cpu_s([sys.executable, str(HOOK), "prolog"], env(run_dir))) for _ in range(9)]  # fmt: skip
    bare, ours = (min(times) for times in zip(*runs, strict=True))
    assert ours - bare <= 0.030


# --- the scripts ----------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What an administrator copies to a node."""
    folder = tmp_path / "etc"
    folder.mkdir()
    for path in (*(CHECKOUT / "slurm").glob("*.sh"), HOOK):
        shutil.copy(path, folder)
    return folder


def script(path: Path, run_dir: Path) -> Done:
    return subprocess.run([str(path)], env=env(run_dir), capture_output=True, text=True, timeout=30, check=False,
                          cwd="/")  # fmt: skip


def test_the_scripts_pass_on_what_the_hook_says(installed: Path, run_dir: Path) -> None:
    leave(run_dir)
    done = script(installed / "prolog.sh", run_dir)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "guardctl: refuse: GPU 3 is lost\n")
    assert script(installed / "epilog.sh", run_dir).returncode == 0
    assert (run_dir / "notes/42.json").exists()
    done = script(installed / "health.sh", run_dir)
    assert (done.returncode, done.stdout) == (0, "guardctl: FAULTY (hard): GPU 3 is lost\n")


@pytest.mark.parametrize("content", ["raise SystemExit(1)", "syntax error", "print('refuse: no'); raise SystemExit(2)"])
@pytest.mark.parametrize("name", ["prolog", "epilog", "health"])
def test_a_broken_hook_stops_no_job(installed: Path, run_dir: Path, name: str, content: str) -> None:
    leave(run_dir)
    (installed / "hook.py").write_text(content, encoding="utf-8")
    assert script(installed / f"{name}.sh", run_dir).returncode == 0


@pytest.mark.parametrize("name", ["prolog", "epilog", "health"])
def test_a_missing_hook_stops_no_job(installed: Path, run_dir: Path, name: str) -> None:
    leave(run_dir)
    (installed / "hook.py").unlink()
    if Path("/usr/local/lib/guardctl/hook.py").exists() or shutil.which("guardctl-hook", path=os.defpath):
        pytest.skip("guardctl is installed on this machine")
    assert script(installed / f"{name}.sh", run_dir).returncode == 0
