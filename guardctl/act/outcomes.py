"""What a finished sweep says, as events. Pure; made so that doing it twice, after a crash, says it once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from guardctl.sweep.blame import Outcome, Result
from guardctl.sweep.state import Sweep
from guardctl.words.records import Event, EventKind, Standing

KINDS = {
    Result.PASSED: EventKind.SWEEP_PASSED,
    Result.FAILED: EventKind.SWEEP_FAILED,
    Result.INCONCLUSIVE: EventKind.SWEEP_INCONCLUSIVE,
}


def events(
    sweep: Sweep,
    passed_values: Sequence[tuple[str, Mapping[str, Any]]],
    standings: Mapping[str, Standing],
    now: datetime,
) -> list[Event]:
    """The outcome of every suspect that still waits for this sweep, of partners that failed, and new baselines.

    `passed_values`: from `guardctl.sweep.run.passed_values`. A suspect that somebody took over meanwhile gets none.
    """
    found = [*_suspects(sweep, standings, now), *_partners(sweep, standings, now)]
    if not found:
        return []
    baselines = [Event(node, now, EventKind.BASELINE, detail=dict(detail)) for node, detail in passed_values]
    return [*found, *baselines]


def _suspects(sweep: Sweep, standings: Mapping[str, Standing], now: datetime) -> Iterator[Event]:
    for outcome in sweep.outcomes:
        standing = standings.get(outcome.node, Standing(outcome.node))
        if standing.sweep == sweep.id and standing.outcome is None:
            yield _event(outcome, sweep, standing.incident, now)


def _partners(sweep: Sweep, standings: Mapping[str, Standing], now: datetime) -> Iterator[Event]:
    """Nothing spoke against a partner, so that only its failure is news."""
    for outcome in sweep.partner_outcomes:
        standing = standings.get(outcome.node, Standing(outcome.node))
        if outcome.result is Result.FAILED and standing.outcome is None:
            yield _event(outcome, sweep, None, now)


def _event(outcome: Outcome, sweep: Sweep, incident: str | None, now: datetime) -> Event:
    detail = {**asdict(outcome), "sweep": sweep.id, "result": outcome.result.value, "level": outcome.level.value}
    del detail["node"]
    why = outcome.culprit or ("every test was as fast as its equals" if outcome.result is Result.PASSED else "")
    why = why or "; ".join(outcome.evidence[:1]) or outcome.next_step
    return Event(outcome.node, now, KINDS[outcome.result], why, incident, detail, outcome.uuid)
