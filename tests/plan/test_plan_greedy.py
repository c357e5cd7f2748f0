import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardctl.plan.cost import pipeline_time
from guardctl.plan.greedy import make
from guardctl.plan.groups import groupings
from guardctl.plan.model import Model, parse
from guardctl.plan.parallel import ParallelPlan, validate
from guardctl.words.errors import InputError

from .models import TEXT

pytestmark = pytest.mark.slow  # searches for plans of 64 GPUs

MODEL = parse(TEXT, name="m.toml")
BEST = {"N": 700.0, "S1": 737.08, "S2": 737.08, "S3": 761.52, "S4": 800.78, "S5": 802.32, "S6": 764.56, "T3": 754.04,
        "R1": 800.78, "R2": 825.61}  # fmt: skip
RELEASED = {"N": 700.0, "S1": 745.65, "S2": 745.65, "S3": 766.65, "S4": 805.22, "S5": 808.65, "S6": 766.13,
            "R1": 821.20, "R2": 835.31}  # fmt: skip


def step_time(plan: ParallelPlan) -> float:
    """By the formula, from the plan's own numbers."""
    return max(
        pipeline_time([s.slowness for s in each.stages], [s.layers for s in each.stages], each.micro_batches)
        for each in plan.pipelines
    )


@pytest.mark.parametrize("case", BEST)
def test_published_cases(case: str, cases: Path, model_110b: Model) -> None:
    data = json.loads((cases / f"rates-{case}.json").read_text())
    rates = {int(gpu): rate for gpu, rate in data["rates"].items()}
    plan = make(data["gpus"], rates, model_110b)
    assert validate(plan, model_110b, data["gpus"]) == []
    assert plan.step_time == pytest.approx(step_time(plan))
    assert plan.bound - 1e-6 <= plan.step_time <= BEST[case] * 1.01
    assert plan.step_time <= RELEASED.get(case, float("inf")) + 0.01  # no worse than the planner that was released
    assert plan.healthy_step_time == pytest.approx(700.0)
    assert plan.uniform_step_time is not None
    assert plan.uniform_step_time >= plan.step_time - 1e-6


def test_healthy_gpus_reach_the_bound(model_110b: Model) -> None:
    plan = make(64, {}, model_110b)
    assert plan.step_time == pytest.approx(700.0)
    assert plan.gap == pytest.approx(0.0)
    assert plan.standby == ()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5),
    st.dictionaries(st.integers(0, 19), st.floats(1.0, 20.0), max_size=6),
)
def test_plans_are_valid_and_never_under_the_bound(num_nodes: int, rates: dict[int, float]) -> None:
    rates = {gpu: rate for gpu, rate in rates.items() if gpu < 4 * num_nodes}
    plan = make(4 * num_nodes, rates, MODEL)
    assert validate(plan, MODEL, 4 * num_nodes) == []
    assert plan.step_time == pytest.approx(step_time(plan))
    assert plan.step_time >= plan.bound - 1e-6
    for pipeline in plan.pipelines:
        for stage in pipeline.stages:
            slowest = max(rates.get(gpu, 1.0) for gpu in stage.gpus)
            assert stage.slowness == pytest.approx(MODEL.slowdown[len(stage.gpus)] * slowest)


def test_a_gpu_that_hardly_moves_is_on_standby() -> None:
    plan = make(16, {5: 1000.0}, MODEL)
    assert 5 in plan.standby
    assert validate(plan, MODEL, 16) == []
    assert plan.step_time < make(16, {5: 2.0}, MODEL).step_time * 1.5


def test_slow_gpus_share_a_group() -> None:
    for grouping in groupings(range(4), {1: 3.0, 3: 3.0}, MODEL):
        sizes = [len(group.gpus) for group in grouping]
        if sorted(sizes) == [2, 2]:
            assert {group.gpus for group in grouping} == {(0, 2), (1, 3)}


def test_json_and_rank_order() -> None:
    plan = make(["a1", "a2", "a3", "a4"], {0: 3.0}, MODEL)
    data = json.loads(json.dumps(plan.to_json()))
    assert list(data) == [
        "profile", "step_time", "healthy_step_time", "uniform_step_time", "bound", "bound_kind", "gap", "seconds",
        "pipelines", "standby", "hosts", "rank_order",
    ]  # fmt: skip
    assert data["hosts"] == ["a1", "a2", "a3", "a4"]
    assert sorted([*data["rank_order"], *data["standby"]]) == list(range(16))
    assert list(data["pipelines"][0]) == ["micro_batches", "stages"]
    assert list(data["pipelines"][0]["stages"][0]) == ["gpus", "layers", "slowness"]


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (replace(make(16, {0: 3.0, 9: 1.5}, MODEL), seconds=0.0) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("num_gpus", "rates", "says"),
    [(16, {16: 2.0}, "GPU 16 does not exist"), (16, {0: 0.0}, "GPU 0 has rate 0.0"), (3, {}, "do not fit on 3 GPUs"),
     (0, {}, "do not fit on 0 GPUs"), (16, {0: float("nan")}, "GPU 0 has rate nan")],
)  # fmt: skip
def test_what_cannot_be_planned(num_gpus: int, rates: dict[int, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make(num_gpus, rates, MODEL)


def test_validate_finds_what_is_wrong() -> None:
    plan = make(16, {}, MODEL)
    pipeline, *rest = plan.pipelines
    stage, *others = pipeline.stages

    def says(**changes: object) -> str:
        bad = replace(pipeline, stages=(replace(stage, **changes), *others))  # type: ignore[arg-type]
        return "; ".join(validate(replace(plan, pipelines=(bad, *rest)), MODEL, 16))

    assert "layers, must be 8" in says(layers=stage.layers + 1)
    assert "memory has room" in says(layers=0)
    assert "a group of 3 GPUs" in says(gpus=stage.gpus[:3])
    assert "more than one node" in says(gpus=(0, 1, 2, 4))
    assert "is named 2 times" in says(gpus=others[0].gpus if others else rest[0].stages[0].gpus)
    fewer = replace(plan, pipelines=(replace(pipeline, micro_batches=0), *rest))
    assert any("fewer than its" in each for each in validate(fewer, MODEL))
    assert any("micro-batches in all" in each for each in validate(fewer, MODEL))
    assert any("missing" in each for each in validate(replace(plan, standby=(99,)), MODEL, 16))
