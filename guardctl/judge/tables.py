"""Small reads of the two tables: numbers of a column that may be missing, time windows, evidence that is spent."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
import pandas as pd

from guardctl.words.policy import Policy


def after(table: pd.DataFrame, settled: Mapping[str, datetime]) -> pd.DataFrame:
    """The rows that are not older than their node's time in `settled`; nodes that are not in it keep all rows."""
    if table.empty or not settled:
        return table
    limit = pd.to_datetime(table["node"].map(dict(settled)), utc=True)
    return table.loc[~(table["at"] < limit)]


def numbers(table: pd.DataFrame, column: str) -> pd.Series:
    """A column as float64; NaN where it is missing, unknown or no number."""
    if column not in table:
        return pd.Series(np.nan, index=table.index, dtype="float64")
    return pd.to_numeric(table[column], errors="coerce").astype("float64")


def texts(table: pd.DataFrame, column: str) -> pd.Series:
    """A column as str; empty where it is missing or unknown."""
    if column not in table:
        return pd.Series("", index=table.index, dtype="object")
    return table[column].astype("object").where(table[column].notna(), "").astype(str)


def windowed(table: pd.DataFrame, policy: Policy, now: datetime) -> pd.DataFrame:
    """The rows of the last windows, with their `window`: 0 is the oldest, each (start, end], the last ends at `now`.

    Rows from before or from after `now` (a node whose clock runs ahead) are left out.
    """
    if table.empty:
        return table.assign(window=pd.Series(dtype="int64"))
    age_s = (pd.Timestamp(now) - table["at"]).dt.total_seconds()
    back = np.floor(age_s / policy.judge.window_s)
    inside: pd.DataFrame = table.assign(window=policy.judge.windows - 1 - back)
    inside = inside.loc[(age_s >= 0) & (back < policy.judge.windows)]
    return inside.astype({"window": "int64"})


def of_source(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The readings of one source; empty if the table has none."""
    return table.loc[table["source"] == source] if "source" in table else table.iloc[:0]


def last(table: pd.DataFrame, by: Sequence[str], num: int = 1) -> pd.DataFrame:
    """The newest `num` rows of each group."""
    ordered: pd.DataFrame = table.sort_values("at", kind="stable")
    newest: pd.DataFrame = ordered.groupby(list(by), sort=False, dropna=False).tail(num)
    return newest
