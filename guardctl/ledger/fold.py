"""From events to standings: a node's life as one small table. Pure.

    HEALTHY -suspected-> SUSPECT -drained-> DRAINING -quarantined-> QUARANTINED -sweep_started-> SWEEPING
       -released-> PROBATION -cleared-> HEALTHY
    SWEEPING -sweep_failed-> REPAIR -repaired-> DRAINING;  -sweep_inconclusive-> HELD -unheld-> DRAINING
    held-> HELD;  retired-> RETIRED;  disputed-> DISPUTED;  resumed_by_other-> HEALTHY, unless a person holds it

Every event is taken in whatever state the node is: a ledger tells what happened, and what happened cannot be wrong.
What an event's `detail` may hold, all optional:

| kind | detail |
|---|---|
| suspected, drain_intended, drained, quarantined | `kinds`: kinds of signal behind it |
| drain_intended, drained | `reason`, `user`, `at`: the mark in Slurm |
| drained | `hard`: true for a hard fault, which counts as a triage |
| quarantined | `reservation` |
| sweep_started | `sweep` |
| held | `person`: false when no person did it |
| hardware | `gpu_uuids`: all GPUs of the node now |
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from guardctl.words.records import IN_SERVICE, DrainMark, Event, EventKind, Standing, State

Change = Callable[[Standing, Event], Standing]
KEPT_OUT = frozenset({State.REPAIR, State.HELD, State.RETIRED})
STEPS_ON = frozenset({EventKind.QUARANTINED, EventKind.SWEEP_STARTED})  # `why` stays what took the node out
AFTER_OUTCOME = {EventKind.SWEEP_FAILED: State.REPAIR, EventKind.SWEEP_INCONCLUSIVE: State.HELD}


def fold(events: Iterable[Event], now: datetime, *, start: Mapping[str, Standing] | None = None) -> dict[str, Standing]:
    """The standing of every node that an event names, after `events` in their order.

    `start`: what earlier events came to. An event of a writer whose clock runs ahead counts as of `now`, so that no
    age is negative. Events without a node are about the cluster and change no standing.
    """
    standings = dict(start or {})
    for event in events:
        if event.node:
            standings[event.node] = apply(standings.get(event.node) or Standing(event.node), event)
    return {
        node: standing if standing.since_at is None or standing.since_at <= now else replace(standing, since_at=now)
        for node, standing in standings.items()
    }


def trace(events: Iterable[Event]) -> Iterator[tuple[Event, Standing]]:
    """Each event of a node with the standing after it: the fold, step by step."""
    standings: dict[str, Standing] = {}
    for event in events:
        if event.node:
            standings[event.node] = apply(standings.get(event.node) or Standing(event.node), event)
            yield event, standings[event.node]


def apply(standing: Standing, event: Event) -> Standing:
    """The standing after one event of its node."""
    change = CHANGES.get(event.kind)
    if change is None:
        return standing
    after = change(standing, event)
    if after.state is standing.state:
        return after
    why = after.why if event.kind in STEPS_ON else event.why or after.why
    return replace(after, since_at=event.at, why=why, refused="")


def _suspected(standing: Standing, event: Event) -> Standing:
    if standing.state not in {State.HEALTHY, State.SUSPECT}:
        return standing
    return replace(_under(standing, event), state=State.SUSPECT, why=event.why or standing.why)


def _cleared(standing: Standing, _event: Event) -> Standing:
    if standing.state not in {State.SUSPECT, State.PROBATION}:
        return standing
    return replace(_closed(standing), state=State.HEALTHY)


def _drain_intended(standing: Standing, event: Event) -> Standing:
    return replace(_under(standing, event), intent=_mark(event, event.at))


def _drained(standing: Standing, event: Event) -> Standing:
    """Out of service. Where to: a convicted node to its repair, an undecided one to a person, the rest to a sweep."""
    under = _under(standing, event)
    state = AFTER_OUTCOME.get(under.outcome, State.DRAINING) if under.outcome else State.DRAINING
    kept = standing.state in KEPT_OUT
    out = replace(
        under,
        state=standing.state if kept else state,
        drain=_mark(event, None),
        intent=None,
        reservation=None,  # from here on the drain keeps the node out
        why=standing.why if kept else event.why or standing.why,
    )
    return _triage(out, event) if event.detail.get("hard") else out


def _drain_failed(standing: Standing, _event: Event) -> Standing:
    if standing.state is State.HEALTHY:
        return _closed(standing)
    return replace(standing, intent=None)


def _quarantined(standing: Standing, event: Event) -> Standing:
    return replace(
        _under(standing, event),
        state=State.QUARANTINED,
        reservation=_text(event.detail.get("reservation")) or standing.reservation,
        drain=None,
        intent=None,
        sweep=None,
        outcome=None,
    )


def _sweep_started(standing: Standing, event: Event) -> Standing:
    """A sweep of a node in service, which a person may ask for, leaves it in service."""
    state = State.SWEEPING if standing.state is State.QUARANTINED else standing.state
    return replace(_under(standing, event), state=state, sweep=_text(event.detail.get("sweep")), outcome=None)


def _sweep_passed(standing: Standing, event: Event) -> Standing:
    return replace(standing, outcome=event.kind, settled_at=event.at)


def _sweep_failed(standing: Standing, event: Event) -> Standing:
    """Convicted. It waits in REPAIR, or as a SUSPECT if it is in service, for the drain that the policy may refuse."""
    state = State.SUSPECT if standing.state in IN_SERVICE else State.REPAIR
    return _triage(_decided(standing, event, state), event)


def _sweep_inconclusive(standing: Standing, event: Event) -> Standing:
    return _decided(standing, event, standing.state if standing.state in IN_SERVICE else State.HELD)


def _decided(standing: Standing, event: Event, state: State) -> Standing:
    final = standing.state in {State.HELD, State.RETIRED, State.DISPUTED}
    why = standing.why if final else event.why or standing.why
    return replace(_under(standing, event), state=standing.state if final else state, outcome=event.kind, why=why)


def _triage(standing: Standing, event: Event) -> Standing:
    """One triage more, unless this stay out of service has counted already."""
    if standing.incident is not None and standing.incident == standing.triaged:
        return standing
    return replace(standing, triages_at=(*standing.triages_at, event.at), triaged=standing.incident)


def _released(standing: Standing, event: Event) -> Standing:
    return replace(
        standing,
        state=State.PROBATION,
        drain=None,
        intent=None,
        reservation=None,
        sweep=None,
        held=False,
        settled_at=event.at,
    )


def _held(standing: Standing, event: Event) -> Standing:
    held = standing.held or bool(event.detail.get("person", True))
    return replace(_under(standing, event), state=State.HELD, held=held, why=event.why or standing.why)


def _unheld(standing: Standing, _event: Event) -> Standing:
    if standing.state is not State.HELD:
        return replace(standing, held=False)
    return _back_to_test(standing, otherwise=State.HEALTHY)


def _repaired(standing: Standing, _event: Event) -> Standing:
    """Back to be swept. Out of RETIRED the triages are forgiven too, or the next tick would retire it again."""
    if standing.state not in KEPT_OUT:
        return standing
    triages_at = () if standing.state is State.RETIRED else standing.triages_at
    return replace(_back_to_test(standing, otherwise=State.PROBATION), triages_at=triages_at)


def _retired(standing: Standing, event: Event) -> Standing:
    return replace(_under(standing, event), state=State.RETIRED, why=event.why or standing.why)


def _resumed_by_other(standing: Standing, event: Event) -> Standing:
    """A person wins, except over a person's own hold: a held node stays held, and is drained anew."""
    closed = _closed(standing)
    return replace(
        closed,
        state=State.HELD if standing.held else State.HEALTHY,
        incident=standing.incident if standing.held else None,
        drain=None,
        reservation=None,
        settled_at=event.at,
    )


def _disputed(standing: Standing, event: Event) -> Standing:
    return replace(_under(standing, event), state=State.DISPUTED, intent=None, why=event.why or standing.why)


def _hardware(standing: Standing, event: Event) -> Standing:
    """Identity seen. When every card is another one, what the old ones did is not held against the new."""
    seen = event.detail.get("gpu_uuids")
    uuids = tuple(str(each) for each in seen) if isinstance(seen, list | tuple) else ()
    known = replace(standing, gpu_uuids=uuids or standing.gpu_uuids, boot_id=event.boot_id or standing.boot_id)
    if not uuids or not standing.gpu_uuids or not set(uuids).isdisjoint(standing.gpu_uuids):
        return known
    clean = replace(known, triages_at=(), triaged=None)
    if standing.state in KEPT_OUT and not standing.held:
        return _back_to_test(clean, otherwise=State.PROBATION)
    return clean


def _refused(standing: Standing, event: Event) -> Standing:
    return replace(standing, refused=event.why)


def _under(standing: Standing, event: Event) -> Standing:
    """The standing with the event's incident open: one that takes the place of another starts with nothing of it."""
    kinds = _words(event.detail.get("kinds"))
    if event.incident == standing.incident and kinds in {(), standing.kinds}:
        return standing
    if event.incident is None or standing.incident in {None, event.incident}:
        incident = standing.incident or event.incident
        return replace(standing, incident=incident, kinds=kinds or standing.kinds)
    return replace(standing, incident=event.incident, kinds=kinds, outcome=None, sweep=None, refused="")


def _closed(standing: Standing) -> Standing:
    return replace(standing, incident=None, kinds=(), outcome=None, sweep=None, intent=None, refused="")


def _back_to_test(standing: Standing, *, otherwise: State) -> Standing:
    """Where a node goes that waits for its sweep; `otherwise`: when nothing of ours keeps it out."""
    state = State.DRAINING if standing.drain else State.QUARANTINED if standing.reservation else otherwise
    closed = _closed(standing) if state in IN_SERVICE else standing
    return replace(closed, state=state, held=False, outcome=None, sweep=None, triaged=None)


def _mark(event: Event, default_at: datetime | None) -> DrainMark:
    detail = event.detail
    return DrainMark(
        reason=_text(detail.get("reason")) or "",
        user=_text(detail.get("user")) or "",
        at=_time(detail.get("at")) or default_at,
    )


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return parsed if parsed is not None and parsed.tzinfo is not None else None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else ()


CHANGES: Mapping[EventKind, Change] = {
    EventKind.SUSPECTED: _suspected,
    EventKind.CLEARED: _cleared,
    EventKind.DRAIN_INTENDED: _drain_intended,
    EventKind.DRAINED: _drained,
    EventKind.DRAIN_FAILED: _drain_failed,
    EventKind.QUARANTINED: _quarantined,
    EventKind.SWEEP_STARTED: _sweep_started,
    EventKind.SWEEP_PASSED: _sweep_passed,
    EventKind.SWEEP_FAILED: _sweep_failed,
    EventKind.SWEEP_INCONCLUSIVE: _sweep_inconclusive,
    EventKind.RELEASED: _released,
    EventKind.HELD: _held,
    EventKind.UNHELD: _unheld,
    EventKind.REPAIRED: _repaired,
    EventKind.RETIRED: _retired,
    EventKind.RESUMED_BY_OTHER: _resumed_by_other,
    EventKind.DISPUTED: _disputed,
    EventKind.HARDWARE: _hardware,
    EventKind.REFUSED: _refused,
}
