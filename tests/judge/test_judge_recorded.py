"""A recorded job: one worker (dp 0, pp 0) of a 4 x 4 pipeline job computes 2.4 times slower. Source: ByteDance."""

from pathlib import Path

import pandas as pd
import pytest

from guardctl.judge import score
from guardctl.judge.verdict import judge
from guardctl.words.records import Health

from .worlds import NOW, POLICY


@pytest.fixture
def recorded(data_dir: Path) -> pd.DataFrame:
    """Its steps, as if they had run one after the other until now."""
    table = pd.read_csv(data_dir / "bench" / "bytedance_straggler" / "derived_AR_per_step.csv")
    numbers = {step: i for i, step in enumerate(sorted(table["step"].unique()))}
    number = table["step"].map(numbers)
    return pd.DataFrame({
        "job_id": "AR", "rank": table["dp_rank"] * 4 + table["pp_rank"], "stage": table["pp_rank"], "step": number,
        "node": "dp" + table["dp_rank"].astype(str) + "pp" + table["pp_rank"].astype(str),
        "busy_s": (table["forward-compute_us"] + table["backward-compute_us"]) / 1e6,
        "at": NOW - pd.to_timedelta((len(numbers) - 1 - number) * 47, unit="s"),
    })  # fmt: skip


def test_the_slow_worker_and_nobody_else(recorded: pd.DataFrame) -> None:
    policy = POLICY.model_copy(update={"judge": POLICY.judge.model_copy(update={"window_s": 240.0})})
    scores = score.rate(recorded, policy, NOW)
    said = judge(scores, [], {}, policy, NOW)
    assert [(each.node, each.health, each.confirmed) for each in said] == [("dp0pp0", Health.SUSPECT, False)]
    assert said[0].relative == pytest.approx(1 / 2.4, rel=0.1)
    assert len(scores) == 16
