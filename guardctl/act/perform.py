"""The only module that writes to Slurm. Every write is read back, and every step is in the ledger before the next.

Each function takes one action and gives the events of what really happened; an event is stored the moment it is true,
so that a monitor killed at any line finds in the ledger what it had begun. A Slurm call that fails ends its action,
never the tick: what it left is put right by `reconcile` and the next decision.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from guardctl.act import ownership
from guardctl.act.ownership import Claim, as_detail, claim, mark_of
from guardctl.cluster.protocol import Cluster
from guardctl.cluster.records import Node
from guardctl.ledger.store import Ledger
from guardctl.sweep import baseline
from guardctl.sweep import run as sweep_run
from guardctl.words.errors import ClusterError
from guardctl.words.policy import Policy
from guardctl.words.records import Action, ActionKind, Event, EventKind, Standing, Verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class World:
    """What acting needs: the door to Slurm, the ledger, the policy, a clock, and who we are."""

    cluster: Cluster
    ledger: Ledger
    policy: Policy
    clock: Callable[[], datetime]
    user: str  # as Slurm will name us in a reason
    host: str
    version: str

    def record(self, *events: Event) -> list[Event]:
        """The events as stored, with who made them and under which policy."""
        actor = f"{self.user}@{self.host}"
        stamped = [replace(each, actor=actor, version=self.version, policy_hash=self.policy.digest) for each in events]
        return list(self.ledger.append(stamped)) if stamped else []


def perform(actions: Iterable[Action], standings: Mapping[str, Standing], world: World) -> list[Event]:
    """The events of everything that was done, in order; an action that Slurm refuses ends alone."""
    events: list[Event] = []
    for action in actions:
        try:
            events += _PERFORMERS[action.kind](action, standings, world)
        except ClusterError as error:
            log.error("%s of %s did not work: %s", action.kind, ",".join(action.nodes), error)
            events += world.record(*_failures(action, error, world))
    return events


def _failures(action: Action, error: ClusterError, world: World) -> list[Event]:
    """One event per node, unless its last one says the same: trouble that lasts is one line, not one per tick."""
    why = f"{action.kind} did not work: {error}"
    return [_event(world, node, EventKind.MONITOR, why, action.incident)
            for node in action.nodes if _last_trouble(node, world) != why]  # fmt: skip


def _last_trouble(node: str, world: World) -> str:
    last = world.ledger.events(node=node, limit=1)
    return last[0].why if last and last[0].kind is EventKind.MONITOR else ""


def rehearse(action: Action, cluster: Cluster, policy: Policy) -> None:
    """The writes of an action without its checks, for a cluster that only notes them."""
    name = action.detail.get("reservation") or f"{policy.quarantine.reservation_prefix}_{action.incident}"
    if action.kind in {ActionKind.DRAIN, ActionKind.HOLD}:
        cluster.drain(action.nodes[0], ownership.reason(action.incident or "new", action.why))
    elif action.kind is ActionKind.QUARANTINE:
        cluster.reserve(name, (*action.nodes, *action.detail["partners"]), policy.quarantine.duration_s)
        for node in action.nodes:
            cluster.undrain(node)
    elif action.kind in {ActionKind.RELEASE, ActionKind.UNRESERVE}:
        cluster.unreserve(name)
    elif action.kind is ActionKind.RENEW:
        cluster.renew(name, policy.quarantine.duration_s)


# --- drains ---------------------------------------------------------------------------------------------------------


def _drain(action: Action, _standings: Mapping[str, Standing], world: World) -> list[Event]:
    """Intent in the ledger, a last look, the drain, and what stands there afterwards."""
    node = action.nodes[0]
    incident = action.incident or world.ledger.new_incident()
    reason = ownership.reason(incident, action.why)
    before = world.cluster.node(node)
    if before is None or before.drained:
        why = f"drained meanwhile by {before.reason_user}: {before.reason}" if before else "Slurm no longer knows it"
        return world.record(_event(world, node, EventKind.REFUSED, why, action.incident))
    detail = {**_evidence(action.verdict), "reason": reason, "user": world.user}
    events = world.record(_event(world, node, EventKind.DRAIN_INTENDED, action.why, incident, detail))
    world.cluster.drain(node, reason)
    return events + world.record(_drain_outcome(world, world.cluster.node(node), action, incident, detail))


def _drain_outcome(world: World, after: Node | None, action: Action, incident: str, detail: Mapping[str, Any]) -> Event:
    """DRAINED if the node now shows exactly what was asked for, else DRAIN_FAILED with what it shows."""
    node = action.nodes[0]
    if after is None or not after.drained or after.reason != detail["reason"]:
        shown = f"{after.base} {sorted(after.flags)} {after.reason!r}" if after else "nothing"
        return _event(world, node, EventKind.DRAIN_FAILED, f"the drain did not take: Slurm shows {shown}", incident)
    mark = as_detail(mark_of(after))
    uuid = action.verdict.uuid if action.verdict else None
    return _event(world, node, EventKind.DRAINED, action.why, incident, {**detail, **mark}, uuid)


def _evidence(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {}
    return {
        "cause": verdict.cause,
        "level": verdict.level,
        "health": verdict.health,
        "evidence": list(verdict.evidence),
        "kinds": [kind.value for kind in verdict.kinds],
        "checks": list(verdict.checks),
        "relative": verdict.relative,
        "gpu": verdict.gpu,
        "hard": verdict.hard,
    }


# --- quarantine -----------------------------------------------------------------------------------------------------


def _quarantine(action: Action, standings: Mapping[str, Standing], world: World) -> list[Event]:
    """Reserve, look once more, undrain. Whoever touched a drain in between keeps the node."""
    name = f"{world.policy.quarantine.reservation_prefix}_{action.incident}"
    nodes = (*action.nodes, *action.detail["partners"])
    world.cluster.unreserve(name)  # what a monitor left that was killed before its first undrain
    world.cluster.reserve(name, nodes, world.policy.quarantine.duration_s)
    foreign = [node for node in action.nodes if not _still_ours(world, standings[node])]
    if foreign:
        world.cluster.unreserve(name)
        why = "somebody touched its drain before the quarantine: left to them"
        return world.record(
            *(_event(world, node, EventKind.MONITOR, why, standings[node].incident) for node in foreign)
        )
    events: list[Event] = []
    for node in action.nodes:
        events += _undrain_into(world, standings[node], name, nodes)
    return events


def _still_ours(world: World, standing: Standing) -> bool:
    node = world.cluster.node(standing.node)
    return node is not None and claim(node, standing) is Claim.OURS and not node.busy


def _undrain_into(world: World, standing: Standing, reservation: str, nodes: Sequence[str]) -> list[Event]:
    world.cluster.undrain(standing.node)
    after = world.cluster.node(standing.node)
    if after is None or after.drained:
        why = "the undrain into our reservation did not take"
        return world.record(_event(world, standing.node, EventKind.MONITOR, why, standing.incident))
    detail = {"reservation": reservation, "nodes": list(nodes)}
    return world.record(
        _event(world, standing.node, EventKind.QUARANTINED, "reserved for its sweep", standing.incident, detail)
    )


def _sweep(action: Action, standings: Mapping[str, Standing], world: World) -> list[Event]:
    """Start a sweep, or take over the one that a killed monitor had written down but not recorded."""
    reservation = action.detail["reservation"]
    begun = [each for each in sweep_run.active(world.policy) if each.reservation == reservation and not each.done]
    sweep = begun[0] if begun else sweep_run.start(
        world.policy,
        suspects=action.nodes,
        partners=action.detail["partners"],
        reservation=reservation,
        now=world.clock(),
        kinds={node: standings[node].kinds for node in action.nodes},
        baselines=baseline.from_events(world.ledger.events(kinds=[EventKind.BASELINE])),
    )  # fmt: skip
    detail = {"sweep": sweep.id, "partners": list(sweep.partners)}
    start = [_event(world, node, EventKind.SWEEP_STARTED, "its sweep starts", standings[node].incident, detail)
             for node in action.nodes]  # fmt: skip
    events = world.record(*start)
    with sweep_run.locked(sweep, world.policy):
        sweep_run.step(sweep, world.cluster, world.policy, world.clock())
    return events


def _release(action: Action, standings: Mapping[str, Standing], world: World) -> list[Event]:
    """Back into service: the reservation goes, and RELEASED is recorded once Slurm shows the node free of it."""
    world.cluster.unreserve(action.detail["reservation"])
    events = []
    for name in action.nodes:
        node = world.cluster.node(name)
        drained = node is None or node.drained
        why = f"drained by {node.reason_user if node else 'nobody'} meanwhile: theirs" if drained else action.why
        kind = EventKind.RESUMED_BY_OTHER if drained else EventKind.RELEASED
        events.append(_event(world, name, kind, why, standings[name].incident))
    return world.record(*events)


def _unreserve(action: Action, _standings: Mapping[str, Standing], world: World) -> list[Event]:
    """Delete a reservation of ours that is left over; one whose incident the ledger never had is somebody else's."""
    name: str = action.detail["reservation"]
    incident = name.removeprefix(f"{world.policy.quarantine.reservation_prefix}_")
    if world.ledger.events(incident=incident, limit=1):
        world.cluster.unreserve(name)
    else:
        log.info("reservation %s has our prefix but no incident of our ledger: left alone", name)
    return []


def _renew(action: Action, _standings: Mapping[str, Standing], world: World) -> list[Event]:
    world.cluster.renew(action.detail["reservation"], world.policy.quarantine.duration_s)
    return []


# --- what only the ledger sees --------------------------------------------------------------------------------------


def _noted(kind: EventKind) -> "Performer":
    def note(action: Action, standings: Mapping[str, Standing], world: World) -> list[Event]:
        incident = action.incident or standings.get(action.nodes[0], Standing(action.nodes[0])).incident
        detail = _evidence(action.verdict)
        return world.record(*(_event(world, node, kind, action.why, incident, detail) for node in action.nodes))

    return note


def _event(
    world: World,
    node: str,
    kind: EventKind,
    why: str,
    incident: str | None = None,
    detail: Mapping[str, Any] | None = None,
    gpu_uuid: str | None = None,
) -> Event:
    return Event(node, world.clock(), kind, why, incident, detail or {}, gpu_uuid)


Performer = Callable[[Action, Mapping[str, Standing], World], list[Event]]
_PERFORMERS: Mapping[ActionKind, Performer] = {
    ActionKind.DRAIN: _drain,
    ActionKind.HOLD: _drain,
    ActionKind.QUARANTINE: _quarantine,
    ActionKind.SWEEP: _sweep,
    ActionKind.RELEASE: _release,
    ActionKind.UNRESERVE: _unreserve,
    ActionKind.RENEW: _renew,
    ActionKind.SUSPECT: _noted(EventKind.SUSPECTED),
    ActionKind.CLEAR: _noted(EventKind.CLEARED),
    ActionKind.RETIRE: _noted(EventKind.RETIRED),
    ActionKind.REFUSE: _noted(EventKind.REFUSED),
}
