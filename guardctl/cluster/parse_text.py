"""Nodes and reservations from `scontrol show`'s text of many lines: for releases that print no JSON for them.

Never the one-line form (`-o`): it cannot be cut where a reason, a comment or an operating system holds blanks.
Run with TZ=UTC: the times carry no zone.
"""

import re
from collections.abc import Iterator

from guardctl.cluster import answers, values
from guardctl.cluster.parse_nodes import by_name
from guardctl.cluster.records import Node, Reservation
from guardctl.cluster.states import node_state
from guardctl.words.errors import ClusterError

# these take the rest of their line, blanks included
WHOLE_LINE = ("AvailableFeatures", "ActiveFeatures", "Gres", "OS", "Partitions", "Reason", "Comment", "Extra")
FREE = frozenset({"Comment", "Extra"})
WHOLE = re.compile(rf"({'|'.join(WHOLE_LINE)})=(.*)")
PAIR = re.compile(r"([A-Za-z][A-Za-z0-9/:]*)=(\S*)")
CONTINUED = re.compile(r" {9,}\S")  # a reason's further lines are set in deeper than any field
STAMPED = re.compile(rf"(.*?) ?\[([^\[\]@]+)@({values.SECOND}|Unknown)\](.*)", re.DOTALL)
NO_RESERVATIONS = "No reservations in the system"

Fields = dict[str, str]


def parse_node_text(text: str, what: str = "scontrol show nodes") -> dict[str, Node]:
    """The nodes by name in multi-line text. Raises ClusterError for a record that is not whole."""
    return by_name((_node(fields, what) for fields in _records(text, "NodeName")), what)


def parse_reservation_text(text: str, what: str = "scontrol show reservation") -> dict[str, Reservation]:
    """The reservations by name in multi-line text. Silence is not "none": Slurm says so when there are none."""
    found = {fields["ReservationName"]: _reservation(fields, what) for fields in _records(text, "ReservationName")}
    if not found and NO_RESERVATIONS not in text:
        raise ClusterError(f"`{what}` neither lists reservations nor says that there are none")
    return found


def _records(text: str, head: str) -> Iterator[Fields]:
    """The fields of each record. The first value of a name counts, and nothing after a comment."""
    fields: Fields = {}
    for line in text.splitlines():
        if line.lstrip().startswith(f"{head}="):
            if fields:
                yield fields
            fields = {}
        if fields and "Reason" in fields and CONTINUED.match(line):
            fields["Reason"] += f"\n{line.strip()}"
            continue
        if not FREE.isdisjoint(fields):
            continue  # what follows a comment may be its further lines: nothing that is read here comes after it
        for name, value in _pairs(line.strip()):
            fields.setdefault(name, value)
    if fields:
        yield fields


def _pairs(line: str) -> list[tuple[str, str]]:
    match = WHOLE.fullmatch(line)
    return [(match[1], match[2].strip())] if match else PAIR.findall(line)


def _field(fields: Fields, key: str, what: str) -> str:
    if key not in fields:
        name = fields.get("NodeName") or fields.get("ReservationName") or "?"
        raise ClusterError(f"`{what}`: the record of {name!r} has no {key}: the answer is not whole")
    return fields[key]


def _node(fields: Fields, what: str) -> Node:
    state = node_state(_field(fields, "State", what))
    reason, user, stamp = _reason(fields.get("Reason", ""))
    return Node(
        name=_field(fields, "NodeName", what),
        base=state.base,
        flags=state.flags,
        known=state.known,
        reason=reason,
        reason_user=user,
        reason_at=values.moment(stamp),
        boot_at=values.moment(fields.get("BootTime")),
        partitions=values.words(fields.get("Partitions")),
        features=values.words(fields.get("ActiveFeatures")),
        num_gpus=values.num_gpus(fields.get("Gres")),
        cpus=values.number(_field(fields, "CPUTot", what)) or 0,
        cpus_allocated=values.number(_field(fields, "CPUAlloc", what)) or 0,
        address=values.word(fields.get("NodeAddr")) or "",
    )


def _reason(text: str) -> tuple[str | None, str | None, str | None]:
    """Reason, user and time of `too hot [root@2026-11-29T15:00:00]`; the stamp ends the first line of a longer one."""
    match = STAMPED.fullmatch(text)
    if match is None:
        return values.reason(text), None, None
    reason = values.reason(match[1] + match[4])
    return (reason, match[2], match[3]) if reason else (None, None, None)


def _reservation(fields: Fields, what: str) -> Reservation:
    name = _field(fields, "ReservationName", what)
    return Reservation(
        name=name,
        nodes=answers.hosts(_field(fields, "Nodes", what), name, what),
        start_at=values.moment(_field(fields, "StartTime", what)),
        end_at=values.moment(_field(fields, "EndTime", what)),
        users=values.words(fields.get("Users")),
        flags=frozenset(values.words(fields.get("Flags"))),
    )
