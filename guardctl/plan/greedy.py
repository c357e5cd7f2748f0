"""The greedy planner: groupings node by node, pipelines by moves and swaps, layers and micro-batches exactly.

Starts from full groups and changes the grouping of one node at a time (those with unequal GPUs, and a few healthy ones
that may be cut to fill gaps): every grouping is tried in the place of the present one, the best few are improved by
moves, and the best of all stays. Ends when no node's grouping helps. Not optimal; `gap` bounds what is lost.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guardctl.plan import inner
from guardctl.plan.cost import bound, min_gpus, pipeline_time, slowness
from guardctl.plan.groups import Group, Grouping, groupings, nodes_of
from guardctl.plan.model import Model
from guardctl.plan.parallel import ParallelPlan, Pipeline, Stage
from guardctl.plan.search import INFINITE, Space, State, exchange, improve, spread
from guardctl.words.errors import InputError

PROFILE = "full"  # uneven groups, layers and micro-batches
TRIES = 6  # groupings of a node that are improved, by their first step time
CUT_HEALTHY = 2  # equal healthy nodes that may be cut, each by itself
PASSES = 4
ALL_DEGREES = 3  # numbers of pipelines up to which all are tried


def make(hosts: Sequence[str] | int, rates: Mapping[int, float], model: Model) -> ParallelPlan:
    """A plan for all GPUs of these hosts, or for so many GPUs; GPU g is on host g // gpus_per_node.

    `rates`: straggling rate by GPU, 1 where not named; one that is out of use is on standby by a high rate. Raises
    `InputError` if a rate is no rate, a GPU does not exist, or the model does not fit.
    """
    began = time.perf_counter()
    names = () if isinstance(hosts, int) else tuple(hosts)
    num_gpus = hosts if isinstance(hosts, int) else len(names) * model.gpus_per_node
    _check(rates, num_gpus)
    lower = bound([rates.get(gpu, 1.0) for gpu in range(num_gpus)], model)
    found = _best(num_gpus, rates, model) if lower else None
    if lower is None or found is None:
        raise InputError(f"the model's {model.num_layers} layers do not fit on {num_gpus} GPUs", hint="add hosts")
    pipelines, standby, step_time = _placed(found, num_gpus, model)
    healthy = _best(num_gpus, {}, model) if rates else found
    return ParallelPlan(
        PROFILE, step_time, healthy.state.step_time if healthy else step_time, uniform_time(num_gpus, rates, model),
        lower.step_time, lower.kind, time.perf_counter() - began, pipelines, standby, names,
    )  # fmt: skip


def uniform_time(num_gpus: int, rates: Mapping[int, float], model: Model) -> float | None:
    """Step time of today's uniform plan; None where GPUs, layers or micro-batches do not divide.

    Rank = tp + TP * (dp + DP * pp), Megatron's order: a stage column is a contiguous block.
    """
    data, rest = divmod(num_gpus, model.tensor * model.pipeline)
    if rest or not data or model.num_layers % model.pipeline or model.num_micro_batches % data:
        return None
    layers = [model.num_layers // model.pipeline] * model.pipeline
    blocks = [range(start, start + model.tensor) for start in range(0, num_gpus, model.tensor)]
    slow = [slowness([rates.get(gpu, 1.0) for gpu in block], model) for block in blocks]
    return max(pipeline_time(slow[dp::data], layers, model.num_micro_batches // data) for dp in range(data))


def _check(rates: Mapping[int, float], num_gpus: int) -> None:
    for gpu, rate in rates.items():
        if not 0 <= gpu < num_gpus:
            raise InputError(f"rates: GPU {gpu} does not exist, there are {num_gpus}")
        if not 0 < rate < INFINITE:
            raise InputError(f"rates: GPU {gpu} has rate {rate!r}: must be over 0 (1 healthy, 2 takes twice as long)")


# --- search ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    state: State
    chosen: tuple[Grouping, ...]  # by node
    space: Space


def _best(num_gpus: int, rates: Mapping[int, float], model: Model) -> _Found | None:
    """The best over several numbers of pipelines; None if none holds the model."""
    nodes = nodes_of(num_gpus, model)
    choices = _choices(nodes, rates, model)
    space = Space(model)
    found = [_descend(choices, degree, space) for degree in _degrees(num_gpus, model)]
    best = min(found, key=lambda each: each.state.step_time, default=None)
    return best if best and best.state.step_time < INFINITE else None


def _degrees(num_gpus: int, model: Model) -> list[int]:
    """Numbers of pipelines to try: the most that fit and their neighbours, and today's."""
    fewest = min_gpus(model)
    most = min(num_gpus // fewest, model.num_micro_batches) if fewest else 0
    near = range(max(1, most - ALL_DEGREES + 1), most + 1)
    return sorted({*near, min(model.data, most)} - {0})


def _choices(nodes: Sequence[range], rates: Mapping[int, float], model: Model) -> list[list[Grouping]]:
    """The groupings of each node, the one with the largest groups first; only one for most of the healthy nodes."""
    found: list[list[Grouping]] = []
    num_cut = 0
    for gpus in nodes:
        all_ways = groupings(gpus, rates, model)
        equal = len({rates.get(gpu, 1.0) for gpu in gpus}) == 1
        found.append(all_ways[:1] if equal and num_cut >= CUT_HEALTHY else all_ways)
        num_cut += equal
    return found


def _descend(choices: Sequence[Sequence[Grouping]], num_pipelines: int, space: Space) -> _Found:
    """Coordinate descent over the nodes' groupings, from the largest groups on."""
    chosen = [ways[0] for ways in choices]
    kinds = [group.kind for grouping in chosen for group in grouping]
    state = improve(spread(kinds, num_pipelines, space), space)
    for _ in range(PASSES):
        before = state.step_time
        for node, ways in enumerate(choices):
            if len(ways) > 1:
                state, chosen[node] = _regroup(state, chosen[node], ways, space)
        if state.step_time >= before:
            break
    return _Found(state, tuple(chosen), space)


def _regroup(state: State, present: Grouping, ways: Sequence[Grouping], space: Space) -> tuple[State, Grouping]:
    """The state with the best grouping of one node in the place of its present one."""
    out = [group.kind for group in present]
    trials = [(exchange(state, out, [group.kind for group in way], space), way) for way in ways if way != present]
    trials = sorted(trials, key=lambda trial: trial[0].step_time)[:TRIES]
    improved = [(improve(trial, space), way) for trial, way in trials]
    return min([(state, present), *improved], key=lambda trial: trial[0].step_time)


# --- from kinds to GPUs ---------------------------------------------------------------------------------------------


def _placed(found: _Found, num_gpus: int, model: Model) -> tuple[tuple[Pipeline, ...], tuple[int, ...], float]:
    """Real groups for the kinds of the state, with layers and micro-batches; and who is left on standby."""
    space, state = found.space, found.state
    solution = inner.assign([space.options(each) for each in state.pipelines], model.num_micro_batches)
    if solution is None:  # the search keeps only states that have one
        raise AssertionError(state)
    free: list[Group] = [group for grouping in found.chosen for group in grouping]
    pipelines: list[Pipeline] = []
    for kinds, split, count in zip(state.pipelines, solution.splits, solution.micro_batches, strict=True):
        stages: list[Stage] = []
        for kind, layers in zip(kinds, split.layers, strict=True):
            group = next(each for each in free if each.kind == kind)
            free.remove(group)
            stages.append(Stage(group.gpus, layers, kind.slowness))
        pipelines.append(Pipeline(count, tuple(stages)))
    used = {gpu for pipeline in pipelines for stage in pipeline.stages for gpu in stage.gpus}
    return tuple(pipelines), tuple(gpu for gpu in range(num_gpus) if gpu not in used), solution.step_time
