"""Which groups share a pipeline: a first spread by capacity, then single moves and swaps while they help.

A state is a tuple of pipelines and a standby, each a sorted tuple of group kinds: equal groups are exchangeable, so
equal pipelines are the same pipeline and moves that look alike are tried once. Everything is deterministic.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from guardctl.plan import inner
from guardctl.plan.cost import Kind, caps
from guardctl.plan.model import Model

Pipeline = tuple[Kind, ...]
INFINITE = float("inf")
GAIN = 1e-6  # relative; less is rounding
EXCHANGES = ((1, 0), (0, 1), (1, 1), (2, 1), (1, 2))  # how many groups go out, how many come back


@dataclass(frozen=True, slots=True)
class State:
    """Groups in pipelines and on standby. `step_time` is inf where the pipelines cannot hold the model."""

    pipelines: tuple[Pipeline, ...]
    standby: Pipeline = ()
    step_time: float = INFINITE


@dataclass(frozen=True, slots=True)
class Space:
    """The search space of one model, with every pipeline's splits once they are known."""

    model: Model
    known: dict[Pipeline, tuple[inner.Split, ...]] = field(default_factory=dict)

    def options(self, pipeline: Pipeline) -> tuple[inner.Split, ...]:
        """The splits worth having; empty if the pipeline is too short, too long or lacks memory."""
        if pipeline not in self.known:
            self.known[pipeline] = self._options(pipeline)
        return self.known[pipeline]

    def _options(self, pipeline: Pipeline) -> tuple[inner.Split, ...]:
        if not 1 <= len(pipeline) <= self.model.max_stages:
            return ()
        room = caps([kind.size for kind in pipeline], self.model)
        return inner.splits([kind.slowness for kind in pipeline], room, self.model.num_layers)

    def timed(self, state: State) -> State:
        """The state with its least step time."""
        counted: dict[tuple[inner.Split, ...], int] = {}
        for pipeline in state.pipelines:
            options = self.options(pipeline)
            if not options:
                return replace(state, step_time=INFINITE)
            counted[options] = counted.get(options, 0) + 1
        stages = [len(options[0].layers) for options in counted]
        return replace(state, step_time=inner.least_time(counted, stages, self.model.num_micro_batches))

    def most(self, pipeline: Pipeline, step_time: float) -> float:
        """Micro-batches within `step_time`; -inf if the pipeline cannot be or has fewer than its stages."""
        options = self.options(pipeline)
        most = inner.most_micro_batches(options, step_time)[0] if options else -1
        return most if most >= len(pipeline) else -INFINITE


def in_order(kinds: Sequence[Kind]) -> Pipeline:
    """The stages of a pipeline: slow groups first. They hold few layers, and early layers need the most memory."""
    return tuple(sorted(kinds, key=lambda kind: (-kind.slowness, kind.size)))


def spread(kinds: Sequence[Kind], num_pipelines: int, space: Space) -> State:
    """A first state: the fast groups dealt out evenly, then each slower one to the pipeline with the least capacity.

    So the slow groups come to share the pipelines that got fewer fast ones.
    """
    pipelines: list[list[Kind]] = [[] for _ in range(num_pipelines)]
    standby: list[Kind] = []
    for kind in sorted(kinds, key=lambda kind: (kind.slowness, kind.size)):
        least = min(pipelines, key=lambda each: (sum(1 / one.slowness for one in each), len(each)))
        (least if len(least) < space.model.max_stages else standby).append(kind)
    return space.timed(State(tuple(sorted(in_order(each) for each in pipelines)), in_order(standby)))


def improve(state: State, space: Space) -> State:
    """The state after all moves and swaps that shorten the step, one after the other."""
    if state.step_time == INFINITE:
        return state
    while (better := _first_better(state, space)) is not None:
        state = better
    return state


def exchange(state: State, out: Sequence[Kind], into: Sequence[Kind], space: Space) -> State:
    """The state with groups `out` replaced by groups `into`, each put where the step is shortest."""
    places = [list(each) for each in (*state.pipelines, state.standby)]
    for kind in out:
        next(place for place in places if kind in place).remove(kind)
    for kind in sorted(into, key=lambda kind: kind.slowness):
        different = {in_order(place): i for i, place in enumerate(places[:-1])}.values()
        trials = {i: _with(places, i, kind, space).step_time for i in (*different, len(places) - 1)}
        best = min(trials, key=lambda i: (trials[i], _capacity(places[i])))
        if trials[best] == INFINITE:  # not all are filled yet: feed the weakest pipeline
            best = min(different, key=lambda i: _capacity(places[i]))
        places[best].append(kind)
    return space.timed(_state(places))


def _with(places: Sequence[Sequence[Kind]], index: int, kind: Kind, space: Space) -> State:
    return space.timed(_state([[*place, kind] if i == index else place for i, place in enumerate(places)]))


def _state(places: Sequence[Sequence[Kind]]) -> State:
    *pipelines, standby = (in_order(place) for place in places)
    return State(tuple(sorted(pipelines)), standby)


def _capacity(place: Sequence[Kind]) -> float:
    return sum(1 / kind.slowness for kind in place)


def _first_better(state: State, space: Space) -> State | None:
    """The first neighbour with a shorter step: only the two places that change are looked at."""
    target = state.step_time * (1 - GAIN)
    taken = {pipeline: space.most(pipeline, target) for pipeline in set(state.pipelines)}
    total = sum(taken[pipeline] for pipeline in state.pipelines if taken[pipeline] > 0)
    short = [pipeline for pipeline in state.pipelines if taken[pipeline] < 0]
    for one, other in _pairs(state):
        rest = total - max(0.0, taken[one]) - (max(0.0, taken[other]) if other is not None else 0.0)
        if any(pipeline not in {one, other} for pipeline in short):
            continue
        for new_one, new_other in _neighbours(one, state.standby if other is None else other):
            gained = space.most(new_one, target) + (space.most(new_other, target) if other is not None else 0)
            if rest + gained >= space.model.num_micro_batches:
                return space.timed(_replaced(state, (one, other), (new_one, new_other)))
    return None


def _pairs(state: State) -> Iterator[tuple[Pipeline, Pipeline | None]]:
    """Two different pipelines, or one and the standby (None)."""
    different = sorted(set(state.pipelines))
    for i, one in enumerate(different):
        yield one, None
        if state.pipelines.count(one) > 1:
            yield one, one
        yield from ((one, other) for other in different[i + 1 :])


def _neighbours(one: Pipeline, other: Pipeline) -> Iterator[tuple[Pipeline, Pipeline]]:
    """One group moved to either side, two exchanged, and two for one; what looks alike is given once."""
    for num_out, num_back in EXCHANGES:
        for out, back in product(_picks(one, num_out), _picks(other, num_back)):
            if out != back:
                yield in_order((*_without(one, out), *back)), in_order((*_without(other, back), *out))


def _picks(pipeline: Pipeline, num: int) -> list[Pipeline]:
    """The different choices of `num` of its groups."""
    return list(dict.fromkeys(combinations(pipeline, num)))


def _without(pipeline: Pipeline, kinds: Pipeline) -> Pipeline:
    left = list(pipeline)
    for kind in kinds:
        left.remove(kind)
    return tuple(left)


def _replaced(state: State, old: tuple[Pipeline, Pipeline | None], new: tuple[Pipeline, Pipeline]) -> State:
    pipelines = list(state.pipelines)
    pipelines.remove(old[0])
    if old[1] is None:
        return State(tuple(sorted([*pipelines, new[0]])), new[1])
    pipelines.remove(old[1])
    return State(tuple(sorted([*pipelines, *new])), state.standby)
