"""Prometheus text, for the textfile collector of node_exporter or a scrape. Built from values, without global state."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from guardctl.words.records import Event, EventKind, Standing, State

COUNTED = {
    EventKind.DRAINED: "drains",
    EventKind.DRAIN_FAILED: "failed_drains",
    EventKind.REFUSED: "refused_actions",
    EventKind.RELEASED: "releases",
    EventKind.SWEEP_FAILED: "failed_sweeps",
    EventKind.DISPUTED: "disputes",
}


def text(
    standings: Mapping[str, Standing],
    *,
    tick_at: datetime | None,
    ok: bool,
    events: Iterable[Event] = (),
    num_nodes: int | None = None,
    oldest: bool = True,
) -> str:
    """The exposition text.

    `tick_at`: the last tick that went through, None if there was none. `ok`: whether the monitor can act on what it
    sees; 0 while Slurm does not answer. `events`: those of the last day. `num_nodes`: as Slurm says.
    `oldest`: also the time of entry of the node that has been longest in each state, for age alarms.
    """
    registry = CollectorRegistry()
    _gauge(registry, "monitor_ok", "1 while the last tick went through and Slurm answered in full.", float(ok))
    if tick_at is not None:
        _gauge(registry, "last_tick_timestamp_seconds", "When the last tick went through.", tick_at.timestamp())
    _states(registry, standings, num_nodes)
    if oldest:
        _oldest(registry, standings)
    counts = Counter(event.kind for event in events)
    for kind, name in COUNTED.items():
        _gauge(registry, f"{name}_last_day", f"Events {kind} in the last day.", float(counts[kind]))
    return generate_latest(registry).decode()


def _gauge(registry: CollectorRegistry, name: str, words: str, value: float) -> None:
    Gauge(f"guardctl_{name}", words, registry=registry).set(value)


def _states(registry: CollectorRegistry, standings: Mapping[str, Standing], num_nodes: int | None) -> None:
    counts = Counter(standing.state for standing in standings.values())
    if num_nodes is not None:  # a node without a history is healthy
        others = sum(count for state, count in counts.items() if state is not State.HEALTHY)
        counts[State.HEALTHY] = max(0, num_nodes - others)
    gauge = Gauge("guardctl_nodes", "Nodes by standing.", ["state"], registry=registry)
    for state in State:
        gauge.labels(state.value).set(counts[state])


def _oldest(registry: CollectorRegistry, standings: Mapping[str, Standing]) -> None:
    words = "Since when the node that has been longest in this state is in it."
    gauge = Gauge("guardctl_oldest_timestamp_seconds", words, ["state"], registry=registry)
    for state in State:
        times = [each.since_at for each in standings.values() if each.state is state and each.since_at]
        if times and state is not State.HEALTHY:
            gauge.labels(state.value).set(min(times).timestamp())
