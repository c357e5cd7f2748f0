"""A quarantine from its beginning to its end, as actions. Pure.

    drained and empty -> QUARANTINE (reserve, undrain) -> SWEEP -> outcome -> HOLD (drain again) or RELEASE

One reservation holds all the suspects that are empty in a tick, and idle healthy nodes beside them. It goes only after
every one of its nodes has an outcome, and every failed one its drain: at no moment can a user's job land on a suspect.
Each step follows from the ledger and the snapshot alone, so a monitor that was killed goes on where it was.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from guardctl.act import budget, rules
from guardctl.act.ownership import Claim, claim
from guardctl.act.view import View, protected
from guardctl.cluster.records import Node, Reservation
from guardctl.words.records import Action, ActionKind, EventKind, Kind, Standing, State


def ends(view: View) -> Iterator[Action]:
    """What ends quarantines: drains of what failed, releases of what passed, and what keeps the rest alive."""
    yield from _holds(view)
    yield from _releases(view)
    yield from _unreserves(view)
    yield from _renewals(view)
    yield from _retirements(view)


def begins(view: View) -> Iterator[Action]:
    """What begins them: sweeps of what is quarantined, quarantines of what is drained and empty."""
    yield from _sweeps(view)
    yield from _quarantines(view)


def _holds(view: View) -> Iterator[Action]:
    """A node that its sweep did not pass, or that a person holds, is drained; a reservation of ours goes only then.

    A quarantined or held node is out already. One convicted while in service, as a partner or in a sweep that a
    person asked for, needs the leave of every rule and of the budget.
    """
    left = budget.left(view.snapshot, view.standings, view.drains_at, view.policy.act, view.now)
    taken: list[Node] = []
    for standing in view.standings.values():
        node = view.snapshot.nodes.get(standing.node)
        if node is None or node.drained or not _awaits_hold(standing):
            continue
        refusal = ""
        if is_in_service(standing):
            refusal = rules.refusal(view, node, ("sweep",), taken) or left.refusal(len(taken))
            taken += [] if refusal else [node]
        kind = ActionKind.REFUSE if refusal else ActionKind.HOLD
        if not refusal or refusal != standing.refused:
            yield Action(kind, (standing.node,), refusal or standing.why, standing.incident)


def is_in_service(standing: Standing) -> bool:
    """Whether a drain of the node takes it out of service: nothing of ours or of a person's keeps it out yet."""
    return standing.reservation is None and not standing.held


def _awaits_hold(standing: Standing) -> bool:
    """Held by a person, convicted, or undecided in a quarantine; an undecided node in service just stays there."""
    undecided = standing.outcome is EventKind.SWEEP_INCONCLUSIVE and standing.reservation is not None
    convicted = standing.outcome is EventKind.SWEEP_FAILED
    return standing.drain is None and (standing.held or convicted or undecided)


def _releases(view: View) -> Iterator[Action]:
    """Nodes that passed, once every other node of their reservation has its outcome and its drain."""
    for reservation, members in _by_reservation(view).items():
        passed = tuple(each.node for each in members if each.outcome is EventKind.SWEEP_PASSED)
        waiting = [each for each in members if each.outcome is None or _awaits_hold(each)]
        if passed and not waiting:
            yield Action(ActionKind.RELEASE, passed, "passed its sweep", detail={"reservation": reservation})


def _by_reservation(view: View) -> dict[str, list[Standing]]:
    """Standings by the reservation of ours that they wait in."""
    groups: dict[str, list[Standing]] = {}
    for standing in view.standings.values():
        if standing.reservation and (standing.state in {State.QUARANTINED, State.SWEEPING} or _awaits_hold(standing)):
            groups.setdefault(standing.reservation, []).append(standing)
    return groups


def _unreserves(view: View) -> Iterator[Action]:
    """Reservations of ours that no node needs any more."""
    needed = set(_by_reservation(view))
    for reservation in _our_reservations(view):
        begun = any(view.standing(node).intent or _draining(view, node) for node in reservation.nodes)
        if reservation.name not in needed and not begun:
            yield Action(
                ActionKind.UNRESERVE, reservation.nodes, "no node needs it", detail={"reservation": reservation.name}
            )


def _draining(view: View, node: str) -> bool:
    return view.standing(node).state is State.DRAINING


def _our_reservations(view: View) -> list[Reservation]:
    """Ours by the prefix of their name; whoever deletes one looks up its incident in the ledger first."""
    prefix = f"{view.policy.quarantine.reservation_prefix}_"
    return [each for name, each in view.snapshot.reservations.items() if name.startswith(prefix)]


def _renewals(view: View) -> Iterator[Action]:
    """A reservation ends by itself if we die; while we live its end is kept ahead."""
    duration = timedelta(seconds=view.policy.quarantine.duration_s)
    for name in _by_reservation(view):
        reservation = view.snapshot.reservations.get(name)
        if reservation and reservation.end_at and reservation.end_at - view.now < duration / 2:
            yield Action(ActionKind.RENEW, reservation.nodes, "its end comes near", detail={"reservation": name})


def _retirements(view: View) -> Iterator[Action]:
    """The lemon rule: so many triages within the window."""
    rule = view.policy.quarantine
    for standing in view.standings.values():
        recent = [at for at in standing.triages_at if at > view.now - timedelta(seconds=rule.triage_window_s)]
        if standing.state is State.REPAIR and standing.drain and len(recent) >= rule.triages:
            why = f"{len(recent)} triages in {rule.triage_window_s / 86400:g} days"
            yield Action(ActionKind.RETIRE, (standing.node,), why, standing.incident)


def _sweeps(view: View) -> Iterator[Action]:
    for reservation, members in _by_reservation(view).items():
        suspects = tuple(each.node for each in members if each.state is State.QUARANTINED and each.sweep is None)
        found = view.snapshot.reservations.get(reservation)
        if suspects and found and len(suspects) == len(members):
            partners = tuple(node for node in found.nodes if node not in suspects)
            detail = {"reservation": reservation, "partners": partners}
            yield Action(ActionKind.SWEEP, suspects, "quarantined", members[0].incident, detail=detail)


def _quarantines(view: View) -> Iterator[Action]:
    """One quarantine for all nodes that are drained by us and empty now, with idle partners beside them."""
    suspects = [standing for standing in view.standings.values() if _may_be_quarantined(view, standing)]
    if not suspects:
        return
    partners = choose_partners(view, [each.node for each in suspects])
    ready = tuple(each.node for each in suspects if partners or not _waits_for_partner(view, each))
    if ready:
        yield Action(
            ActionKind.QUARANTINE, ready, "drained and empty", suspects[0].incident, detail={"partners": partners}
        )


def _may_be_quarantined(view: View, standing: Standing) -> bool:
    node = view.snapshot.nodes.get(standing.node)
    if node is None or standing.state is not State.DRAINING or standing.held:
        return False
    foreign = [each for each in view.snapshot.reservations_on(node.name) if not _mine(view, each)]
    empty = not node.busy and not view.snapshot.jobs_on(node.name)
    return empty and not foreign and node.base == "IDLE" and claim(node, standing) is Claim.OURS


def _mine(view: View, reservation: Reservation) -> bool:
    return reservation.name.startswith(f"{view.policy.quarantine.reservation_prefix}_")


def _waits_for_partner(view: View, standing: Standing) -> bool:
    """A link can only be tested with somebody at its other end, so such a node waits a while for an idle one."""
    network = {Kind.TRANSPORT.value, Kind.LINK.value} & set(standing.kinds)
    return bool(network) and view.age_s(standing) < view.policy.sweep.partner_wait_s


def choose_partners(view: View, suspects: Sequence[str]) -> tuple[str, ...]:
    """Idle healthy nodes of the first suspect's kind: a measure for the rest, and the other end of their links."""
    like = view.snapshot.nodes[suspects[0]]
    fit = [node for node in view.snapshot.nodes.values() if _may_be_partner(view, node, like)]
    spare = budget.free_left(view.snapshot, view.standings, _partition(like)) - view.policy.act.min_free
    return tuple(node.name for node in fit[: max(0, min(view.policy.sweep.partners, spare))])


def _may_be_partner(view: View, node: Node, like: Node) -> bool:
    same = node.num_gpus == like.num_gpus and bool(set(node.partitions) & set(like.partitions))
    idle = node.usable and node.base == "IDLE" and not view.snapshot.jobs_on(node.name)
    free = not view.snapshot.reservations_on(node.name) and node.name not in protected(view.policy)
    return same and idle and free and view.standing(node.name).state is State.HEALTHY


def _partition(node: Node) -> str:
    return node.partitions[0] if node.partitions else ""
