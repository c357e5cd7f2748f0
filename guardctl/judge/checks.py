"""Faults that a node's own readings show, without any peer: hard ones may act at once, soft ones are for watching.

Hard: a GPU that is lost, hangs the driver, is missing, whose row remap failed, or an Xid that only broken hardware
gives. Soft: what a reset cures, and a GPU that is held back by its power supply. Not a finding: a recovered
uncorrectable ECC error, low clocks at idle, and the Xids that an application can cause.

pandas is loaded only by `latest`: the agent, which runs on every node and calls `run`, stays small.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from guardctl.judge.reasons import HW_SLOWDOWN, POWER_BRAKE, THERMAL
from guardctl.judge.xids import XidClass, classify
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Reading, Source, Value

if TYPE_CHECKING:
    import pandas as pd

LOW_POWER_FRACTION = 0.7  # of the limit: hardware that slows a busy GPU far under its limit is not saving power
LOADED_PERCENT = 50.0
TWICE = frozenset({"gpu_hang", "gpu_missing"})  # a driver that was slow once, or is still loading, is no fault
STATES = (Source.GPU, Source.HOST)
SIGNALS = (
    "lost", "hang", "why", "remapped_failed", "remapped_pending", "retired_pages_pending", "ecc_uncorrected_volatile",
    "recovery_action", "event_reasons", "power_w", "power_limit_w", "utilization_percent", "num_gpus", "expected_gpus",
    "nvml_hang", "nvml_why", "event", "xid", "fatal", "pci", "gpu",
)  # fmt: skip


def run(readings: Sequence[Reading], policy: Policy) -> list[Finding]:
    """The findings in readings that are all current; each says what was seen, in plain words with the numbers."""
    found: dict[tuple[object, ...], Finding] = {}
    for reading in readings:
        for finding in _look(reading, policy):
            found[finding.node, finding.check, finding.gpu, finding.detail] = finding
    return list(found.values())


def latest(telemetry: "pd.DataFrame", policy: Policy) -> list[Finding]:
    """The findings of every node's newest readings, and of all its log lines in the table.

    A hang and a missing GPU must be there in the newest two readings: once is not enough.
    """
    from guardctl.judge import tables

    if telemetry.empty:
        return []
    states = telemetry[telemetry["source"].isin(STATES)].reset_index(drop=True)
    states = states.assign(device=tables.texts(states, "device"))
    pairs = tables.last(states, ["node", "source", "device"], num=2)
    newest = tables.last(pairs, ["node", "source", "device"])
    before = run(_readings(pairs.drop(newest.index)), policy)
    again = {(each.node, each.check, each.gpu) for each in before}
    found = run(_readings(newest), policy)
    steady = [each for each in found if each.check not in TWICE or (each.node, each.check, each.gpu) in again]
    return [*steady, *run(_readings(tables.of_source(telemetry, Source.LOG)), policy)]


def _readings(rows: "pd.DataFrame") -> list[Reading]:
    """Rows of the wide table as readings; only the signals that are looked at."""
    import pandas as pd

    from guardctl.judge import tables

    names = [name for name in SIGNALS if name in rows]
    rows = rows.assign(uuid=tables.texts(rows, "uuid"), device=tables.texts(rows, "device"))
    records = rows[["node", "at", "source", "device", "uuid", *names]].to_dict("records")
    return [
        Reading(
            str(row["node"]), row["at"].to_pydatetime(warn=False), Source(row["source"]),
            device=str(row["device"]), uuid=row["uuid"] or None,
            values={name: row[name] for name in names if not pd.isna(row[name])},
        )
        for row in records
    ]  # fmt: skip


def _look(reading: Reading, policy: Policy) -> Iterator[Finding]:
    if reading.source is Source.GPU:
        yield from _gpu(reading)
    elif reading.source is Source.HOST:
        yield from _host(reading, policy)
    elif reading.source is Source.LOG:
        yield from _log(reading)


# --- one GPU --------------------------------------------------------------------------------------------------------


def _gpu(reading: Reading) -> Iterator[Finding]:
    why = _get(reading, "why") or "no more"
    if _get(reading, "lost"):
        yield _finding(reading, "gpu_lost", f"the driver says that the GPU is lost: {why}", hard=True)
    if _get(reading, "hang"):
        yield _finding(reading, "gpu_hang", f"a driver call did not return: {why}", hard=True)
    yield from _memory(reading)
    yield from _power(reading)
    if action := _number(_get(reading, "recovery_action")):
        yield _finding(reading, "recovery_action", f"the driver asks for recovery action {action:g}", hard=False)


def _memory(reading: Reading) -> Iterator[Finding]:
    """A remap that failed ends the GPU's life; one that is pending needs a reset; an error alone was recovered."""
    errors = _number(_get(reading, "ecc_uncorrected_volatile"))
    counted = f"{errors:g} uncorrectable ECC errors since boot" if errors is not None else "error count unknown"
    if _get(reading, "remapped_failed"):
        yield _finding(reading, "ecc_uncorrectable", f"a row remap failed, {counted}", hard=True)
    elif _get(reading, "remapped_pending") or _get(reading, "retired_pages_pending"):
        yield _finding(reading, "remap_pending", f"a memory repair waits for a reset, {counted}", hard=False)


def _power(reading: Reading) -> Iterator[Finding]:
    """Held back from outside. A software power cap with high power is normal; a hardware slowdown with low is not."""
    reasons = int(_number(_get(reading, "event_reasons")) or 0)
    power_w, limit_w = _number(_get(reading, "power_w")), _number(_get(reading, "power_limit_w"))
    busy = _number(_get(reading, "utilization_percent"))
    drawn = f"{power_w:.0f} W of {limit_w:.0f} W" if power_w is not None and limit_w else "power unknown"
    low = power_w is not None and bool(limit_w) and power_w < LOW_POWER_FRACTION * (limit_w or 0)
    if reasons & POWER_BRAKE:
        yield _finding(reading, "power_brake", f"the power brake is on, {drawn}", hard=False)
    elif reasons & HW_SLOWDOWN and not reasons & THERMAL and low and (busy is None or busy >= LOADED_PERCENT):
        yield _finding(reading, "hw_slowdown", f"hardware slowdown at low power, {drawn}", hard=False)


# --- the node and its log -------------------------------------------------------------------------------------------


def _host(reading: Reading, policy: Policy) -> Iterator[Finding]:
    found = _number(_get(reading, "num_gpus"))
    expected = _number(_get(reading, "expected_gpus"))
    expected = float(policy.observe.expected_gpus) if policy.observe.expected_gpus is not None else expected
    if found is not None and expected is not None and found < expected:
        yield _finding(reading, "gpu_missing", f"{found:g} GPUs found, {expected:g} expected", hard=True)
    if _get(reading, "nvml_hang"):
        why = _get(reading, "nvml_why") or "no answer"
        yield _finding(reading, "gpu_hang", f"the driver as a whole hangs: {why}", hard=True)


def _log(reading: Reading) -> Iterator[Finding]:
    where = f" at PCI {_get(reading, 'pci')}" if _get(reading, "pci") else ""
    if _get(reading, "event") == "fell_off_bus":
        yield _finding(reading, "gpu_lost", f"kernel log: GPU fell off the bus{where}", hard=True)
    if (code := _number(_get(reading, "xid"))) is not None:
        fatal = _get(reading, "fatal")
        kind, words = classify(int(code), None if fatal is None else bool(fatal))
        if kind is not XidClass.APPLICATION:
            yield _finding(reading, "xid", f"Xid {code:g} ({words}){where}", hard=kind is XidClass.HARD)


def _finding(reading: Reading, check: str, detail: str, *, hard: bool) -> Finding:
    return Finding(reading.node, check, detail, hard, reading.at, _index(reading), reading.uuid)


def _index(reading: Reading) -> int | None:
    """The GPU's index: the device of a GPU reading, a value of its own in a log line."""
    named = reading.device if reading.source is Source.GPU else _get(reading, "gpu")
    number = _number(named)
    return None if number is None else int(number)


def _get(reading: Reading, name: str) -> Value:
    return reading.values.get(name)  # noqa: PD011 - a reading's own mapping, not pandas


def _number(value: Value) -> float | None:
    """A value as a number; None for unknown, and for text that is none."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None
