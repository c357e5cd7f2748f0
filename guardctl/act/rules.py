"""The rules that can stop a drain, each with the words that the ledger keeps. Pure."""

from collections.abc import Mapping, Sequence

from guardctl.act import budget
from guardctl.act.view import View, protected
from guardctl.cluster.records import Node
from guardctl.words.records import Verdict


def common(verdict: Verdict, causes: Mapping[str, int]) -> str:
    """Why a verdict is no fault of its node: `causes` counts the checks that spoke on too many nodes at once."""
    shared = [f"{check} on {causes[check]} nodes at once" for check in verdict.checks if check in causes]
    return f"common cause: {shared[0]}; look at the check, the driver, the switch or the storage" if shared else ""


def refusal(view: View, node: Node, checks: Sequence[str], taken: Sequence[Node] = ()) -> str:
    """Why this node must not be drained now, by the first rule that says so; empty: it may.

    `checks`: what spoke against it. `taken`: nodes that are already to be drained in this tick.
    """
    act = view.policy.act
    if act.mode != "act":
        return f"act.mode is {act.mode}: would have drained it"
    quiet = [check for check in checks if act.checks.get(check, "act") != "act"]
    if quiet and len(quiet) == len(checks):
        return f"act.checks has {quiet[0]} at {act.checks[quiet[0]]}"
    return _state_refusal(view, node, taken)


def _state_refusal(view: View, node: Node, taken: Sequence[Node]) -> str:
    if node.name in protected(view.policy):
        return "protected by act.protected"
    if not node.known:
        return f"Slurm state {node.base} is not known to this version: left alone"
    if node.drained:
        return f"drained already by {node.reason_user or 'somebody'}: {node.reason or 'no reason'}"
    if node.base == "DOWN":
        return f"down already: {node.reason or 'no reason'}"
    if view.policy.act.min_free and any(_too_few(view, partition, taken) for partition in node.partitions):
        return f"act.min_free keeps {view.policy.act.min_free} nodes of its partition in service"
    return ""


def _too_few(view: View, partition: str, taken: Sequence[Node]) -> bool:
    free = budget.free_left(view.snapshot, view.standings, partition)
    return free - sum(partition in node.partitions for node in taken) <= view.policy.act.min_free
