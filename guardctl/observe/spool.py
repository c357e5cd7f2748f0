"""Telemetry without a server: JSON Lines on a shared file system, one writer per file.

    <state>/telemetry/<node>/<YYYYmmddTHH>.jsonl
    {"schema": "guardctl.telemetry/1", "node": "n7", "boot_id": "...", "version": "0.1.0", "at": 17673...}
    {"at": 1767322000.5, "source": "gpu", "device": "0", "uuid": "GPU-...", "serial": "...", "values": {...}}

Each batch begins with a header, and lines hold what follows it: a reader needs only the end of a file. A torn last line
is a writer at work, not an error; any other line that cannot be read is named and left out. pandas is loaded only to
read: the agent, which only writes, stays small.
"""

import errno
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardctl import __version__
from guardctl.observe.identity import checked
from guardctl.words.errors import SpoolError
from guardctl.words.records import Reading

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
SCHEMA = "guardctl.telemetry/1"
HOUR = "%Y%m%dT%H"
COLUMNS = ("node", "source", "device", "uuid", "serial", "boot_id", "at")
RESERVED = frozenset(COLUMNS)
HEAD_MARK = b'\n{"schema"'
FIRST_TAIL_BYTES = 128 * 1024  # the windows of the default policy; doubled until it reaches back far enough
MAX_AT = 9e9  # s since 1970, year 2255; the nanoseconds of pandas end in 2262
MAX_WARNINGS = 5  # per file: a damaged file has one cause, not thousands


@dataclass
class Spool:
    """The writer of one node. A batch is appended in one write, so that a reader sees whole lines of it."""

    state_dir: Path
    node: str
    boot_id: str | None
    _path: Path | None = field(default=None, init=False)

    def append(self, readings: Sequence[Reading], now: datetime) -> None:
        """Add a batch. Raises SpoolError, which names the file and what the system said."""
        path = folder(self.state_dir, self.node) / f"{now.astimezone(UTC):{HOUR}}.jsonl"
        new = path != self._path
        data = "".join(line + "\n" for line in (_header(self.node, self.boot_id, now), *map(_line, readings))).encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _append(path, b"\n" + data if new and _is_torn(path) else data)
        except OSError as error:
            hint = "free or grow the file system, or lower observe.retention_h" if _full(error) else "look at state_dir"
            raise SpoolError(f"{path}: {error.strerror}", hint=hint) from error
        self._path = path


def _append(path: Path, data: bytes) -> None:
    """All of `data`, or as if nothing had been written: a full disk leaves no torn line behind."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        before = os.fstat(fd).st_size
        written = os.write(fd, data)
        if written < len(data):
            os.ftruncate(fd, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def _is_torn(path: Path) -> bool:
    """Whether a writer before us ended in the middle of a line, which would swallow our header."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except FileNotFoundError:
        return False


def _full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _header(node: str, boot_id: str | None, now: datetime | None = None) -> str:
    """`now`: when the batch is written; readings in it may be older, such as a hook's notes."""
    head = {"schema": SCHEMA, "node": node, "boot_id": boot_id, "version": __version__}
    return json.dumps(head if now is None else {**head, "at": now.timestamp()})


def _line(reading: Reading) -> str:
    values = {key: value for key, value in reading.values.items() if value is not None}  # noqa: PD011 - a mapping
    row = {"at": reading.at.timestamp(), "source": reading.source.value, "device": reading.device,
           "uuid": reading.uuid, "serial": reading.serial, "values": values}  # fmt: skip
    return json.dumps({key: value for key, value in row.items() if value is not None})


def folder(state_dir: Path, node: str) -> Path:
    """Where the telemetry of `node` lies."""
    return state_dir / "telemetry" / checked(node)


# --- reading --------------------------------------------------------------------------------------------------------


def read(state_dir: Path, nodes: Iterable[str], since: datetime) -> "pd.DataFrame":
    """Readings of `nodes` from `since` on, one row each: `COLUMNS` and a column per signal; unknown is NaN or None."""
    import pandas as pd

    rows = [row for node in nodes for row in _rows_of(state_dir, node, since)]
    table = pd.DataFrame(rows, columns=None if rows else list(COLUMNS))
    table["at"] = pd.to_datetime(table["at"], unit="s", utc=True).dt.as_unit("ns")  # else by the values
    return table


def _rows_of(state_dir: Path, node: str, since: datetime) -> Iterator[dict[str, Any]]:
    begin = since.timestamp()
    for path in _files(folder(state_dir, node), since):
        yield from (row for row in _parse(path, begin) if row["at"] >= begin)


def _files(place: Path, since: datetime) -> list[Path]:
    """The files whose hour can hold something from `since` on; names sort by time."""
    first = f"{since.astimezone(UTC):{HOUR}}.jsonl"
    return sorted(path for path in place.glob("*.jsonl") if path.name >= first)


def _parse(path: Path, begin: float) -> Iterator[dict[str, Any]]:
    """A row per reading from `begin` (s since 1970) on, and some from before it."""
    try:
        with path.open("rb") as file:
            data, offset = _tail(file.fileno(), begin)
    except OSError as error:
        log.warning("%s: left out: %s", path, error.strerror)
        return
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    whole = lines if not lines or lines[-1].endswith("\n") else lines[:-1]
    yield from parse_lines(whole, f"{path} from byte {offset}" if offset else str(path))


def _tail(fd: int, begin: float) -> tuple[bytes, int]:
    """The end of a file, from the header of a batch that is older than `begin`, and where it begins; or all of it.

    An hour of a node with eight GPUs is a megabyte, of which a tick needs a tenth.
    """
    size = os.fstat(fd).st_size
    length = min(FIRST_TAIL_BYTES, size)
    while length < size:
        data = os.pread(fd, length, size - length)
        first = data.find(HEAD_MARK) + 1
        if first and _written_before(data[first : data.find(b"\n", first)], begin):
            return data[first:], size - length + first
        length = min(2 * length, size)
    return os.pread(fd, size, 0), 0


def _written_before(header: bytes, begin: float) -> bool:
    """Whether the batch behind this header was written before `begin`; not, if the header does not say."""
    head = _object(header.decode("utf-8", "replace")) or {}
    at = head.get("at")
    return isinstance(at, int | float) and at < begin


def parse_lines(lines: Iterable[str], name: str) -> Iterator[dict[str, Any]]:
    """A row per reading. `name`: what warnings call the file; at most `MAX_WARNINGS` of them are given."""
    head: Mapping[str, Any] | None = None
    num_bad = 0
    for number, line in enumerate(lines, start=1):
        row = _object(line)
        if row is not None and row.get("schema") == SCHEMA:
            head = row
        elif row is not None and head is not None and _is_reading(row):
            yield _row(row, head)
        else:
            num_bad += 1
            if num_bad <= MAX_WARNINGS:
                log.warning("%s:%d: left out, no reading: %s", name, number, line.strip()[:80])


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_reading(row: Mapping[str, Any]) -> bool:
    at, values = row.get("at"), row.get("values")
    sane = isinstance(at, int | float) and 0 <= at < MAX_AT
    return sane and isinstance(values, dict) and isinstance(row.get("source"), str)


def _row(row: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = row["values"]
    if not RESERVED.isdisjoint(values):
        values = {key: value for key, value in values.items() if key not in RESERVED}
    known = {key: row.get(key) for key in ("source", "uuid", "serial", "at")}
    return values | known | {"node": head.get("node"), "boot_id": head.get("boot_id"), "device": row.get("device", "")}


# --- upkeep ---------------------------------------------------------------------------------------------------------


def ages(state_dir: Path, now: datetime) -> dict[str, float]:
    """Seconds since each node's spool was written to, by node."""
    newest: dict[str, float] = {}
    for path in (state_dir / "telemetry").glob("*/*.jsonl"):
        try:
            newest[path.parent.name] = max(path.stat().st_mtime, newest.get(path.parent.name, 0.0))
        except FileNotFoundError:
            continue  # pruned meanwhile
    return {node: max(0.0, now.timestamp() - at) for node, at in newest.items()}


def prune(state_dir: Path, node: str, keep_h: float, now: datetime) -> int:
    """Remove the node's files that are older than `keep_h` hours; how many there were."""
    oldest = f"{(now - timedelta(hours=keep_h)).astimezone(UTC):{HOUR}}.jsonl"
    old = [path for path in folder(state_dir, node).glob("*.jsonl") if path.name < oldest]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)
