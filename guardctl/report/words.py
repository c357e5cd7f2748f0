"""How times, ages and numbers read, and how text that others wrote becomes harmless. Pure."""

import re
from datetime import UTC, datetime

from guardctl.words.records import EventKind

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
MARKDOWN = re.compile(r"[\\`*\[\]<>|&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[#+=-]|(?<=^\d)[.)]")

WHAT: dict[EventKind, str] = {
    EventKind.SUSPECTED: "suspected",
    EventKind.CLEARED: "cleared",
    EventKind.DRAIN_INTENDED: "about to drain",
    EventKind.DRAINED: "drained",
    EventKind.DRAIN_FAILED: "drain failed",
    EventKind.QUARANTINED: "quarantined",
    EventKind.SWEEP_STARTED: "sweep started",
    EventKind.SWEEP_PASSED: "sweep passed",
    EventKind.SWEEP_FAILED: "sweep failed",
    EventKind.SWEEP_INCONCLUSIVE: "sweep could not tell",
    EventKind.RELEASED: "released",
    EventKind.HELD: "held",
    EventKind.UNHELD: "hold lifted",
    EventKind.REPAIRED: "repaired",
    EventKind.RETIRED: "retired",
    EventKind.RESUMED_BY_OTHER: "taken over",
    EventKind.DISPUTED: "drain disputed",
    EventKind.HARDWARE: "hardware seen",
    EventKind.BASELINE: "baseline measured",
    EventKind.REFUSED: "left alone",
    EventKind.HOOK: "hook noted",
    EventKind.MONITOR: "monitor alarm",
}


def clean(text: str) -> str:
    """`text` on one line, without control characters: a job's name must not steer a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def markdown(text: str) -> str:
    """`text` as it reads in Markdown: nothing in it is markup."""
    return MARKDOWN.sub(r"\\\g<0>", clean(text))


def age(seconds: float | None) -> str:
    """`45 s`, `12 min`, `5 h 10 min`, `3 d 4 h`; `-` for unknown."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    if whole < DAY_S:
        return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S} min"
    return f"{whole // DAY_S} d {whole % DAY_S // HOUR_S} h"


def moment(at: datetime | None) -> str:
    """`2026-01-31 12:00:05` in UTC; `-` for unknown."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def number(value: float | None, unit: str = "") -> str:
    """Three digits that count, with the unit; `-` for unknown."""
    if value is None:
        return "-"
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004 - four digits and more are whole
    return f"{digits} {unit}".rstrip()
