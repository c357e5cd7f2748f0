"""Export and import of the ledger as JSON Lines: one event a line, complete, in order.

    {"schema": "guardctl.event/1", "node": "n3", "at": "2026-01-31T12:00:00Z", "kind": "drained", ...}

What a newer guardctl wrote is exported as it is, so nothing is lost on the way through an older one.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TextIO

from guardctl.ledger import codec
from guardctl.ledger.store import Ledger
from guardctl.words.errors import InputError

SCHEMA = "guardctl.event/"
OPTIONAL = ("incident", "gpu_uuid", "serial", "boot_id")
TEXTS = ("why", "actor", "version", "policy_hash")


def export(ledger: Ledger, stream: TextIO) -> int:
    """Write all events to `stream`; gives how many. Raises LedgerError."""
    rows = ledger.rows()
    stream.writelines(line_of(row) + "\n" for row in rows)
    return len(rows)


def load(ledger: Ledger, stream: Iterable[str], name: str) -> int:
    """Add the events in `stream` that the ledger does not hold yet; gives how many. All or none.

    Loading the same file twice adds nothing the second time. Raises InputError that names `name:line`, LedgerError.
    """
    rows = [row_of(line, f"{name}:{number}") for number, line in enumerate(stream, start=1) if line.strip()]
    return ledger.append_rows(rows)


def line_of(row: dict[str, Any]) -> str:
    """One row of the table as a line, without its id, which means nothing elsewhere."""
    words = {key: row[key] for key in ("node", "kind", *TEXTS, *OPTIONAL)}
    head = {"schema": f"{SCHEMA}{row['schema']}", "at": codec.iso(codec.moment(row["at"]))}
    return json.dumps(head | words | {"detail": json.loads(row["detail"])})


def row_of(line: str, where: str) -> dict[str, Any]:
    """The row in one line; `where` is what errors call it. Raises InputError."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: an object was expected, not {line.strip()[:60]}")
    return {
        "schema": _schema(value, where),
        "at": _at(value, where),
        "node": _text(value, "node", where),
        "kind": _kind(value, where),
        "detail": _detail(value, where),
        **{key: _text(value, key, where, default="") for key in TEXTS},
        **{key: None if value.get(key) is None else _text(value, key, where) for key in OPTIONAL},
    }


def _schema(value: dict[str, Any], where: str) -> int:
    word = value.get("schema")
    if not isinstance(word, str) or not word.startswith(SCHEMA) or not word.removeprefix(SCHEMA).isdecimal():
        raise InputError(
            f'{where}: schema = {word!r}: "{SCHEMA}1" was expected', hint="`guardctl ledger export` writes it"
        )
    return int(word.removeprefix(SCHEMA))


def _kind(value: dict[str, Any], where: str) -> str:
    kind = _text(value, "kind", where)
    if not kind.isidentifier():
        raise InputError(f"{where}: kind = {kind!r} is not a word")
    return kind


def _at(value: dict[str, Any], where: str) -> int:
    text = _text(value, "at", where)
    try:
        return codec.micros(datetime.fromisoformat(text))
    except ValueError as error:
        raise InputError(f"{where}: at = {text!r}: a time with its zone was expected: {error}") from error


def _detail(value: dict[str, Any], where: str) -> str:
    detail = value.get("detail", {})
    if not isinstance(detail, dict):
        raise InputError(f"{where}: detail = {detail!r}: an object was expected")
    return json.dumps(codec.plain(detail), sort_keys=True)


def _text(value: dict[str, Any], key: str, where: str, *, default: str | None = None) -> str:
    text = value.get(key, default)
    if not isinstance(text, str):
        raise InputError(f"{where}: {key} = {text!r}: a text was expected")
    return str(codec.plain(text))
