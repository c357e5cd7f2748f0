"""What Slurm runs around jobs: `guardctl-hook prolog|epilog|health`.

Reads one file that the agent keeps beside it, `<run>/verdict.json`, and judges nothing by itself. A verdict that is
missing, damaged, expired or from before the last boot is a warning, never a reason to stop a job: everything that can
go wrong with this program ends in exit code 0.

    prolog   0; 1 only on a fresh FAULTY and hard verdict that the policy lets refuse, with `refuse: ...` on stdout
    epilog   0; leaves a note about the job in `<run>/notes` for the agent
    health   0; one line about the node on stdout
    other    2 and the usage

This file is copied to nodes and run by the system's own Python, 3.6 or later: standard library only, and few imports,
because it runs twice for every job on every node. A forked child touches the files and answers on a pipe; the parent
waits for it no longer than DEADLINE_S, since a process that hangs in the kernel heeds no signal. The child closes
Slurm's pipes first, so that Slurm does not wait for it either. No Slurm command is called.
"""

# The part in C: `signal` itself loads enum, half of what this program would cost.
import _signal as signal  # type: ignore[import-not-found]
import errno
import os
import select
import stat
import sys
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing
if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 5.0
VERDICT_SCHEMA = "guardctl.verdict/1"
NOTE_SCHEMA = "guardctl.note/1"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
RUN_DIR = "/run/guardctl"
KILL_SWITCH = "/etc/guardctl/stop"
MAX_VERDICT_BYTES = 65536
MAX_NOTES = 1000  # notes are kept in memory (/run); with no agent to fetch them they must not fill it
MAX_ANSWER_BYTES = 4000  # below PIPE_BUF: written as a whole or not at all
CLOCK_SLACK_S = 60.0
MAX_DIGITS = 20
USAGE = "usage: guardctl-hook prolog|epilog|health"


# --- what the three of them do, in the child ------------------------------------------------------------------------


def prolog(verdict: "dict[str, object]", problem: str) -> "tuple[int, str, str]":
    """Exit code, stdout and stderr before a job: (1, "refuse: ...") or (0, "")."""
    if problem:
        return 0, "", "no verdict: " + problem
    if verdict.get("health") != "FAULTY" or verdict.get("hard") is not True:
        return 0, "", ""
    refuse = verdict.get("refuse") is True
    why = _plain(verdict.get("why"))
    trouble = _leave_note("prolog", ".prolog", {"refused": refuse, "why": why})
    return (1, "refuse: " + why, trouble) if refuse else (0, "", trouble or "faulty, and the job starts: " + why)


def epilog(verdict: "dict[str, object]", problem: str) -> "tuple[int, str, str]":
    """Exit code, stdout and stderr after a job: a note is left, whatever the verdict says."""
    del verdict, problem
    return 0, "", _leave_note("epilog", "", {})


def health(verdict: "dict[str, object]", problem: str) -> "tuple[int, str, str]":
    """Exit code, stdout and stderr of the health program: one line about the node."""
    if problem:
        return 0, "guardctl: no verdict: " + problem, ""
    hard = " (hard)" if verdict.get("hard") is True else ""
    why = _plain(verdict.get("why"))
    return 0, "guardctl: {}{}{}".format(_plain(verdict.get("health")), hard, ": " + why if why else ""), ""


HOOKS = {"prolog": prolog, "epilog": epilog, "health": health}


def run(hook: str) -> "tuple[int, str, str]":
    """Exit code, stdout and stderr of one hook, unless the kill switch is on."""
    verdict, problem = _load(time.time())
    if _stopped(verdict.get("kill_switch")):
        return 0, "", "the kill switch is on: nothing done"
    return HOOKS[hook](verdict, problem)


# --- the verdict ----------------------------------------------------------------------------------------------------


def _load(now: float) -> "tuple[dict[str, object], str]":
    """The document that the agent left, and why it does not count as a verdict now (empty: it counts)."""
    import json  # late: the usage does without

    path = os.path.join(_run_dir(), "verdict.json")
    try:
        document = json.loads(_read(path).decode("utf-8"))
    except OSError as error:
        return {}, f"{path}: {error.strerror}"
    except (ValueError, RecursionError):
        return {}, f"{path}: not JSON"
    if not isinstance(document, dict) or document.get("schema") != VERDICT_SCHEMA:
        return {}, f"{path}: its schema is not {VERDICT_SCHEMA}"
    problem = _problem(document, now)
    return document, f"{path}: {problem}" if problem else ""


def _read(path: str) -> bytes:
    """The bytes of a small regular file of root's or our own; opening waits for no pipe and follows no link."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, f"belongs to uid {found.st_uid}")
        data = os.read(fd, MAX_VERDICT_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_VERDICT_BYTES:
        raise OSError(errno.EFBIG, f"over {MAX_VERDICT_BYTES} bytes")
    return data


def _problem(document: "dict[str, object]", now: float) -> str:
    """Why a document is no verdict for now; empty if it is one."""
    at, expires_at = document.get("at"), document.get("expires_at")
    if not isinstance(at, (int, float)) or not isinstance(expires_at, (int, float)):
        return "it has no times"
    if not now < expires_at:  # so that NaN is over, too
        return f"it expired {now - expires_at:.0f} s ago"
    if not at <= now + CLOCK_SLACK_S:
        return "it comes from the future: the clock was set"
    if document.get("boot_id") != _boot_id():
        return "it is from before the last boot"
    return ""


def _boot_id() -> str:
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def _stopped(named: object) -> bool:
    """Whether the kill switch is on. One that cannot be looked at counts as on: doing nothing is safe here."""
    switch = os.environ.get("GUARDCTL_STOP") or (named if isinstance(named, str) else "") or KILL_SWITCH
    try:
        os.stat(switch)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


# --- notes ----------------------------------------------------------------------------------------------------------


def _leave_note(hook: str, suffix: str, extra: "dict[str, object]") -> str:
    """Write the note on this job; what went wrong, or nothing."""
    import json

    job = os.environ.get("SLURM_JOB_ID", "")
    if not _is_number(job):
        return f"no note: SLURM_JOB_ID is {job!r}"
    uid = os.environ.get("SLURM_JOB_UID", "")
    note: "dict[str, object]" = {
        "schema": NOTE_SCHEMA, "hook": hook, "job_id": job, "uid": int(uid) if _is_number(uid) else None,
        "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0], "at": time.time(),
    }  # fmt: skip
    note.update(extra)
    try:
        _write_new(os.path.join(_run_dir(), "notes"), job + suffix + ".json", json.dumps(note).encode())
    except OSError as error:
        return f"no note: {error.filename or _run_dir()}: {error.strerror}"
    return ""


def _write_new(folder: str, name: str, data: bytes) -> None:
    """Put a file in the folder as a whole: readers see all of it or none."""
    os.makedirs(folder, 0o755, exist_ok=True)
    if len(os.listdir(folder)) >= MAX_NOTES:
        raise OSError(errno.ENOSPC, f"{MAX_NOTES} notes wait already: does the agent run?", folder)
    part = os.path.join(folder, f".{name}.{os.getpid()}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        _write_all(fd, data)
        os.rename(part, os.path.join(folder, name))
    except OSError:
        os.unlink(part)
        raise
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    if os.write(fd, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_number(text: str) -> bool:
    return bool(text) and len(text) < MAX_DIGITS and not text.strip("0123456789")


def _run_dir() -> str:
    return os.environ.get("GUARDCTL_RUN") or RUN_DIR


def _plain(value: object) -> str:
    """Text from a file as one line of printable characters."""
    return "".join(c if c.isprintable() else " " for c in value[:300]) if isinstance(value, str) else ""


# --- the frame: a child, a deadline, exit code 0 --------------------------------------------------------------------


def bounded(work: "Callable[[], tuple[int, str, str]]", deadline_s: float) -> "tuple[int, str, str]":
    """Exit code, stdout and stderr of `work`, done in a child that is killed and left behind at the deadline."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, writer)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], deadline_s)
    answer = os.read(reader, MAX_ANSWER_BYTES) if ready else b""
    os.close(reader)
    if not answer:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    if not answer:
        return 0, "", f"no answer after {deadline_s:g} s" if not ready else "ended without an answer"
    out, _, err = answer[1:].decode("utf-8", "replace").partition("\0")
    return answer[0] - ord("0"), out, err


def _answer(work: "Callable[[], tuple[int, str, str]]", writer: int) -> None:
    """The child's part: work, write, end."""
    try:
        for fd in range(3):
            if fd != writer:
                os.closerange(fd, fd + 1)
        try:
            code, out, err = work()
        except Exception as error:  # noqa: BLE001 - the child's outermost frame
            code, out, err = 0, "", f"{type(error).__name__}: {error}"
        text = f"{code}{out}\0{err}"
        os.write(writer, text.encode("utf-8", "replace")[:MAX_ANSWER_BYTES])
    finally:
        os._exit(0)


def _say(fd: int, text: str) -> None:
    """Write a line, if there is one and somebody reads: Slurm may have closed its end."""
    try:  # noqa: SIM105 - contextlib costs an import
        os.write(fd, (text + "\n").encode("utf-8", "replace") if text else b"")
    except OSError:
        pass


def _give_up(signum: int, frame: object) -> None:
    """The last deadline, for a parent that waits on Slurm's own pipes."""
    del signum, frame
    os._exit(0)


def main(argv: "list[str] | None" = None) -> int:
    """The exit code of one hook."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1 or arguments[0] not in HOOKS:
        _say(2, USAGE)
        return 2
    try:
        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_S + 1.0)
        code, out, err = bounded(lambda: run(arguments[0]), DEADLINE_S)
        _say(1, out)
        _say(2, f"guardctl-hook {arguments[0]}: {err}" if err else "")
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Exception as error:  # noqa: BLE001 - the outermost frame: whatever is wrong here, the job goes on
        _say(2, f"guardctl-hook: {type(error).__name__}: {error}")
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
