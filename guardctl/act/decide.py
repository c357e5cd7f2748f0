"""Which actions follow from what is known. Pure: values in, actions out, in the order in which they are to be done.

The rules (docs/architecture.md, "Rules that operators insist on") are each one small function here. What a rule stops
is an action too (REFUSE), so that the ledger can say why nothing happened.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from guardctl.act import budget, quarantine, rules
from guardctl.act.view import View
from guardctl.cluster.records import Node, Snapshot
from guardctl.words.policy import Policy
from guardctl.words.records import (
    IN_SERVICE,
    Action,
    ActionKind,
    EventKind,
    Health,
    Standing,
    State,
    Verdict,
)

LEDGER_ONLY = frozenset({ActionKind.SUSPECT, ActionKind.CLEAR, ActionKind.RETIRE, ActionKind.REFUSE})


def decide(
    verdicts: Sequence[Verdict],
    standings: Mapping[str, Standing],
    snapshot: Snapshot,
    policy: Policy,
    now: datetime,
    *,
    drains_at: Sequence[datetime] = (),
    stopped: bool = False,
) -> tuple[Action, ...]:
    """Actions, in order: what ends quarantines, what begins them, what is only noted, and drains.

    `drains_at`: when we drained lately, for the budget. `stopped`: the kill switch is on, so nothing in Slurm changes.
    """
    view = View(tuple(verdicts), standings, snapshot, policy, now, tuple(drains_at))
    ends = tuple(quarantine.ends(view))
    actions = (*ends, *quarantine.begins(view), *_watches(view), *_drains(view, _newly_out(view, ends)))
    return tuple(action for action in actions if action.kind in LEDGER_ONLY or not stopped)


# --- drains ---------------------------------------------------------------------------------------------------------


def _newly_out(view: View, actions: Sequence[Action]) -> list[Node]:
    """Nodes that holds of this tick take out of service: they use up the same budget."""
    held = [action.nodes[0] for action in actions if action.kind is ActionKind.HOLD]
    return [view.snapshot.nodes[name] for name in held if quarantine.is_in_service(view.standing(name))]


def _drains(view: View, newly_out: Sequence[Node]) -> Iterator[Action]:
    """Drains for confirmed verdicts, the worst first, as many as the budget has left after `newly_out`."""
    common = budget.common_causes(view.verdicts, len(budget.gpu_nodes(view.snapshot)), view.policy.act)
    left = budget.left(view.snapshot, view.standings, view.drains_at, view.policy.act, view.now)
    taken = list(newly_out)
    for verdict in sorted((each for each in view.verdicts if each.confirmed), key=_severity):
        node = view.snapshot.nodes.get(verdict.node)
        if node is None or node in newly_out or view.standing(verdict.node).state not in IN_SERVICE:
            continue
        refusal = rules.common(verdict, common) or rules.refusal(view, node, verdict.checks, taken)
        refusal = refusal or left.refusal(len(taken))
        taken += [] if refusal else [node]
        yield from _drain_or_refuse(view, verdict, refusal)


def _severity(verdict: Verdict) -> tuple[bool, float, str]:
    return (not verdict.hard, verdict.relative if verdict.relative is not None else 1.0, verdict.node)


def _drain_or_refuse(view: View, verdict: Verdict, refusal: str) -> Iterator[Action]:
    words = "; ".join(dict.fromkeys((verdict.cause, *verdict.evidence[:2])))  # a hard fault is its own evidence
    if not refusal:
        yield Action(ActionKind.DRAIN, (verdict.node,), words, verdict=verdict)
    elif refusal != view.standing(verdict.node).refused:
        yield Action(ActionKind.REFUSE, (verdict.node,), refusal, verdict=verdict)


# --- what is only noted ---------------------------------------------------------------------------------------------


def _watches(view: View) -> Iterator[Action]:
    """SUSPECT on new evidence, CLEAR when it is gone for long enough or a probation was quiet."""
    spoken = {verdict.node for verdict in view.verdicts if verdict.health in {Health.SUSPECT, Health.FAULTY}}
    for verdict in view.verdicts:
        if verdict.node in spoken and view.standing(verdict.node).state is State.HEALTHY and verdict.node:
            yield Action(ActionKind.SUSPECT, (verdict.node,), verdict.cause, verdict=verdict)
    for standing in view.standings.values():
        if standing.node not in spoken:
            yield from _clear(view, standing)


def _clear(view: View, standing: Standing) -> Iterator[Action]:
    limits = {State.SUSPECT: view.policy.quarantine.suspect_s, State.PROBATION: view.policy.quarantine.probation_s}
    limit = limits.get(standing.state)
    if limit is not None and standing.outcome is not EventKind.SWEEP_FAILED and view.age_s(standing) >= limit:
        what = "probation was quiet" if standing.state is State.PROBATION else "no more evidence"
        yield Action(ActionKind.CLEAR, (standing.node,), f"{what} for {limit:g} s", standing.incident)
