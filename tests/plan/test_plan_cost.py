import pytest

from guardctl.plan import cost
from guardctl.plan.greedy import uniform_time
from guardctl.plan.model import Model, parse

from .models import TEXT

MODEL = parse(TEXT, name="m.toml")


def test_a_group_runs_at_the_pace_of_its_slowest() -> None:
    assert cost.slowness([1.0, 2.0, 1.0, 1.0], MODEL) == 2.0
    assert cost.slowness([1.5, 2.0], MODEL) == pytest.approx(3.8)


def test_1f1b_by_hand() -> None:
    # stages of 1 x 6 and 2 x 2: the longest is 6, the sum 10; four micro-batches: 3 x 6 + 10
    assert cost.pipeline_time([1.0, 2.0], [6, 2], 4) == 28.0
    assert cost.pipeline_time([1.0], [8], 1) == 8.0


def test_memory_counts_from_the_last_stage() -> None:
    # free: 105 - 5 - 10 = 90 MB; two stages: (90 - 5) / 12 = 7, (90 - 5) / 10 = 8
    assert cost.caps([4, 4], MODEL) == (7, 8)
    # groups of two GPUs hold half: (45 - 5) / 12 = 3
    assert cost.caps([2, 4], MODEL) == (3, 8)
    # the stages between carry no embedding: 90 / 12 = 7
    assert cost.caps([4, 4, 4], MODEL) == (6, 7, 8)
    assert cost.caps([1, 4], MODEL) == (1, 8)


def test_fewest_gpus_of_a_pipeline() -> None:
    # one stage of 4 holds all 8 layers; of 2 and 2 only 3 + 4
    assert cost.min_gpus(MODEL) == 4
    assert cost.min_gpus(parse(TEXT.replace("bound = 105", "bound = 20"), name="m")) is None


def test_bounds_by_hand() -> None:
    # 8 healthy GPUs, D = 2: 8 x min((8 - 2) / 8 x 4 + 1, 6/8 x 3.8 + 1.9, 6/8 x 3.7 + 3.7) = 8 x 4
    assert cost.bound([1.0] * 8, MODEL) == cost.Bound(32.0, "pipeline")
    assert cost.bound([1.0] * 3, MODEL) is None


def test_uniform_plan_in_megatrons_order() -> None:
    healthy = uniform_time(16, {}, MODEL)
    assert healthy == cost.pipeline_time([1, 1], [4, 4], 4) == 20.0
    # GPUs 0-3 are dp 0, pp 0; GPUs 8-11 are dp 0, pp 1
    assert uniform_time(16, {0: 2.0, 8: 3.0}, MODEL) == cost.pipeline_time([2, 3], [4, 4], 4)
    assert uniform_time(16, {0: 2.0, 4: 3.0}, MODEL) == cost.pipeline_time([1, 3], [4, 4], 4)
    assert uniform_time(12, {}, MODEL) is None


def test_constants_of_the_110b_model(model_110b: Model) -> None:
    assert cost.min_gpus(model_110b) == 24
    lower = cost.bound([1.0] * 64, model_110b)
    assert lower is not None
    assert lower.step_time == pytest.approx(700.0)
    assert uniform_time(64, {}, model_110b) == 700.0
