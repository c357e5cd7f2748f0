"""A parallel plan as a person wants to see it: one line per pipeline, one box per stage."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from guardctl.plan.parallel import ParallelPlan, Stage

SLOW = 1.05


def plan(found: ParallelPlan, rates: Mapping[int, float]) -> RenderableType:
    """The pipelines, who is on standby, and what the uneven GPUs cost."""
    table = Table("pipeline", "micro-batches", "stages: GPUs x layers, first to last", expand=False)
    for number, pipeline in enumerate(found.pipelines):
        stages = Text("  ").join(_stage(each, rates) for each in pipeline.stages)
        table.add_row(str(number), str(pipeline.micro_batches), stages)
    return Group(table, *(Text(line) for line in _lines(found)))


def _stage(stage: Stage, rates: Mapping[int, float]) -> Text:
    gpus = ",".join(map(str, stage.gpus))
    slow = max((rates.get(gpu, 1.0) for gpu in stage.gpus), default=1.0)
    return Text(f"[{gpus}]x{stage.layers}", "yellow" if slow > SLOW else "green")


def _lines(found: ParallelPlan) -> list[str]:
    loss = found.step_time / found.healthy_step_time - 1
    gap = f"at most {found.gap:.1%} over the best possible ({found.bound_kind} bound {found.bound:.4g})"
    lines = [f"step time {found.step_time:.4g}: {loss:.1%} over healthy hardware, {gap}"]
    if found.uniform_step_time is not None:
        lines.append(f"today's uniform plan would take {found.uniform_step_time:.4g}")
    if found.hosts:
        lines.append(f"hosts {', '.join(found.hosts)}; GPU g is on host g // GPUs per node, in this order")
    if found.standby:
        lines.append(f"on standby: GPU {', '.join(map(str, found.standby))}")
    return lines
