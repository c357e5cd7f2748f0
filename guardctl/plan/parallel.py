"""A parallel plan as values and as JSON, and the list of rules that make it valid."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardctl.plan.cost import caps
from guardctl.plan.model import Model


@dataclass(frozen=True, slots=True)
class Stage:
    """One TP group with its layers. `slowness`: 1 = a full healthy group."""

    gpus: tuple[int, ...]
    layers: int
    slowness: float


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One replica of the model, first stage first."""

    micro_batches: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class ParallelPlan:
    """A plan. Times in units of one layer x one micro-batch on a full healthy group.

    `healthy_step_time`: the same planner on as many healthy GPUs. `uniform_step_time`: today's uniform plan on these
    GPUs; None where it does not fit their number. `gap` = step_time / bound - 1: 0.02 is at most 2 % over the best
    possible. `hosts`: host of GPU g is hosts[g // gpus_per_node]; empty where only a number was given.
    """

    profile: str
    step_time: float
    healthy_step_time: float
    uniform_step_time: float | None
    bound: float
    bound_kind: str
    seconds: float
    pipelines: tuple[Pipeline, ...]
    standby: tuple[int, ...]
    hosts: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How far it is over the lower bound: no plan is better by more."""
        return self.step_time / self.bound - 1

    @property
    def rank_order(self) -> tuple[int, ...]:
        """The GPU of each rank: pipeline by pipeline, stage by stage. GPUs on standby have no rank."""
        return tuple(gpu for pipeline in self.pipelines for stage in pipeline.stages for gpu in stage.gpus)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain lists, numbers and strings."""
        return {
            "profile": self.profile, "step_time": self.step_time, "healthy_step_time": self.healthy_step_time,
            "uniform_step_time": self.uniform_step_time, "bound": self.bound, "bound_kind": self.bound_kind,
            "gap": self.gap, "seconds": self.seconds, "pipelines": [_pipeline_json(each) for each in self.pipelines],
            "standby": list(self.standby), "hosts": list(self.hosts), "rank_order": list(self.rank_order),
        }  # fmt: skip


def _pipeline_json(pipeline: Pipeline) -> dict[str, Any]:
    stages = [{"gpus": list(s.gpus), "layers": s.layers, "slowness": s.slowness} for s in pipeline.stages]
    return {"micro_batches": pipeline.micro_batches, "stages": stages}


def validate(plan: ParallelPlan, model: Model, num_gpus: int | None = None) -> list[str]:
    """What is wrong with a plan, in words; empty: it is valid. `num_gpus`: how many must be used or on standby."""
    wrong = [f"pipeline {i}: {what}" for i, each in enumerate(plan.pipelines) for what in _wrong(each, model)]
    total = sum(pipeline.micro_batches for pipeline in plan.pipelines)
    if total != model.num_micro_batches:
        wrong.append(f"{total} micro-batches in all, must be {model.num_micro_batches}")
    counts = Counter((*plan.rank_order, *plan.standby))
    wrong += [f"GPU {gpu} is named {count} times" for gpu, count in sorted(counts.items()) if count > 1]
    if num_gpus is not None and set(counts) != set(range(num_gpus)):
        wrong.append(f"GPUs {sorted(set(counts) ^ set(range(num_gpus)))} are missing or do not exist")
    return wrong


def _wrong(pipeline: Pipeline, model: Model) -> Iterator[str]:
    layers = sum(stage.layers for stage in pipeline.stages)
    if layers != model.num_layers:
        yield f"{layers} layers, must be {model.num_layers}"
    if pipeline.micro_batches < len(pipeline.stages):
        yield f"{pipeline.micro_batches} micro-batches are fewer than its {len(pipeline.stages)} stages"
    if not 1 <= len(pipeline.stages) <= model.max_stages:
        yield f"{len(pipeline.stages)} stages, must be 1 to {model.max_stages}"
        return
    room = caps([len(stage.gpus) for stage in pipeline.stages], model)
    for i, (stage, cap) in enumerate(zip(pipeline.stages, room, strict=True)):
        yield from (f"stage {i}: {what}" for what in _wrong_stage(stage, cap, model))


def _wrong_stage(stage: Stage, cap: int, model: Model) -> Iterator[str]:
    if len(stage.gpus) not in model.slowdown:
        yield f"a group of {len(stage.gpus)} GPUs, must be one of {sorted(model.slowdown)}"
    if len({gpu // model.gpus_per_node for gpu in stage.gpus}) > 1:
        yield f"GPUs {list(stage.gpus)} are on more than one node"
    if not 1 <= stage.layers <= cap:
        yield f"{stage.layers} layers, memory has room for 1 to {cap}"
