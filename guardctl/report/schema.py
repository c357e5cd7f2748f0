"""The published JSON Schemas of the documents that `guardctl.report.json` makes."""

from functools import cache
from typing import Any

from guardctl.report import rows
from guardctl.report.json import VERSION
from guardctl.report.summary import Summary
from guardctl.words.records import Verdict

ROWS: dict[str, type] = {
    "status": rows.StatusRow,
    "verdicts": Verdict,
    "explain": rows.EventRow,
    "sweep": rows.SweepRow,
    "pairs": rows.PairRow,
    "hosts": rows.HostRow,
    "report": Summary,
}


@cache
def published(name: str) -> dict[str, Any]:
    """The JSON Schema of `guardctl.<name>/1`. Raises KeyError for a name that is not in `ROWS`."""
    from pydantic import TypeAdapter

    row = TypeAdapter(ROWS[name]).json_schema(mode="serialization", ref_template="#/$defs/{model}")
    definitions = row.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"guardctl.{name}/{VERSION}",
        "type": "object",
        "required": ["schema", "at", "rows"],
        "properties": {
            "schema": {"const": f"guardctl.{name}/{VERSION}"},
            "at": {"type": "string", "format": "date-time"},
            "rows": {"type": "array", "items": row},
        },
        "$defs": definitions,
    }
