"""Which GPUs answer, from telemetry: identity, not health. Pure."""

from collections.abc import Iterator

import pandas as pd

from guardctl.judge import tables
from guardctl.words.records import Source

IDENTITY = ("uuid", "serial", "board", "name", "boot_id")


def gpus(telemetry: pd.DataFrame) -> Iterator[dict[str, str | None]]:
    """Per GPU that has told its UUID, from its newest reading: node, slot and what it says of itself."""
    seen = tables.of_source(telemetry, Source.GPU.value)
    named = seen[seen["uuid"].notna()] if "uuid" in seen else seen
    for row in tables.last(named, ["node", "device"]).to_dict("records"):
        said = {key: str(row[key]) if isinstance(row.get(key), str) else None for key in IDENTITY}
        yield {"node": str(row["node"]), "slot": str(row["device"]), **said}
