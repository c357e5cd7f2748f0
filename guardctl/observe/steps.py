"""Step times that jobs wrote about themselves: a user's input.

Opened without following links and without waiting on pipes; a file must be regular, belong to the job's own user, and
only its newest bytes under the cap are read. A line says what it likes, so numbers must be sane and the node one of the
job's own. What does not fit is left out and named.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "guardctl.steps/1"
COLUMNS = ("job_id", "rank", "node", "gpu", "step", "busy_s", "step_s", "at", "stage", "tokens")
FILE = re.compile(r"rank(\d{1,7})\.jsonl")
JOB = re.compile(r"[0-9][0-9_+]*")
HEAD_BYTES = 4096
FIRST_TAIL_BYTES = 256 * 1024  # some minutes of steps; doubled until it reaches back far enough
MAX_STEP_S = 86_400.0
MAX_AT = 9e9  # year 2255; the nanoseconds of pandas end in 2262
MAX_WARNINGS = 5  # per job
MAX_RANKS = 65_536  # files of one job that are opened: more than the largest jobs have, fewer than a user could make
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)  # what a line can make of the JSON parser and of us


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose job it is and where it runs: what its files are held against."""

    uid: int
    nodes: frozenset[str]


def read(
    state_dir: Path, jobs: Mapping[str, Owner], since: datetime, max_bytes: int
) -> "tuple[pd.DataFrame, list[str]]":
    """Steps of `jobs` from `since` on, a row each with `COLUMNS` (unknown is NaN), and what was left out, in words."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    for job_id, owner in jobs.items():
        found = _Job(state_dir / "steps" / job_id, job_id, owner, since.timestamp(), max_bytes, [])
        rows += found.rows()
        warnings += found.warnings
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["at"] = pd.to_datetime(table["at"], unit="s", utc=True).dt.as_unit("ns")  # else by the values
    return table, warnings


@dataclass(frozen=True, slots=True)
class _Job:
    path: Path
    job_id: str
    owner: Owner
    since: float
    max_bytes: int
    warnings: list[str]

    def _warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)

    def rows(self) -> list[dict[str, Any]]:
        """The steps in all files of the job."""
        if not JOB.fullmatch(self.job_id):
            return []
        try:
            with _opened(self.path, os.O_DIRECTORY) as fd:
                if os.fstat(fd).st_uid != self.owner.uid:
                    self._warn(f"{self.path}: does not belong to the job's user {self.owner.uid}: left out")
                    return []
                names = sorted(filter(FILE.fullmatch, os.listdir(fd)))  # noqa: PTH208 - of an open folder, not a path
                if len(names) > MAX_RANKS:
                    self._warn(f"{self.path}: {len(names)} files: only {MAX_RANKS} are read")
                return [row for name in names[:MAX_RANKS] for row in self._file(name, fd)]
        except FileNotFoundError:
            return []  # this job does not use the step timer
        except OSError as error:
            self._warn(f"{self.path}: {error.strerror}: left out")
            return []

    def _file(self, name: str, folder: int) -> Iterator[dict[str, Any]]:
        try:
            with _opened(name, os.O_NONBLOCK, folder) as fd:
                problem = self._problem(os.fstat(fd))
                if problem:
                    self._warn(f"{self.path / name}: {problem}: left out")
                    return
                head = _head(os.pread(fd, HEAD_BYTES, 0), self.owner)
                lines = _tail(fd, self.since, self.max_bytes)
        except OSError as error:
            self._warn(f"{self.path / name}: {error.strerror}: left out")
            return
        if head is None:
            self._warn(f"{self.path / name}:1: no header, or not a node of this job: left out")
            return
        yield from self._parse(lines, {"job_id": self.job_id, "rank": int(FILE.fullmatch(name)[1]), **head}, name)  # type: ignore[index]

    def _problem(self, found: os.stat_result) -> str:
        if not stat.S_ISREG(found.st_mode):
            return "not a regular file"
        return "" if found.st_uid == self.owner.uid else f"belongs to user {found.st_uid}, not {self.owner.uid}"

    def _parse(self, lines: list[bytes], known: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(reversed(lines), start=1):
            row = _step(line)
            if row is None:
                words = line[:60].decode("utf-8", "replace")  # quoted below: a user's text ends in people's terminals
                self._warn(f"{self.path / name}: line {number} from the end: no step: {words!r}")
            elif row["at"] >= self.since:
                yield {**known, **row}


@contextmanager
def _opened(path: "Path | str", flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _head(data: bytes, owner: Owner) -> dict[str, Any] | None:
    """Node, GPU and stage that the file's first line claims; None if it is no header or claims another job's node."""
    try:
        head = json.loads(data.split(b"\n", 1)[0])
        fits = head["schema"] == SCHEMA and head["node"] in owner.nodes
    except UNREADABLE:
        return None
    return {"node": head["node"], "gpu": _whole(head.get("gpu")), "stage": _whole(head.get("stage"))} if fits else None


def _tail(fd: int, since: float, max_bytes: int) -> list[bytes]:
    """The newest whole lines without the header: as far back as `since`, or as the cap allows."""
    size = os.fstat(fd).st_size
    length = FIRST_TAIL_BYTES
    while True:
        length = min(length, max_bytes, size)
        begin = size - length
        lines = os.pread(fd, length, begin).split(b"\n")[:-1]  # behind the last newline: torn, or nothing
        lines = lines[1:]  # the header, or a line whose beginning was not read
        oldest = _step(lines[0]) if lines else None
        if begin == 0 or length == max_bytes or (oldest is not None and oldest["at"] < since):
            return lines
        length *= 2


def _step(line: bytes) -> dict[str, Any] | None:
    """One line as a row, or None if it is not a sane one."""
    try:
        row = json.loads(line)
    except UNREADABLE:
        return None
    if not isinstance(row, dict) or _whole(row.get("step")) is None:
        return None
    at, busy_s, step_s = row.get("at"), row.get("busy_s"), row.get("step_s")
    if not (_seconds(busy_s) and (step_s is None or _seconds(step_s)) and _number(at)):
        return None
    return {"step": row["step"], "busy_s": busy_s, "step_s": step_s, "at": at, "tokens": _whole(row.get("tokens"))}


def _number(value: object) -> TypeGuard[float]:
    """A number from 0 to the year 2255. NaN fails the bounds; `math.isfinite` would raise on an int of 400 digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_AT


def _seconds(value: object) -> TypeGuard[float]:
    return _number(value) and value <= MAX_STEP_S


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
