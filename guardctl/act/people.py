"""What a person asks for by hand: not bound by the budget, but by ownership and by reading back, as we are."""

from collections.abc import Callable, Mapping, Sequence

from guardctl.act.ownership import Claim, claim, reason
from guardctl.act.perform import World, perform
from guardctl.cluster.dryrun import DryRun
from guardctl.words.errors import InputError
from guardctl.words.records import Action, ActionKind, Event, EventKind, Standing, State

ByHand = Callable[[Sequence[str], str, World], list[Event]]


def drain(nodes: Sequence[str], why: str, world: World) -> list[Event]:
    """Drain each node under a new incident; one that is drained already is refused, whoever did it."""
    _known(nodes, world)
    actions = [Action(ActionKind.DRAIN, (node,), why) for node in nodes]
    return perform(actions, world.ledger.standings(world.clock()), world)


def release(nodes: Sequence[str], why: str, world: World) -> list[Event]:
    """Undo our own drain of each node; a node whose drain is not exactly ours is refused."""
    _known(nodes, world)
    standings = world.ledger.standings(world.clock())
    return [event for node in nodes for event in _release(standings.get(node, Standing(node)), why, world)]


def _release(standing: Standing, why: str, world: World) -> list[Event]:
    node = world.cluster.node(standing.node)
    who = claim(node, standing) if node else Claim.NONE
    if node is None or who is not Claim.OURS:
        owner = f"{node.reason_user}: {node.reason}" if node and node.drained else "nobody drained it"
        refused = f"not ours to release ({who}; {owner})"
        return world.record(_event(standing, EventKind.REFUSED, refused, world))
    world.cluster.undrain(standing.node)
    after = world.cluster.node(standing.node)
    if after is None or after.drained:
        return world.record(_event(standing, EventKind.REFUSED, "the undrain did not take", world))
    return world.record(_event(standing, EventKind.RELEASED, why, world))


def hold(nodes: Sequence[str], why: str, world: World) -> list[Event]:
    """Hold each node, and drain it if nothing keeps it out yet."""
    _known(nodes, world)
    standings = world.ledger.standings(world.clock())
    events = world.record(*(_event(standings.get(node, Standing(node)), EventKind.HELD, why, world) for node in nodes))
    open_nodes = [node for node in nodes if _in_service(node, standings, world)]
    actions = [Action(ActionKind.HOLD, (node,), why) for node in open_nodes]
    return events + perform(actions, world.ledger.standings(world.clock()), world)


def _in_service(name: str, standings: Mapping[str, Standing], world: World) -> bool:
    node = world.cluster.node(name)
    return node is not None and not node.drained and standings.get(name, Standing(name)).reservation is None


def unhold(nodes: Sequence[str], why: str, world: World) -> list[Event]:
    """End the hold of each node; one that is not held is refused."""
    return _only_from({State.HELD}, EventKind.UNHELD, nodes, why, world)


def repaired(nodes: Sequence[str], why: str, world: World) -> list[Event]:
    """Send each node that waits for a person back to its sweep; one that does not is refused."""
    return _only_from({State.REPAIR, State.HELD, State.RETIRED}, EventKind.REPAIRED, nodes, why, world)


def _only_from(states: set[State], kind: EventKind, nodes: Sequence[str], why: str, world: World) -> list[Event]:
    _known(nodes, world)
    standings = world.ledger.standings(world.clock())
    events = []
    for name in nodes:
        standing = standings.get(name, Standing(name))
        fits = standing.state in states or (kind is EventKind.UNHELD and standing.held)
        words = why if fits else f"it is {standing.state}, not {' or '.join(sorted(states))}"
        events.append(_event(standing, kind if fits else EventKind.REFUSED, words, world))
    return world.record(*events)


def _known(nodes: Sequence[str], world: World) -> None:
    unknown = [node for node in nodes if world.cluster.node(node) is None]
    if unknown:
        raise InputError(f"Slurm knows no node {', '.join(unknown)}", hint="`sinfo -N` lists the names")


def _event(standing: Standing, kind: EventKind, why: str, world: World) -> Event:
    return Event(standing.node, world.clock(), kind, why, standing.incident)


def dry_run(what: str, nodes: Sequence[str], why: str, world: World, dry: DryRun) -> list[str]:
    """The exact Slurm commands that `what` would run now; what only the ledger would see has none."""
    _known(nodes, world)
    standings = world.ledger.standings(world.clock())
    for name in nodes:
        node = dry.node(name)
        ours = node is not None and claim(node, standings.get(name, Standing(name))) is Claim.OURS
        if what in {"drain", "hold"} and node and not node.drained:
            dry.drain(name, reason("new", why))
        if what == "release" and ours:
            dry.undrain(name)
    return list(dry.commands)


COMMANDS: Mapping[str, ByHand] = {
    "drain": drain,
    "release": release,
    "hold": hold,
    "unhold": unhold,
    "repaired": repaired,
}
