"""The one function that runs a child process: in its own process group, with a clean environment and a deadline.

In: an argv list (never a shell line), seconds, perhaps text for stdin. Out: what it printed, or a `CommandError`.

The output goes to anonymous memory files, not to pipes: nothing here ever waits for the end of a pipe that a
grandchild keeps open, and a child that prints much cannot block.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from guardctl.words.errors import CommandError, CommandTimeoutError

SCRUBBED = ("SLURM_", "SINFO_", "SQUEUE_", "SBATCH_", "SALLOC_", "SRUN_", "SCONTROL_", "SACCT_", "SCANCEL_")
KEPT = frozenset({"SLURM_CONF"})  # says which cluster; everything else of the caller would change the answer
FIXED = {"LC_ALL": "C", "TZ": "UTC"}  # Slurm prints times in the caller's zone
GRACE_S = 1.0  # between SIGTERM and SIGKILL, and then until the process is given up
FIRST_PAUSE_S, LAST_PAUSE_S = 0.0005, 0.02
NOT_FOUND, NOT_RUNNABLE = 127, 126  # as a shell reports them

SILENT = "the controller does not answer: `scontrol ping`"
HINTS = (
    ("command not found", "Slurm's client commands are not on PATH: `apt-get install slurm-client`, or point PATH"),
    ("serializer/json", "this Slurm is built without JSON: install its serializer/json plugin"),
    ("munge", "munge does not answer: `systemctl status munge`"),
    ("authentication", "munge does not answer: `systemctl status munge`"),
    ("unable to contact slurm controller", SILENT),
    ("socket timed out", SILENT),
    ("process configuration file", "Slurm finds no slurm.conf here: set SLURM_CONF"),
    ("access/permission denied", "this needs root, SlurmUser or a Slurm administrator (AdminLevel=Admin)"),
    ("invalid user id", "this needs root, SlurmUser or a Slurm administrator (AdminLevel=Admin)"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed. Bytes that are not UTF-8 become U+FFFD."""

    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    *,
    deadline_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
) -> Result:
    """What `argv` printed, if it ends with exit code 0 within `deadline_s`.

    `env`: the caller's environment, `os.environ` if None; it is scrubbed of every Slurm option but SLURM_CONF.
    `extra`: variables added after the scrub. Whatever is left of the child's process group is killed when this
    returns or raises; a process that even SIGKILL does not end is abandoned, at most 2 s past the deadline.

    Raises CommandTimeoutError past the deadline; CommandError if it cannot start or ends with another exit code.
    """
    clean = environment(os.environ if env is None else env) | dict(extra or {})
    with _memory() as out, _memory() as err, _memory(stdin) as given:
        child = _start(argv, clean, given, out, err)
        try:
            in_time = _ended(child.pid, deadline_s)
        finally:
            _end_group(child.pid)
            returncode = _reap(child)
        result = Result(_text(out), _text(err))
    words = result.stderr or result.stdout
    if not in_time:
        raise CommandTimeoutError(argv, deadline_s, words, hint=hint_for(words) or SILENT)
    if returncode != 0:
        raise CommandError(argv, returncode, words, hint=hint_for(words))
    return result


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` without the options of Slurm's commands that it may carry, in English and UTC."""
    kept = {name: value for name, value in base.items() if name in KEPT or not name.startswith(SCRUBBED)}
    return kept | FIXED


def hint_for(stderr: str) -> str:
    """What to do next about this error text, or nothing."""
    low = stderr.lower()
    return next((hint for sign, hint in HINTS if sign in low), "")


@contextmanager
def _memory(text: str = "") -> Iterator[int]:
    """A file in memory. Appending, so that processes that share it do not write over each other."""
    file = os.memfd_create("guardctl")
    try:
        os.write(file, text.encode())
        os.lseek(file, 0, os.SEEK_SET)
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        yield file
    finally:
        os.close(file)


def _text(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def _start(argv: Sequence[str], env: Mapping[str, str], given: int, out: int, err: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, env=env, stdin=given, stdout=out, stderr=err, start_new_session=True)
    except FileNotFoundError as error:
        words = f"{argv[0]}: command not found"
        raise CommandError(argv, NOT_FOUND, words, hint=hint_for(words)) from error
    except (OSError, ValueError) as error:  # not executable, too long, a NUL byte
        raise CommandError(argv, NOT_RUNNABLE, f"{argv[0]}: cannot be run: {error}") from error


def _ended(pid: int, within_s: float) -> bool:
    """Whether the child ends within that time. It is not reaped, so that its group id stays ours until the kill."""
    end, pause = time.monotonic() + within_s, FIRST_PAUSE_S
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE_S)
    return True


def _end_group(pid: int) -> None:
    """SIGTERM to the group of a child that still runs, then SIGKILL to all that is left of it."""
    with suppress(ProcessLookupError, PermissionError):
        if not _ended(pid, 0):
            os.killpg(pid, signal.SIGTERM)
            _ended(pid, GRACE_S)
        os.killpg(pid, signal.SIGKILL)


def _reap(child: subprocess.Popen[bytes]) -> int | None:
    """The exit code, or None for a process that is stuck in the kernel and is left to itself."""
    return child.wait() if _ended(child.pid, GRACE_S) else None
