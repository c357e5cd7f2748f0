"""Slurm's JSON answers, opened: the list asked for, or a `ClusterError` when the answer is not whole.

Slurm 22.05 ends with exit code 0 and an empty list when its controller does not answer: only `errors` tells.
"""

import json
from collections.abc import Sequence
from typing import Any

from guardctl.cluster import nodesets
from guardctl.words.errors import ClusterError, InputError

NO_CONTROLLER = "the controller does not answer, or not in full: `scontrol ping`"


def records(text: str, keys: Sequence[str], what: str) -> list[dict[str, Any]]:
    """The records under the first of `keys` that is there; `what` is the command, for the errors."""
    document = _document(text, what)
    if errors := document.get("errors"):
        raise ClusterError(f"`{what}` reports an error: {_words(errors)}", hint=NO_CONTROLLER)
    found = next((document[key] for key in keys if key in document), None)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ClusterError(f"`{what}`: no list `{keys[0]}` in its JSON", hint=NO_CONTROLLER)
    return found


def field(record: dict[str, Any], key: str, what: str) -> Any:
    """A field that every whole record has."""
    if key not in record:
        name = record.get("name", record.get("job_id", "?"))
        raise ClusterError(f"`{what}`: the record of {name!r} has no `{key}`: the answer is not whole")
    return record[key]


def name_of(record: dict[str, Any], key: str, what: str) -> str:
    """A field that holds a name, not empty."""
    value = field(record, key, what)
    if not isinstance(value, str) or not value:
        raise ClusterError(f"`{what}`: `{key}` is {value!r}, not a name")
    return value


def hosts(text: Any, owner: object, what: str) -> tuple[str, ...]:
    """The names in a host list that Slurm printed for `owner` (a job, a reservation)."""
    try:
        return nodesets.expand(text or "")
    except InputError as error:
        raise ClusterError(f"`{what}`: nodes of {owner!r}: {error}") from error


def _document(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterError(f"`{what}`: not JSON: {error}", hint=NO_CONTROLLER) from error
    if not isinstance(document, dict):
        raise ClusterError(f"`{what}`: its JSON is a {type(document).__name__}, not an object")
    return document


def _words(errors: Any) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    if not isinstance(first, dict):
        return str(first)
    return " ".join(str(first[key]) for key in ("description", "error") if first.get(key)) or str(first)
