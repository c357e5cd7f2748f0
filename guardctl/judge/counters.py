"""Rates from counters that only grow, until a reboot or a reset starts them again."""

from datetime import datetime

import pandas as pd

from guardctl.judge import tables
from guardctl.words.policy import Policy

LONGEST_GAP = 2.0  # windows between two samples; over a longer gap the rate has no place in time


def per_window(readings: pd.DataFrame, column: str, policy: Policy, now: datetime) -> pd.DataFrame:
    """`value`: growth of a counter per second, by group, node and window, summed over the node's devices.

    Growth between two samples belongs to the window of the later one. A decrease, another boot id, or a gap of over
    two windows says nothing about the time between: no rate, which is not a rate of 0.
    """
    rows = readings.assign(count=tables.numbers(readings, column), boot_id=tables.texts(readings, "boot_id"))
    rows = rows.assign(device=tables.texts(rows, "device")).dropna(subset=["count"]).sort_values("at", kind="stable")
    steps = tables.windowed(_growth(rows, policy), policy, now)
    by_device = steps.groupby(["group", "node", "device", "window"], as_index=False)[["grown", "seconds"]].sum()
    by_device = by_device.assign(value=by_device["grown"] / by_device["seconds"])
    return by_device.groupby(["group", "node", "window"], as_index=False)[["value"]].sum()


def _growth(rows: pd.DataFrame, policy: Policy) -> pd.DataFrame:
    """`grown` and `seconds` since the sample before, where the two belong together."""
    devices = rows.groupby(["node", "device"], sort=False)
    grown, seconds = devices["count"].diff(), devices["at"].diff().dt.total_seconds()
    together = (rows["boot_id"] == devices["boot_id"].shift()) & (grown >= 0) & (seconds > 0)
    together &= seconds <= LONGEST_GAP * max(policy.judge.window_s, policy.observe.period_s)
    grew: pd.DataFrame = rows.assign(grown=grown, seconds=seconds).loc[together]
    return grew
