"""What happened since the last tick that we did not do, or did but could not record. A person always wins.

Pure: a snapshot and the standings in, events out. Called first in every tick, so that all later decisions rest on
what is true now.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from guardctl.act.ownership import Claim, as_detail, claim, mark_of
from guardctl.cluster.records import Node, Snapshot
from guardctl.words.records import Event, EventKind, Standing, State

OUT_BY_DRAIN = frozenset({State.DRAINING, State.REPAIR, State.HELD, State.RETIRED})


def reconcile(snapshot: Snapshot, standings: Mapping[str, Standing], now: datetime, *, prefix: str) -> list[Event]:
    """Events for every node whose state in Slurm is not what its standing says.

    `prefix` and an open incident make the name of a reservation of ours.
    """
    ours = frozenset(f"{prefix}_{each.incident}" for each in standings.values() if each.incident)
    events = []
    for name, node in snapshot.nodes.items():
        standing = standings.get(name, Standing(node=name))
        events += [
            _event(standing, now, kind, why, detail) for kind, why, detail in _news(node, standing, snapshot, ours)
        ]
    return events


News = tuple[EventKind, str, dict[str, Any]]


def _news(node: Node, standing: Standing, snapshot: Snapshot, ours: frozenset[str]) -> Iterator[News]:
    who = claim(node, standing)
    if who is Claim.INTENDED or standing.intent is not None:
        yield _intent(node, who)
    elif standing.reservation is not None:
        yield from _reserved(node, standing, snapshot, who)
    elif standing.state in OUT_BY_DRAIN and standing.drain is not None:
        yield from _drained(node, standing, snapshot, who, ours)
    elif who is Claim.DISPUTED and standing.state is not State.DISPUTED:
        yield EventKind.DISPUTED, f"drained with our tag, but not by this ledger: {node.reason}", {}
    elif who is Claim.NONE and standing.state is State.DISPUTED:
        yield EventKind.RESUMED_BY_OTHER, "the disputed drain is gone", {}


def _intent(node: Node, who: Claim) -> News:
    """A monitor stopped between its intent and its record: the node itself says whether the drain took."""
    if who is not Claim.INTENDED:
        return EventKind.DRAIN_FAILED, "the drain was never made", {}
    return EventKind.DRAINED, "the drain took; its record was lost", as_detail(mark_of(node))


def _reserved(node: Node, standing: Standing, snapshot: Snapshot, who: Claim) -> Iterator[News]:
    if who in {Claim.FOREIGN, Claim.DISPUTED}:
        yield EventKind.RESUMED_BY_OTHER, f"{_somebody(node)} drained it during its quarantine: theirs now", {}
    elif standing.reservation not in {each.name for each in snapshot.reservations_on(node.name)}:
        yield from _unreserved(standing)


def _unreserved(standing: Standing) -> Iterator[News]:
    """Our reservation is gone: by our own release, its end, or a person. A convicted node is drained all the same."""
    if standing.outcome is EventKind.SWEEP_PASSED:
        yield EventKind.RELEASED, "passed its sweep; the record of its release was lost", {}
    elif standing.outcome is not EventKind.SWEEP_FAILED:
        yield EventKind.RESUMED_BY_OTHER, f"our reservation {standing.reservation} is gone", {}


def _drained(node: Node, standing: Standing, snapshot: Snapshot, who: Claim, ours: frozenset[str]) -> Iterator[News]:
    if who is Claim.NONE:
        yield from _undrained(node, standing, snapshot, ours)
    elif who is Claim.FOREIGN:
        yield EventKind.RESUMED_BY_OTHER, f"{_somebody(node)} put another reason on it: theirs now", {}
    elif who is Claim.DISPUTED:
        yield EventKind.DISPUTED, f"our drain was changed by {_somebody(node)}: {node.reason}", {}


def _undrained(node: Node, standing: Standing, snapshot: Snapshot, ours: frozenset[str]) -> Iterator[News]:
    """Either we undrained it into our reservation and were killed before the record, or somebody resumed it."""
    names = [each.name for each in snapshot.reservations_on(node.name) if each.name in ours]
    if standing.state is State.DRAINING and names:
        yield EventKind.QUARANTINED, "undrained into our reservation; its record was lost", {"reservation": names[0]}
    else:
        yield EventKind.RESUMED_BY_OTHER, "somebody resumed it", {}


def _somebody(node: Node) -> str:
    return node.reason_user or "somebody"


def _event(standing: Standing, now: datetime, kind: EventKind, why: str, detail: dict[str, Any]) -> Event:
    return Event(node=standing.node, at=now, kind=kind, why=why, incident=standing.incident, detail=detail)
