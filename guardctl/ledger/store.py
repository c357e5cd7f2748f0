"""`Ledger`: the one thing that reads and writes what happened.

Events are added and read, never changed and never removed: there is no call for it.
"""

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from guardctl.ledger import codec, hardware, schema
from guardctl.ledger.engine import connect, guarded, name_of
from guardctl.ledger.fold import CHANGES, fold
from guardctl.ledger.migrate import bring_up, lock
from guardctl.words.records import Event, EventKind, Standing

log = logging.getLogger(__name__)


class Ledger:
    """The ledger behind one database; close it, or use it in a `with`.

    Every method raises LedgerError when the database fails; the message names the ledger, the hint the next step.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        self.name = name_of(engine.url)
        self.num_unknown = 0  # rows skipped so far, of kinds that only a newer guardctl knows
        self._folded: dict[str, Standing] = {}
        self._folded_to = (0, 0)  # at and id of the newest event in it

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """The ledger at `url` (`sqlite:///FILE`, `postgresql+psycopg://...`), brought up to this release's tables.

        With `create` False a missing SQLite file is an error. A ledger newer than this code is refused.
        """
        engine = connect(url, create=create)
        try:
            bring_up(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with guarded(self.name), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with guarded(self.name), self._writer.begin() as connection:
            lock(connection)
            yield connection

    def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Store `events` in this order, all or none, and give them back with their ids."""
        with self._write() as connection:
            return _insert(connection, events)

    def events(
        self,
        *,
        node: str | None = None,
        incident: str | None = None,
        gpu_uuid: str | None = None,
        since: datetime | None = None,
        kinds: Collection[EventKind] | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Events by time, then id. `since` is included; with `limit` the newest that many, still oldest first."""
        table = schema.events.c
        query = sa.select(schema.events)
        for column, wanted in ((table.node, node), (table.incident, incident), (table.gpu_uuid, gpu_uuid)):
            query = query if wanted is None else query.where(column == wanted)
        if since is not None:
            query = query.where(table.at >= codec.micros(since))
        if kinds is not None:
            query = query.where(table.kind.in_([str(kind) for kind in kinds]))
        query = query.order_by(table.at.desc(), table.id.desc()).limit(limit)
        with self._read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return list(self._known(reversed(rows)))

    def standings(self, now: datetime) -> dict[str, Standing]:
        """What every node's events add up to.

        The first call folds the whole ledger; later ones on the same object only what was added since.
        """
        fresh = self._fresh(after_id=self._folded_to[1])
        if fresh and fresh[0]["at"] < self._folded_to[0]:  # older history was imported
            self._folded, fresh = {}, self._fresh(after_id=0)
        if fresh:
            self._folded = fold(self._known(fresh), now, start=self._folded)
            self._folded_to = (fresh[-1]["at"], max(row["id"] for row in fresh))
        return fold((), now, start=self._folded)

    def _fresh(self, *, after_id: int) -> list[dict[str, Any]]:
        """Rows that can change a standing; ids follow the order of commits, since writers wait for each other."""
        table = schema.events.c
        query = sa.select(schema.events).where(table.id > after_id, table.kind.in_([str(kind) for kind in CHANGES]))
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query.order_by(table.at, table.id)).mappings()]

    def _known(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        skipped = 0
        for row in rows:
            event = codec.event_of(row)
            if event is None:
                skipped += 1
            else:
                yield event
        if skipped:
            self.num_unknown += skipped
            log.warning(
                "ledger %s: %d events of kinds that only a newer guardctl knows were skipped", self.name, skipped
            )

    def new_incident(self) -> str:
        """A tag such as `4k2` that no writer of this ledger has had or will have; later tags sort later."""
        counter = schema.counters
        query = sa.update(counter).where(counter.c.name == "incident").values(value=counter.c.value + 1)
        with self._write() as connection:
            return codec.tag(connection.execute(query.returning(counter.c.value)).scalar_one())

    def meta(self, key: str) -> Any:
        """What `set_meta` last kept under `key`; None if nothing."""
        query = sa.select(schema.meta.c.value).where(schema.meta.c.key == key)
        with self._read() as connection:
            text = connection.execute(query).scalar()
        return None if text is None else json.loads(text)

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a JSON value under `key`: state of the ticks, such as the last number of nodes."""
        table, text = schema.meta, json.dumps(codec.plain(value))
        with self._write() as connection:
            if not connection.execute(sa.update(table).where(table.c.key == key).values(value=text)).rowcount:
                connection.execute(sa.insert(table).values(key=key, value=text))

    def record_hardware(
        self, seen: Iterable[hardware.Gpu], now: datetime, *, actor: str = "", version: str = "", policy_hash: str = ""
    ) -> tuple[Event, ...]:
        """Note which GPU was seen where; gives what changed as HARDWARE events, stored already, one per node."""
        latest = {gpu.uuid: gpu for gpu in seen}
        with self._write() as connection:
            change = hardware.compare(latest.values(), hardware.read(connection), now)
            hardware.write(connection, change, now)
            stamp = partial(replace, actor=actor, version=version, policy_hash=policy_hash)
            return _insert(connection, [stamp(event) for event in change.events])

    def hardware(self) -> hardware.Inventory:
        """Every GPU ever seen, by UUID: where it is, since when, and how many sweeps it failed."""
        with self._read() as connection:
            return hardware.read(connection)

    def rows(self) -> list[dict[str, Any]]:
        """The table of events as it is, also kinds that this release does not know; for export."""
        query = sa.select(schema.events).order_by(schema.events.c.at, schema.events.c.id)
        with self._read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def append_rows(self, rows: Sequence[dict[str, Any]]) -> int:
        """Add rows that `rows` of another ledger gave, as far as they are not here yet; gives how many were added.

        Rows are equal when all but their ids are. Incidents made later will not take a tag that is in `rows`.
        """
        with self._write() as connection:
            here = Counter(_content(dict(row)) for row in connection.execute(sa.select(schema.events)).mappings())
            new = [row for row in rows if not _taken(here, _content(row))]
            if new:
                connection.execute(
                    sa.insert(schema.events), [{k: v for k, v in row.items() if k != "id"} for row in new]
                )
            _skip_tags(connection, (row["incident"] for row in new))
        return len(new)


def _insert(connection: sa.Connection, events: Sequence[Event]) -> tuple[Event, ...]:
    if not events:
        return ()
    query = sa.insert(schema.events).returning(schema.events.c.id, sort_by_parameter_order=True)
    ids = connection.execute(query, [codec.row_of(event) for event in events]).scalars().all()
    return tuple(replace(event, id=new) for event, new in zip(events, ids, strict=True))


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "id"}


def _content(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in schema.events.columns if column.name != "id")


def _taken(here: Counter[tuple[Any, ...]], content: tuple[Any, ...]) -> bool:
    """Whether one more row like this is here already, which is then spoken for."""
    here[content] -= 1
    return here[content] >= 0


def _skip_tags(connection: sa.Connection, incidents: Iterable[str | None]) -> None:
    highest = max((codec.number_of(each) or 0 for each in incidents if each), default=0)
    counter = schema.counters
    query = sa.update(counter).where(counter.c.name == "incident", counter.c.value < highest).values(value=highest)
    connection.execute(query)
