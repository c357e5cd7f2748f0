"""Folding a long ledger into standings: the first time in a process, and at every tick after it."""

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from guardctl.ledger.store import Ledger
from guardctl.words.records import Event, EventKind

LIFE = (
    (EventKind.SUSPECTED, 0), (EventKind.DRAIN_INTENDED, 1), (EventKind.DRAINED, 1), (EventKind.QUARANTINED, 5),
    (EventKind.SWEEP_STARTED, 6), (EventKind.SWEEP_PASSED, 12), (EventKind.RELEASED, 12), (EventKind.CLEARED, 100),
)  # fmt: skip
NUM_NODES = 1024
NEW = 40  # events of one busy tick


def measure(num_events: int = 100_000) -> dict[str, Any]:
    """Processor seconds of `Ledger.standings` with SQLite: first, and again after a tick's events."""
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="guardctl-bench-") as folder:
        url = f"sqlite:///{folder}/ledger.db"
        events = _lives(num_events + NEW, now)
        with Ledger.open(url) as ledger:
            ledger.append([next(events) for _ in range(num_events)])
        with Ledger.open(url) as ledger:
            first_s = _fold(ledger, now)
            ledger.append(list(events))
            next_s = _fold(ledger, now)
    return {"events": num_events, "first_fold_s": round(first_s, 3), "next_fold_s": round(next_s, 4)}


def _fold(ledger: Ledger, now: datetime) -> float:
    began = time.process_time()
    ledger.standings(now)
    return time.process_time() - began


def _lives(num_events: int, now: datetime) -> Iterator[Event]:
    """Node after node is suspected, drained, swept and released, all over again."""
    begin = now - timedelta(days=60)
    for number in range(num_events):
        life, step = divmod(number, len(LIFE))
        kind, minutes = LIFE[step]
        at = begin + timedelta(minutes=life * 2, seconds=minutes)
        detail = {"reason": f"guardctl:{life} slow", "user": "guard", "at": at.isoformat(), "kinds": ["steps", "host"]}
        yield Event(f"n{life % NUM_NODES}", at, kind, "busy time 25% longer than its peers", f"t{life}", detail,
                    actor="guard@head", version="0.1.0", policy_hash="9f2c41d07ab3")  # fmt: skip
