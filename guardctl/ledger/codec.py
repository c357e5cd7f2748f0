"""Events to rows and to JSON and back, times to microseconds and back, and the tags of incidents. Pure."""

import json
import math
import numbers
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

from guardctl.ledger.schema import EVENT_SCHEMA
from guardctl.words.records import Event, EventKind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # no 0 o, 1 i l, or u: read aloud and typed again without a mistake
FIRST_TAG = len(ALPHABET) ** 2  # so that the first tag already has three characters


def micros(at: datetime) -> int:
    """Microseconds since 1970 in UTC. Raises ValueError for a time without a zone."""
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    return (at - EPOCH) // timedelta(microseconds=1)


def moment(value: int) -> datetime:
    """The UTC time of `value` microseconds since 1970; the inverse of `micros`."""
    return EPOCH + timedelta(microseconds=value)


def iso(at: datetime) -> str:
    """ISO 8601 in UTC, `2026-01-31T12:00:00Z`."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def tag(number: int) -> str:
    """The tag of the incident with this number (1 and up), such as `4k2`. Longer ones are later, then as text sorts."""
    rest, digits = number + FIRST_TAG - 1, ""
    while rest:
        rest, digit = divmod(rest, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def number_of(incident: str) -> int | None:
    """The number behind a tag; None if it is not one of ours."""
    value = 0
    for letter in incident:
        if letter not in ALPHABET:
            return None
        value = value * len(ALPHABET) + ALPHABET.index(letter)
    number = value - FIRST_TAG + 1
    return number if number > 0 else None


def plain(value: Any) -> Any:
    """`value` as JSON has it: dataclasses are objects, times ISO 8601 in UTC, enums their values, sets sorted lists.

    A float that is not finite is unknown and becomes null. Text loses what no database and no terminal can hold (NUL,
    lone surrogates). Raises TypeError for anything else.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str | PurePath):
        return str(value).replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, numbers.Real):
        return _plain_number(value)
    return iso(value) if isinstance(value, datetime) else _plain_many(value)


def _plain_number(value: numbers.Real) -> int | float | None:
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if math.isfinite(value) else None


def _plain_many(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((plain(each) for each in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    raise TypeError(f"{value!r} of type {type(value).__name__} has no JSON form")


def row_of(event: Event) -> dict[str, Any]:
    """The columns of `event`, without its id."""
    return {
        "schema": EVENT_SCHEMA,
        "node": plain(event.node),
        "at": micros(event.at),
        "kind": str(event.kind),
        "why": plain(event.why),
        "incident": plain(event.incident),
        "detail": json.dumps(plain(event.detail), sort_keys=True),
        "gpu_uuid": plain(event.gpu_uuid),
        "serial": plain(event.serial),
        "boot_id": plain(event.boot_id),
        "actor": plain(event.actor),
        "version": plain(event.version),
        "policy_hash": plain(event.policy_hash),
    }


def event_of(row: Mapping[str, Any]) -> Event | None:
    """The event in a row; None if a newer guardctl wrote a kind that this one does not know."""
    kind = KINDS.get(row["kind"])
    if kind is None:
        return None
    return Event(
        node=row["node"],
        at=moment(row["at"]),
        kind=kind,
        why=row["why"],
        incident=row["incident"],
        detail={} if row["detail"] == "{}" else json.loads(row["detail"]),
        gpu_uuid=row["gpu_uuid"],
        serial=row["serial"],
        boot_id=row["boot_id"],
        actor=row["actor"],
        version=row["version"],
        policy_hash=row["policy_hash"],
        id=row["id"],
    )


KINDS: Mapping[str, EventKind] = {str(kind): kind for kind in EventKind}
