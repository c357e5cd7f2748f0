"""How Slurm writes a number, a time, a word and a list, read into plain values. Unknown is None, never 0.

The shape is looked at, not the release: numbers are plain or {set, infinite, number}, lists are lists or comma
separated, absent is null, "", "(null)", "N/A", "None" or a sentinel.
"""

import re
from datetime import UTC, datetime
from typing import Any

ABSENT = frozenset({"", "(null)", "n/a", "none", "null"})
# NO_VAL and INFINITE of slurm.h in 32 and 64 bits, and -2 as older JSON prints it
SENTINELS = frozenset({-2, 2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1})
SECOND = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
QUOTES = "\"'"
MAX_EPOCH_S = 2**33  # the year 2242; Slurm's forecasts may run further


def number(value: Any) -> int | None:
    """A whole number; None where Slurm does not know it."""
    if isinstance(value, dict):
        known = value.get("set", True) and not value.get("infinite", False)
        return number(value.get("number")) if known else None
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?\d+", value) and int(value) not in SENTINELS else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in SENTINELS else int(value)


def moment(value: Any) -> datetime | None:
    """A time in UTC, from seconds since 1970 or from Slurm's text (printed with TZ=UTC); 0 is no time."""
    if isinstance(value, str) and re.fullmatch(SECOND, value):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    seconds = number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds < MAX_EPOCH_S else None


def word(value: Any) -> str | None:
    """A text without blanks around it; None where it stands for nothing."""
    text = value.strip() if isinstance(value, str) else ""
    return None if text.lower() in ABSENT else text


def reason(value: Any) -> str | None:
    """A reason without the pair of quotes that some tools store around it; None where there is none."""
    text = word(value)
    while text and len(text) > 1 and text[0] in QUOTES and text[-1] == text[0]:
        text = word(text[1:-1])
    return text


def words(value: Any) -> tuple[str, ...]:
    """The items of a list, or of a text with commas between them."""
    items = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return tuple(text for item in items if (text := word(item)) is not None)


def num_gpus(gres: Any) -> int:
    """GPUs in a gres such as `gpu:8(S:0-3)` or `gpu:h100:4,gpu:a100:4,shard:8`; 0 when it has none."""
    text = word(gres) or ""
    items = re.sub(r"\([^)]*\)", "", text).split(",")
    return sum(_count(item.strip()) for item in items if item.strip().split(":")[0] == "gpu")


def _count(item: str) -> int:
    last = item.rsplit(":", maxsplit=1)[-1]
    return int(last) if last.isdigit() else 1  # Slurm's default is one of a kind
