"""Scores of GPUs by what NVML says of them under load: clock, reasons for a lower clock, heat.

Utilisation is not health: a GPU that is throttled to a quarter of its clock shows 100 %. A clock is compared with
that of equal GPUs in the same job (same highest clock, as a measure of the same model), and only under load.
"""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pandas as pd

from guardctl.judge import tables
from guardctl.judge.peers import compare
from guardctl.judge.reasons import HW_SLOWDOWN, IDLE, POWER_BRAKE, SW_POWER_CAP, THERMAL
from guardctl.judge.summary import WORKER, summarise
from guardctl.words.policy import Policy
from guardctl.words.records import Kind, Score

LOADED_PERCENT = 50.0  # utilisation from which a clock says something
AT_CAP_FRACTION = 0.95  # of the peers' power: a GPU at its power cap that draws as much as they do is ordinary silicon
HOTTER_C = 5.0  # C over the peers, so that a warm room is nobody's fault
SHARES = {"thermal_share": THERMAL, "power_brake_share": POWER_BRAKE, "hw_slowdown_share": HW_SLOWDOWN}
TEMPERATURE = "temperature_c"
WINDOW = [*WORKER, "window"]


def scores(readings: pd.DataFrame, policy: Policy, now: datetime) -> list[Score]:
    """Scores by clock for every GPU under load; by reasons and heat only for GPUs that have some."""
    loaded = _loaded(tables.windowed(readings, policy, now))
    if loaded.empty:
        return []
    return [*_clock(loaded, policy), *_reasons(loaded, policy), *_heat(loaded, policy)]


def _loaded(rows: pd.DataFrame) -> pd.DataFrame:
    """Readings of GPUs at work, with the columns that this module needs as numbers."""
    names = ("sm_clock_mhz", "max_sm_clock_mhz", "event_reasons", "power_w", TEMPERATURE, "utilization_percent")
    rows = rows.assign(**{name: tables.numbers(rows, name) for name in names})
    rows = rows.assign(gpu=tables.numbers(rows, "device").fillna(-1.0), uuid=tables.texts(rows, "uuid"))
    idle = _has(rows, IDLE) | (rows["utilization_percent"] < LOADED_PERCENT)
    return rows[~idle]


def _has(rows: pd.DataFrame, mask: int) -> pd.Series:
    """Whether a reason of `mask` is active; False where the reasons are not known."""
    return (rows["event_reasons"].fillna(0).astype("int64") & mask) != 0


def _clock(loaded: pd.DataFrame, policy: Policy) -> list[Score]:
    """Median SM clock; slow is `clock_fraction` and `mad_factor` MADs under the peers, unless that is silicon."""
    rows = loaded.assign(at_cap=_has(loaded, SW_POWER_CAP) & ~_has(loaded, THERMAL | POWER_BRAKE | HW_SLOWDOWN))
    rows = rows.assign(model=rows.groupby(list(WORKER))["max_sm_clock_mhz"].transform("max").fillna(-1.0))
    table = rows.groupby([*WINDOW, "model"], as_index=False).agg(
        value=("sm_clock_mhz", "median"), power_w=("power_w", "median"), at_cap=("at_cap", "mean")
    )
    peers_w = compare(table, "power_w", ["group", "model", "window"])["peers"]
    silicon = (table["at_cap"] > 1 / 2) & (table["power_w"] >= AT_CAP_FRACTION * peers_w)
    table = compare(table, "value", ["group", "model", "window"])
    lack = table["peers"] - table["value"]
    low = (lack > policy.judge.clock_fraction * table["peers"]) & (lack > policy.judge.mad_factor * table["mad"])
    table = table.assign(slow=low & ~silicon, relative=table["value"] / table["peers"])
    return summarise(table, Kind.GPU, "sm_clock_mhz", "MHz", policy)


def _reasons(loaded: pd.DataFrame, policy: Policy) -> Iterator[Score]:
    """Share of samples with a reason that only a fault or bad cooling gives, for GPUs on which it was seen."""
    known = loaded.dropna(subset=["event_reasons"])
    for signal, mask in SHARES.items():
        active = known.assign(value=_has(known, mask).astype("float64"))
        table = active.groupby(WINDOW, as_index=False).agg(value=("value", "mean")).assign(relative=np.nan)
        table = compare(table, "value", ["group", "window"])
        slow = table["value"] - table["peers"] >= policy.judge.reason_share
        found = summarise(table.assign(slow=slow), Kind.GPU, signal, "", policy)
        yield from (score for score in found if score.value or score.windows_slow)


def _heat(loaded: pd.DataFrame, policy: Policy) -> list[Score]:
    """Temperature, for GPUs that were hot and hotter than their peers; it supports other signals and proves nothing."""
    table = loaded.groupby(WINDOW, as_index=False).agg(value=(TEMPERATURE, "median"))
    table = compare(table.assign(relative=np.nan), "value", ["group", "window"])
    slow = (table["value"] >= policy.judge.hot_c) & (table["value"] >= table["peers"] + HOTTER_C)
    found = summarise(table.assign(slow=slow), Kind.GPU, TEMPERATURE, "C", policy)
    return [score for score in found if score.windows_slow]
