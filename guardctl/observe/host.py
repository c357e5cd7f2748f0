"""What the node itself says: load, memory, the cgroup of its jobs, and the notes that the hooks left."""

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guardctl.observe import cgroup
from guardctl.observe.nvml import Gpus
from guardctl.words.policy import Policy
from guardctl.words.records import Reading, Source, Value

NOTE_SCHEMA = "guardctl.note/1"
MAX_NOTE_BYTES = 4096
PROC = Path("/proc")
KIB = 1024


def read(gpus: Gpus, log_why: str, policy: Policy, node: str, boot_id: str | None, now: datetime) -> Reading:
    """One reading of the host. `gpus`, `log_why`: what the driver and the kernel log said of themselves."""
    values: dict[str, Value] = {
        "num_gpus": gpus.num_gpus,
        "expected_gpus": policy.observe.expected_gpus,
        "nvml_hang": gpus.hang,
        "nvml_why": gpus.why or None,
        "log_why": log_why or None,
        "load1": _first(PROC / "loadavg"),
        "uptime_s": _first(PROC / "uptime"),
        **parse_meminfo(_text(PROC / "meminfo")),
        **cgroup.read(policy.observe.cgroup),
    }
    return Reading(node, now, Source.HOST, boot_id=boot_id, values=values)


def parse_meminfo(text: str) -> dict[str, Value]:
    """Total and available memory in bytes, None where /proc/meminfo does not say."""
    rows = {key: rest.split() for key, _, rest in (line.partition(":") for line in text.splitlines())}

    def size(key: str) -> int | None:
        words = rows.get(key)
        return int(words[0]) * KIB if words and words[0].isdigit() else None

    return {"mem_total_bytes": size("MemTotal"), "mem_available_bytes": size("MemAvailable")}


def _first(path: Path) -> float | None:
    words = _text(path).split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def notes(policy: Policy, node: str, boot_id: str | None) -> Iterator[tuple[Path, Reading]]:
    """Notes that prologs and epilogs left, oldest first, each with its file; the caller removes what it has kept."""
    place = policy.observe.run_dir / "notes"
    found = {path: _note(path) for path in place.glob("[0-9]*.json")}
    for path in (path for path, note in found.items() if note is None):
        with contextlib.suppress(OSError):
            path.unlink()  # nobody can read it later either
    for path, note in sorted(((path, note) for path, note in found.items() if note), key=lambda pair: pair[1]["at"]):
        at = datetime.fromtimestamp(note["at"], UTC)
        values = {key: note.get(key) for key in ("hook", "job_id", "uid", "refused", "why")}
        yield path, Reading(node, at, Source.HOST, "hook", boot_id=boot_id, values=values)


def _note(path: Path) -> dict[str, Any] | None:
    """A note, with its time as a number."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            note = json.loads(os.read(fd, MAX_NOTE_BYTES))
        finally:
            os.close(fd)
        ok = note["schema"] == NOTE_SCHEMA and 0 <= float(note["at"]) < 1e11  # noqa: PLR2004 - year 5138
        return {**note, "at": float(note["at"])} if ok else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
