"""A period of the ledger as values: who was out, why, for how long, and how each story went. Pure.

Feeds the HTML page, the Markdown mail and the JSON document alike.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from guardctl.cluster.records import Snapshot
from guardctl.ledger.fold import trace
from guardctl.report import rows
from guardctl.report.story import numbers, tell
from guardctl.words.records import IN_SERVICE, Event, EventKind, Standing, State

DAY_S = 86400.0
SWEEPS = frozenset({EventKind.SWEEP_PASSED, EventKind.SWEEP_FAILED, EventKind.SWEEP_INCONCLUSIVE})


@dataclass(frozen=True, slots=True)
class Segment:
    """One state of one node, from `begin_at` to `end_at`."""

    state: State
    begin_at: datetime
    end_at: datetime
    incident: str | None = None
    cause: str = ""

    @property
    def duration_s(self) -> float:
        """Seconds."""
        return (self.end_at - self.begin_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The states of one node over the period; without gaps."""

    node: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Incident:
    """One stay under suspicion or out of service. `state`: where the node is after it. `end_at`: None while open."""

    tag: str
    node: str
    begin_at: datetime
    end_at: datetime | None
    cause: str
    state: State
    out_s: float
    story: tuple[rows.EventRow, ...]


@dataclass(frozen=True, slots=True)
class Offender:
    """A node with triages in the period."""

    node: str
    num_triages: int
    last_at: datetime
    state: State


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """How one sweep of one node ended, with its numbers in words."""

    at: datetime
    node: str
    outcome: EventKind
    why: str
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CauseDays:
    """Node-days out of service for one cause."""

    cause: str
    node_days: float
    num_incidents: int


@dataclass(frozen=True, slots=True)
class Summary:
    """All of it.

    `num_drains` counts a stay out of service once, however often the node was drained in it. `num_nodes`,
    `num_in_service` and what others took out are known only with a snapshot: else None, and not in `out`.
    """

    since: datetime
    now: datetime
    num_nodes: int | None
    num_in_service: int | None
    num_drains: int
    num_refused: int
    num_cleared: int
    node_days_out: float
    out: tuple[rows.StatusRow, ...]
    incidents: tuple[Incident, ...]
    offenders: tuple[Offender, ...]
    sweeps: tuple[SweepOutcome, ...]
    causes: tuple[CauseDays, ...]
    timelines: tuple[Timeline, ...]
    alarms: tuple[rows.EventRow, ...]


def summary(
    events: Sequence[Event],
    standings: Mapping[str, Standing],
    since: datetime,
    now: datetime,
    *,
    snapshot: Snapshot | None = None,
) -> Summary:
    """What happened from `since` to `now`.

    `events`: the ledger from its beginning, so that the states at `since` are known. `snapshot`: the cluster now.
    """
    past = [event for event in events if event.at <= now]
    within = [event for event in past if event.at >= since]
    timelines = _timelines(past, since, now)
    incidents = _incidents(past, timelines, standings, since)
    table = rows.status(snapshot or Snapshot(now), standings, (), now)
    out = tuple(row for row in table if row.owner)
    kinds = Counter(event.kind for event in within)
    return Summary(
        since=since,
        now=now,
        num_nodes=len(snapshot.nodes) if snapshot else None,
        num_in_service=len(snapshot.nodes) - len([row for row in out if row.node in snapshot.nodes])
        if snapshot
        else None,
        num_drains=len({(each.node, each.incident or each.id) for each in within if each.kind is EventKind.DRAINED}),
        num_refused=kinds[EventKind.REFUSED],
        num_cleared=kinds[EventKind.CLEARED],
        node_days_out=sum(each.duration_s for each in _out(timelines)) / DAY_S,
        out=out,
        incidents=incidents,
        offenders=_offenders(standings, since),
        sweeps=tuple(_sweep(event) for event in reversed(within) if event.kind in SWEEPS),
        causes=_causes(timelines),
        timelines=tuple(line for line in timelines if _eventful(line)),
        alarms=tuple(tell(event for event in within if event.kind in {EventKind.MONITOR, EventKind.DISPUTED})),
    )


def _timelines(events: Iterable[Event], since: datetime, now: datetime) -> list[Timeline]:
    causes: dict[str, str] = {}
    steps: dict[str, list[tuple[datetime, Standing]]] = defaultdict(list)
    for event, standing in trace(events):
        cause = event.detail.get("cause")
        if event.incident and isinstance(cause, str) and cause:
            causes.setdefault(event.incident, cause)
        steps[event.node].append((event.at, standing))
    return [Timeline(node, _segments(steps[node], causes, since, now)) for node in sorted(steps)]


def _segments(
    steps: Sequence[tuple[datetime, Standing]], causes: Mapping[str, str], since: datetime, now: datetime
) -> tuple[Segment, ...]:
    """States within the period, neighbours that are alike joined."""
    begin = (since, Standing(steps[0][1].node))
    segments: list[Segment] = []
    for (at, standing), (until, _) in pairwise([begin, *steps, (now, begin[1])]):
        left, right = max(at, since), max(until, since)
        piece = Segment(standing.state, left, right, standing.incident, _cause(standing, causes))
        if segments and (segments[-1].state, segments[-1].incident) == (piece.state, piece.incident):
            segments[-1] = Segment(piece.state, segments[-1].begin_at, right, piece.incident, piece.cause)
        elif right > left:
            segments.append(piece)
    return tuple(segments)


def _cause(standing: Standing, causes: Mapping[str, str]) -> str:
    """The cause that the verdict named; for a node without a verdict, what keeps it out."""
    if standing.state in IN_SERVICE:
        return ""
    known = causes.get(standing.incident or "")
    return known or ("held by a person" if standing.held else standing.why or str(standing.state))


def _out(timelines: Iterable[Timeline]) -> list[Segment]:
    return [each for line in timelines for each in line.segments if each.state not in IN_SERVICE]


def _eventful(line: Timeline) -> bool:
    return any(segment.state is not State.HEALTHY for segment in line.segments)


def _causes(timelines: Iterable[Timeline]) -> tuple[CauseDays, ...]:
    seconds: Counter[str] = Counter()
    incidents: dict[str, set[str | None]] = defaultdict(set)
    for segment in _out(timelines):
        seconds[segment.cause] += int(segment.duration_s)
        incidents[segment.cause].add(segment.incident)
    return tuple(CauseDays(cause, total / DAY_S, len(incidents[cause])) for cause, total in seconds.most_common())


def _incidents(
    events: Iterable[Event], timelines: Iterable[Timeline], standings: Mapping[str, Standing], since: datetime
) -> tuple[Incident, ...]:
    """Incidents with an event in the period, newest first; the suspicion before the tag belongs to them."""
    groups: dict[tuple[str, str], list[Event]] = {}
    before: dict[str, list[Event]] = defaultdict(list)
    for event, standing in trace(events):
        tag = event.incident
        if tag is None and standing.state is State.SUSPECT:
            before[event.node].append(event)
        elif tag is not None:
            groups.setdefault((tag, event.node), before.pop(event.node, [])).append(event)
        else:
            before.pop(event.node, None)
    seconds: Counter[tuple[str, str]] = Counter()
    for line in timelines:
        for segment in _out([line]):
            seconds[segment.incident or "", line.node] += int(segment.duration_s)
    found = [
        _incident(tag, node, told, seconds[tag, node], standings.get(node, Standing(node)))
        for (tag, node), told in groups.items()
        if told[-1].at >= since
    ]
    return tuple(sorted(found, key=lambda each: each.begin_at, reverse=True))


def _incident(tag: str, node: str, events: Sequence[Event], out_s: float, standing: Standing) -> Incident:
    is_open = standing.incident == tag
    causes = [cause for event in events if isinstance(cause := event.detail.get("cause"), str) and cause]
    return Incident(
        tag=tag,
        node=node,
        begin_at=events[0].at,
        end_at=None if is_open else events[-1].at,
        cause=causes[0] if causes else events[0].why,
        state=standing.state if is_open else State.HEALTHY,
        out_s=out_s,
        story=tuple(tell(events)),
    )


def _offenders(standings: Mapping[str, Standing], since: datetime) -> tuple[Offender, ...]:
    """Nodes by their triages in the period, the worst first."""
    found = []
    for standing in standings.values():
        times = [at for at in standing.triages_at if at >= since]
        if times:
            found.append(Offender(standing.node, len(times), max(times), standing.state))
    return tuple(sorted(found, key=lambda each: (-each.num_triages, each.node)))


def _sweep(event: Event) -> SweepOutcome:
    return SweepOutcome(event.at, event.node, event.kind, event.why, tuple(numbers(event.detail)))
