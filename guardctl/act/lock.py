"""One monitor at a time: a lock on a file that the kernel drops when its holder dies, however it dies."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from guardctl.words.errors import BusyError, SpoolError


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold the lock at `path` for the block; `BusyError` names who has it. The file stays, so that nobody races."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise SpoolError(f"{path}: cannot be opened for the lock of the {what}: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.seek(0)
            hint = "stop it first, or let it work: `guardctl status` shows what it knows"
            raise BusyError(f"another {what} runs: {_describe(handle.read())} ({path})", hint=hint) from error
        handle.truncate(0)
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        handle.write(json.dumps(holder))
        handle.flush()
        yield


def _describe(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"pid {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "its holder has not said who it is"
