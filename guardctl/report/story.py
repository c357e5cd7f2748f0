"""Events as a story: what each line says, with the numbers behind it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from guardctl.report.rows import EventRow
from guardctl.report.words import clean, number
from guardctl.words.records import Event, EventKind

# Said already by the line itself, or by the first line of the incident, or only of use to the fold.
SILENT = frozenset({
    "reason", "user", "at", "kinds", "checks", "level", "health", "hard", "gpu_uuids", "cause", "evidence", "changes",
    "rebooted", "person", "nodes",
})  # fmt: skip
UNITS = {"_gbps": "GB/s", "_tflops": "TFLOP/s", "_mhz": "MHz", "_s": "s", "_ms": "ms", "_w": "W", "_c": "C"}
NAMES = {"relative": "speed against its peers", "gpu": "GPU"}
MAX_ITEMS = 8


def tell(events: Iterable[Event]) -> list[EventRow]:
    """A row per event that says something; an intent that its drain follows at once is left out."""
    listed = list(events)
    done = {each.incident for each in listed if each.kind in {EventKind.DRAINED, EventKind.DRAIN_FAILED}}
    told: set[str] = set()
    rows = []
    for event in listed:
        if event.kind is EventKind.DRAIN_INTENDED and event.incident in done:
            continue
        evidence = tuple(each for each in _evidence(event) if each not in told)
        told |= set(evidence)
        rows.append(_row(event, evidence))
    return rows


def _row(event: Event, evidence: tuple[str, ...]) -> EventRow:
    return EventRow(
        id=event.id,
        at=event.at,
        node=event.node,
        kind=event.kind,
        why=clean(event.why),
        incident=event.incident,
        evidence=evidence,
        actor=event.actor,
        version=event.version,
        policy_hash=event.policy_hash,
    )


TOLD_BY_EVIDENCE = frozenset({"culprit", "numbers", "result", "gpu"})


def _evidence(event: Event) -> Iterator[str]:
    spoken = event.detail.get("evidence")
    for each in spoken if isinstance(spoken, list | tuple) else ():
        if clean(str(each)) not in clean(event.why):
            yield clean(str(each))
    told = TOLD_BY_EVIDENCE if spoken else frozenset()  # the sentences have these numbers already
    left = {key: value for key, value in event.detail.items() if key not in told}
    facts = "; ".join(f"{name} {value}" for name, value in numbers(left))
    if facts:
        yield facts


def numbers(detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and value of everything in `detail` that a person may want to see, units written out."""
    for key, value in detail.items():
        text = _value(key, value)
        if key not in SILENT and text:
            yield _name(key), text


def _unit(key: str) -> str:
    return next((unit for unit in UNITS if key.endswith(unit)), "")


def _name(key: str) -> str:
    return NAMES.get(key) or clean(key.removesuffix(_unit(key)).replace("_", " "))


def _value(key: str, value: Any) -> str:
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return number(value, UNITS.get(_unit(key), ""))
        case list() | tuple():
            return ", ".join(_value(key, each) for each in value[:MAX_ITEMS]) + (
                ", ..." if len(value) > MAX_ITEMS else ""
            )
        case Mapping():
            return ", ".join(f"{name} {text}" for name, text in numbers(value))
        case _:
            return clean(str(value))
