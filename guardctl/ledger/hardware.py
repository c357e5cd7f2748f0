"""Which GPU is where. A moved card keeps its past; a new card starts clean.

In: the GPUs that were seen and what is remembered. Out: the rows to keep and one HARDWARE event per changed node.
A GPU that is merely not seen stays where it was: lost is a finding of the judge, not a removal. It counts as replaced
only when another card answers from its slot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from guardctl.ledger import codec, schema
from guardctl.words.records import Event, EventKind

REFRESH = timedelta(hours=1)  # `last_seen_at` is written no more often: it must not cost a write per GPU and tick


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as it was seen: `slot` is its index on the node, `sku` its model, `boot_id` that of its node."""

    uuid: str
    node: str
    slot: str = ""
    serial: str | None = None
    board: str | None = None
    sku: str | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """One GPU as it is remembered. `gpu.node` is "" for one that was taken out and not seen again."""

    gpu: Gpu
    first_seen_at: datetime
    last_seen_at: datetime
    num_failed: int = 0  # sweeps that convicted this card, on whatever node


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that is remembered: GPUs by UUID, boot ids by node."""

    gpus: Mapping[str, Known] = field(default_factory=dict)
    boots: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What to keep of one look: GPU rows and boot ids that changed, and the events that tell of it."""

    gpus: tuple[Known, ...] = ()
    boots: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def compare(seen: Iterable[Gpu], known: Inventory, now: datetime) -> Change:
    """What `seen` changes about `known`: one event per node with news, in the order of their names."""
    present = sorted(seen, key=attrgetter("node", "slot", "uuid"))
    where = {gpu.uuid: gpu.node for gpu in present}
    rows: list[Known] = []
    boots: dict[str, str] = {}
    events: list[Event] = []
    for node, group in groupby(present, key=attrgetter("node")):
        gpus = tuple(group)
        gone = _replaced(node, gpus, known, where)
        rows += [each for gpu in gpus if (each := _row(gpu, known.gpus.get(gpu.uuid), now)) is not None]
        rows += [replace(each, gpu=replace(each.gpu, node="")) for each in gone]
        boot_id = next((gpu.boot_id for gpu in gpus if gpu.boot_id), None)
        if boot_id is not None and boot_id != known.boots.get(node):
            boots[node] = boot_id
        events += _events(node, gpus, gone, known, now)
    return Change(tuple(rows), boots, tuple(events))


def _row(gpu: Gpu, before: Known | None, now: datetime) -> Known | None:
    """The row to write for a GPU; None where nothing is new and it was written lately."""
    if before is None:
        return Known(gpu, now, now)
    merged = replace(
        gpu,
        serial=gpu.serial or before.gpu.serial,
        board=gpu.board or before.gpu.board,
        sku=gpu.sku or before.gpu.sku,
        boot_id=None,
    )
    if merged == before.gpu and now - before.last_seen_at < REFRESH:
        return None
    return Known(merged, before.first_seen_at, now, before.num_failed)


def _replaced(node: str, gpus: Sequence[Gpu], known: Inventory, where: Mapping[str, str]) -> list[Known]:
    """Cards that we had on `node`, in a slot from which another one answers now, and that are seen nowhere."""
    slots = {gpu.slot for gpu in gpus if gpu.slot}
    return [
        each
        for uuid, each in known.gpus.items()
        if each.gpu.node == node and uuid not in where and each.gpu.slot in slots
    ]


def _events(node: str, gpus: Sequence[Gpu], gone: Sequence[Known], known: Inventory, now: datetime) -> list[Event]:
    changes = [_change(gpu, known.gpus.get(gpu.uuid)) for gpu in gpus]
    news = [each for each in changes if each] + [_gone(each.gpu) for each in gone]
    boot_id = next((gpu.boot_id for gpu in gpus if gpu.boot_id), None)
    rebooted = boot_id is not None and boot_id != known.boots.get(node) and node in known.boots
    if not news and not rebooted and (boot_id is None or node in known.boots):
        return []
    here = {gpu.uuid for gpu in gpus} | {uuid for uuid, each in known.gpus.items() if each.gpu.node == node}
    present = sorted(here - {each.gpu.uuid for each in gone})
    first = not any(each.gpu.node == node for each in known.gpus.values())
    detail = {"gpu_uuids": present, "changes": news, "rebooted": rebooted}
    why = _words(gpus, news, first=first, rebooted=rebooted)
    return [Event(node, now, EventKind.HARDWARE, why, detail=detail, boot_id=boot_id or known.boots.get(node))]


def _change(gpu: Gpu, before: Known | None) -> dict[str, str | int | None]:
    if before is None:
        return {"change": "new", "uuid": gpu.uuid, "slot": gpu.slot, "serial": gpu.serial}
    if before.gpu.node == gpu.node:
        return {}
    return {
        "change": "moved",
        "uuid": gpu.uuid,
        "slot": gpu.slot,
        "serial": gpu.serial or before.gpu.serial,
        "from": before.gpu.node or None,
        "failed_sweeps": before.num_failed,
    }


def _gone(gpu: Gpu) -> dict[str, str | int | None]:
    return {"change": "replaced", "uuid": gpu.uuid, "slot": gpu.slot, "serial": gpu.serial}


def _words(gpus: Sequence[Gpu], news: Sequence[Mapping[str, object]], *, first: bool, rebooted: bool) -> str:
    if first and all(each["change"] == "new" for each in news):
        skus = ", ".join(sorted({gpu.sku for gpu in gpus if gpu.sku}))
        return f"first seen with {len(gpus)} GPUs" + (f" ({skus})" if skus else "")
    parts = ["rebooted"] if rebooted else []
    parts += [_sentence(each) for each in news]
    return "; ".join(parts)


def _sentence(news: Mapping[str, object]) -> str:
    card = f"GPU {news['slot']} {news['uuid']}".replace("  ", " ")
    if news["change"] == "moved":
        failed = f", where it failed {news['failed_sweeps']} sweeps" if news["failed_sweeps"] else ""
        return f"{card} came from {news['from'] or 'the shelf'}{failed}"
    return f"{card} was taken out" if news["change"] == "replaced" else f"{card} is new"


def read(connection: sa.Connection) -> Inventory:
    """What the tables remember."""
    failed = {row["gpu_uuid"]: int(row["num"]) for row in connection.execute(_failed_sweeps()).mappings()}
    gpus = {
        row["uuid"]: Known(
            Gpu(row["uuid"], row["node"] or "", row["slot"], row["serial"], row["board"], row["sku"]),
            codec.moment(row["first_seen_at"]),
            codec.moment(row["last_seen_at"]),
            failed.get(row["uuid"], 0),
        )
        for row in connection.execute(sa.select(schema.gpus)).mappings()
    }
    boots = {row["node"]: row["boot_id"] for row in connection.execute(sa.select(schema.nodes)).mappings()}
    return Inventory(gpus, boots)


def _failed_sweeps() -> sa.Select[Any]:
    table = schema.events.c
    query = sa.select(table.gpu_uuid, sa.func.count().label("num")).where(table.gpu_uuid.is_not(None))
    return query.where(table.kind == str(EventKind.SWEEP_FAILED)).group_by(table.gpu_uuid)


def write(connection: sa.Connection, change: Change, now: datetime) -> None:
    """Keep what changed: rows are replaced whole."""
    gpus, nodes, at = schema.gpus, schema.nodes, codec.micros(now)
    if change.gpus:
        _forget(connection, gpus.c.uuid, [each.gpu.uuid for each in change.gpus])
        connection.execute(sa.insert(gpus), [_columns(each) for each in change.gpus])
    for node, boot_id in change.boots.items():
        values = {"boot_id": boot_id, "last_seen_at": at}
        if not connection.execute(sa.update(nodes).where(nodes.c.node == node).values(values)).rowcount:
            connection.execute(sa.insert(nodes).values(node=node, first_seen_at=at, **values))


def _forget(connection: sa.Connection, column: sa.Column[str], keys: Sequence[str], chunk: int = 500) -> None:
    for start in range(0, len(keys), chunk):
        connection.execute(sa.delete(column.table).where(column.in_(keys[start : start + chunk])))


def _columns(known: Known) -> dict[str, str | int | None]:
    gpu = known.gpu
    return {
        "uuid": codec.plain(gpu.uuid),
        "serial": codec.plain(gpu.serial),
        "board": codec.plain(gpu.board),
        "sku": codec.plain(gpu.sku),
        "node": codec.plain(gpu.node) or None,
        "slot": codec.plain(gpu.slot),
        "first_seen_at": codec.micros(known.first_seen_at),
        "last_seen_at": codec.micros(known.last_seen_at),
    }
