"""From a table with a row per worker and window to one score per worker."""

import math
from collections.abc import Hashable, Mapping

import pandas as pd

from guardctl.words.policy import Policy
from guardctl.words.records import Kind, Score

WORKER = ("group", "node", "gpu", "uuid")  # gpu -1: not of one GPU; uuid "": not known


def summarise(table: pd.DataFrame, kind: Kind, signal: str, unit: str, policy: Policy) -> list[Score]:
    """A score per worker; needs WORKER, value, peers, num_peers, relative, slow, window, and `rank` where it has one.

    Windows with fewer than `min_peers` peers are unknown and do not count; a worker with none has no score.
    """
    table = table[table["num_peers"] >= policy.judge.min_peers]
    by = [*WORKER, *(["rank"] if "rank" in table else [])]
    rows = table.groupby(by, as_index=False).agg(
        value=("value", "median"), peers=("peers", "median"), relative=("relative", "median"),
        windows=("window", "nunique"), windows_slow=("slow", "sum"), num_peers=("num_peers", "min"),
    )  # fmt: skip
    return [_score(row, kind, signal, unit) for row in rows.to_dict("records")]


def _score(row: Mapping[Hashable, object], kind: Kind, signal: str, unit: str) -> Score:
    gpu = int(float(str(row["gpu"])))
    return Score(
        node=str(row["node"]), kind=kind, signal=signal, gpu=gpu if gpu >= 0 else None,
        relative=_known(row["relative"]), value=_known(row["value"]), peers=_known(row["peers"]), unit=unit,
        windows=int(str(row["windows"])), windows_slow=int(str(row["windows_slow"])),
        num_peers=int(str(row["num_peers"])), job_id=str(row["group"]), uuid=str(row["uuid"]) or None,
    )  # fmt: skip


def _known(value: object) -> float | None:
    number = float(str(value))
    return None if math.isnan(number) else number
