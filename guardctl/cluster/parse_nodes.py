"""Nodes from Slurm's JSON of every shape since 21.08: a `state` text and `state_flags`, a list of words, grouped rows.

In: what `sinfo --json` or `scontrol show nodes --json` printed. Out: `Node` by name. A record that lacks what every
node has is a `ClusterError`: unknown is not empty.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from guardctl.cluster import answers, values
from guardctl.cluster.records import Node
from guardctl.cluster.states import node_state
from guardctl.words.errors import ClusterError


def parse_nodes(text: str, what: str = "scontrol show nodes --json") -> dict[str, Node]:
    """The nodes by name. An empty dict: nothing by that name, and for a whole cluster no answer at all.

    Raises ClusterError for an answer with errors, without its list, or with a record that is not whole.
    """
    rows = answers.records(text, ("nodes", "sinfo"), what)
    if rows and "node" in rows[0]:
        return _merged(node for row in rows for node in _group(row, what))
    return by_name((_node(row, what) for row in rows), what)


def by_name(nodes: Iterable[Node], what: str) -> dict[str, Node]:
    """The nodes by name; a name that comes twice means that the answer was misread."""
    found: dict[str, Node] = {}
    for node in nodes:
        if node.name in found:
            raise ClusterError(f"`{what}`: node {node.name!r} comes twice")
        found[node.name] = node
    return found


def _node(row: dict[str, Any], what: str) -> Node:
    state = node_state(answers.field(row, "state", what), row.get("state_flags") or ())
    reason = values.reason(answers.field(row, "reason", what))
    return Node(
        name=answers.name_of(row, "name", what),
        base=state.base,
        flags=state.flags,
        known=state.known,
        reason=reason,
        reason_user=values.word(row.get("reason_set_by_user")) if reason else None,
        reason_at=values.moment(row.get("reason_changed_at")) if reason else None,
        boot_at=values.moment(row.get("boot_time")),
        partitions=values.words(answers.field(row, "partitions", what)),
        features=values.words(row.get("active_features") or row.get("features")),
        num_gpus=values.num_gpus(row.get("gres")),
        cpus=values.number(row.get("cpus")) or 0,
        cpus_allocated=values.number(row.get("alloc_cpus")) or 0,
        address=row.get("address") or "",
    )


def _group(row: dict[str, Any], what: str) -> Iterable[Node]:
    """The nodes of one row of `sinfo --json` since 23.11: like nodes of one partition, with what they share."""
    names = answers.hosts(",".join(_inner(row, "nodes", what).get("nodes", ())), "a row", what)
    state = node_state(answers.field(_inner(row, "node", what), "state", what))
    note = _inner(row, "reason", what)
    reason = values.reason(note.get("description"))
    shared = Node(
        name="",
        base=state.base,
        flags=state.flags,
        known=state.known,
        reason=reason,
        reason_user=values.word(note.get("user")) if reason else None,
        reason_at=values.moment(note.get("time")) if reason else None,
        partitions=values.words([_inner(row, "partition", what).get("name")]),
        features=values.words(_inner(row, "features", what).get("active")),
        num_gpus=values.num_gpus(_inner(row, "gres", what).get("total")),
        cpus=values.number(_inner(row, "cpus", what).get("maximum")) or 0,
    )
    return (replace(shared, name=name) for name in names)


def _inner(row: dict[str, Any], key: str, what: str) -> dict[str, Any]:
    inner = answers.field(row, key, what)
    if not isinstance(inner, dict):
        raise ClusterError(f"`{what}`: `{key}` is {inner!r}, not an object")
    return inner


def _merged(nodes: Iterable[Node]) -> dict[str, Node]:
    """A node stands in one row for each of its partitions."""
    found: dict[str, Node] = {}
    for node in nodes:
        seen = found.get(node.name)
        found[node.name] = replace(node, partitions=(*seen.partitions, *node.partitions)) if seen else node
    return found
