"""JSON documents: each says the name and version of its schema (`guardctl.report.schema` has the schemas).

    {"schema": "guardctl.status/1", "at": "2026-01-31T12:00:00Z", "rows": [...]}

A field is only ever added within a version; a change of meaning makes a new one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from guardctl.ledger.codec import plain

VERSION = 1


def as_json(value: Any) -> Any:
    """`value` as JSON has it: dataclasses are objects, times ISO 8601 in UTC, enums their values, unknown is null.

    Raises TypeError for a value that has no JSON form.
    """
    return plain(value)


def document(name: str, rows: Sequence[Any], at: datetime, **more: Any) -> dict[str, Any]:
    """A document of rows of one kind, made at `at`; `more` are further keys beside `rows`."""
    head = {"schema": f"guardctl.{name}/{VERSION}", "at": as_json(at)}
    return head | {key: as_json(value) for key, value in more.items()} | {"rows": [as_json(row) for row in rows]}
