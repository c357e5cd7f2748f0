"""Every error that guardctl raises on purpose, and the exit code that it ends a command with.

    GuardError                      exit 1: something went wrong; the message says what to do next
    ├── InputError                  exit 2: a file, option or value that a person gave (file, line, value)
    │   └── PolicyError             exit 2: the policy file
    ├── ClusterError                exit 3: Slurm did not answer, or not in full: nothing was done
    │   └── CommandError            exit 3: one command: argv, exit code, stderr
    │       └── CommandTimeoutError exit 3: one command ran past its deadline and was killed
    ├── LedgerError                 exit 1: the ledger cannot be opened, read or written
    ├── SpoolError                  exit 1: telemetry cannot be written
    ├── BusyError                   exit 1: another monitor or sweep holds the lock
    └── UnavailableError            exit 1: an optional part is not installed here

Expected bad news about a node is a value (`Finding`, `Verdict`), never an exception. Errors are caught once, at the
command, which prints the message and the hint.
"""

from collections.abc import Sequence


class GuardError(Exception):
    """Something went wrong; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InputError(GuardError):
    """A file, option or value that a person gave cannot be used."""

    exit_code = 2


class PolicyError(InputError):
    """The policy file cannot be used."""


class ClusterError(GuardError):
    """Slurm did not answer, or not in full. Unknown is not empty: nothing was done."""

    exit_code = 3


class CommandError(ClusterError):
    """One command failed.

    Keeps `argv`, `returncode` (None when it did not end by itself) and `stderr` for the log.
    """

    def __init__(self, argv: Sequence[str], returncode: int | None, stderr: str, *, hint: str = "") -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr.strip()
        super().__init__(self._describe(), hint=hint)

    def _describe(self) -> str:
        reason = self.stderr.splitlines()[-1] if self.stderr else "it said nothing"
        return f"`{' '.join(self.argv)}` failed with exit code {self.returncode}: {reason}"


class CommandTimeoutError(CommandError):
    """One command ran past its deadline and was killed with its children."""

    def __init__(self, argv: Sequence[str], deadline_s: float, stderr: str = "", *, hint: str = "") -> None:
        self.deadline_s = deadline_s
        super().__init__(argv, None, stderr, hint=hint)

    def _describe(self) -> str:
        return f"`{' '.join(self.argv)}` gave no answer within {self.deadline_s:g} s"


class LedgerError(GuardError):
    """The ledger cannot be opened, read or written."""


class SpoolError(GuardError):
    """Telemetry cannot be written."""


class BusyError(GuardError):
    """Another process holds the lock that this command needs."""


class UnavailableError(GuardError):
    """An optional part is not installed here; the hint says how to get it."""
