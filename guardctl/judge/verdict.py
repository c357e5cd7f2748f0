"""One verdict per node, from its findings and its scores.

Hard: a hard finding alone is FAULTY. Soft: a kind of signal *speaks* when one of its scores was slow in `windows_slow`
windows. One kind alone makes a suspect to be watched; two kinds, of which one is the system's own, make a confirmed
one. What a job writes about itself (STEPS) never confirms alone, and slowness that moves from rank to rank is the
workload's: it blames nobody.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from guardctl.judge import words
from guardctl.judge.gpus import TEMPERATURE
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Health, Kind, Level, Score, Standing, State, Verdict

SUPPORTING = frozenset({TEMPERATURE})  # printed beside what spoke; heat alone slows nothing
NETWORK = frozenset({Kind.TRANSPORT, Kind.LINK})
MOVES = 3  # different ranks that were slow, one after the other, from which slowness is said to move


def judge(
    scores: Sequence[Score],
    findings: Sequence[Finding],
    standings: Mapping[str, Standing],
    policy: Policy,
    now: datetime,
) -> list[Verdict]:
    """Verdicts, by node name; a node with nothing to say has none.

    HEALTHY only for a node that stands SUSPECT or PROBATION and whose scores are all good: it may be cleared. A verdict
    with an empty node is about a job (`level` WORKLOAD).
    """
    by_node: dict[str, tuple[list[Score], list[Finding]]] = defaultdict(lambda: ([], []))
    for score in scores:
        by_node[score.node][0].append(score)
    for finding in findings:
        by_node[finding.node][1].append(finding)
    found = (_one(node, *by_node[node], standings.get(node), policy=policy, now=now) for node in sorted(by_node))
    return [verdict for verdict in found if verdict] + list(_moving(scores, policy, now))


def _one(
    node: str,
    scores: list[Score],
    findings: list[Finding],
    standing: Standing | None,
    *,
    policy: Policy,
    now: datetime,
) -> Verdict | None:
    hard = [finding for finding in findings if finding.hard]
    spoke = [score for score in scores if _speaks(score, policy)]
    if hard:
        return _faulty(node, hard, scores, now)
    if spoke:
        return _suspect(node, spoke, scores, findings, now)
    if findings:
        return _watched(node, findings, now)
    if scores and standing is not None and standing.state in {State.SUSPECT, State.PROBATION}:
        said = f"as its peers by {', '.join(sorted({score.signal for score in scores}))}"
        return Verdict(node, Health.HEALTHY, Level.NODE, "as its peers", (said,), now)
    return None


def _speaks(score: Score, policy: Policy) -> bool:
    return score.windows_slow >= policy.judge.windows_slow and score.signal not in SUPPORTING


# --- faults ---------------------------------------------------------------------------------------------------------


def _faulty(node: str, hard: Sequence[Finding], scores: Sequence[Score], now: datetime) -> Verdict:
    first, gpus = hard[0], {finding.gpu for finding in hard}
    gpu = first.gpu if len(gpus) == 1 else None
    place = f"GPU {first.gpu}: " if first.gpu is not None else ""
    return Verdict(
        node, Health.FAULTY, Level.NODE if gpu is None else Level.GPU, f"{place}{first.detail}",
        tuple(_said(finding) for finding in hard), now, gpu, _uuid(gpu, hard, scores), confirmed=True, hard=True,
        kinds=_kinds_of(hard), checks=_names(hard),
    )  # fmt: skip


def _watched(node: str, findings: Sequence[Finding], now: datetime) -> Verdict:
    """Soft findings alone: they have no persistence and no peers, so they are watched and never confirm."""
    first, gpus = findings[0], {finding.gpu for finding in findings}
    gpu = first.gpu if len(gpus) == 1 else None
    return Verdict(
        node, Health.SUSPECT, Level.NODE if gpu is None else Level.GPU, _said(first),
        tuple(_said(finding) for finding in findings), now, gpu, _uuid(gpu, findings, ()),
        kinds=_kinds_of(findings), checks=_names(findings),
    )  # fmt: skip


def _said(finding: Finding) -> str:
    return f"GPU {finding.gpu}: {finding.detail}" if finding.gpu is not None else finding.detail


def _kinds_of(findings: Sequence[Finding]) -> tuple[Kind, ...]:
    kinds = {Kind.LOG if finding.check == "xid" else Kind.GPU for finding in findings}
    return tuple(kind for kind in Kind if kind in kinds)


def _names(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.check for finding in findings))


# --- soft evidence --------------------------------------------------------------------------------------------------


def _suspect(node: str, spoke: list[Score], scores: list[Score], findings: Sequence[Finding], now: datetime) -> Verdict:
    kinds = {score.kind for score in spoke}
    signals = frozenset(score.signal for score in spoke)
    level, gpu = _level(spoke, scores)
    relatives = [score.relative for score in spoke if score.relative is not None]
    return Verdict(
        node, Health.SUSPECT, level, words.cause(signals), _evidence(spoke, scores, findings), now,
        gpu, _uuid(gpu, findings, scores), min(relatives, default=None),
        confirmed=len(kinds) > 1 and kinds != {Kind.STEPS}, kinds=tuple(kind for kind in Kind if kind in kinds),
        checks=(*sorted(signals), *_names(findings)),
    )  # fmt: skip


def _evidence(spoke: list[Score], scores: list[Score], findings: Sequence[Finding]) -> tuple[str, ...]:
    """The worst score of each signal that spoke, in the order of causes, then what supports them."""
    order = list(words.CAUSES)
    found = {signal: min(same, key=_badness) for signal, same in _by_signal(spoke).items()}
    hot = [score for score in scores if score.signal in SUPPORTING and score.windows_slow]
    said = [words.evidence(found[signal]) for signal in sorted(found, key=order.index)]
    return (*said, *(words.evidence(score) for score in hot[:1]), *(_said(finding) for finding in findings))


def _by_signal(scores: Sequence[Score]) -> dict[str, list[Score]]:
    found: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        found[score.signal].append(score)
    return found


def _badness(score: Score) -> float:
    """Less is worse."""
    return score.relative if score.relative is not None else -(score.value or 0.0)


def _level(spoke: list[Score], scores: list[Score]) -> tuple[Level, int | None]:
    """How finely the scores name the culprit: the node's own signals first, then the network, then its GPUs."""
    kinds = {score.kind for score in spoke}
    if Kind.HOST in kinds:
        return Level.NODE, None
    if kinds & NETWORK and Kind.GPU not in kinds:
        return Level.LINK, None
    kind = Kind.GPU if Kind.GPU in kinds else Kind.STEPS
    slow = {score.gpu for score in spoke if score.kind is kind}
    scored = {score.gpu for score in scores if score.kind in {Kind.GPU, Kind.STEPS}}
    if len(slow) == 1 and len(scored - {None}) > 1 and None not in slow:
        return Level.GPU, slow.pop()
    return Level.NODE, None


def _uuid(gpu: int | None, findings: Sequence[Finding], scores: Sequence[Score]) -> str | None:
    if gpu is None:
        return None
    known = [(each.gpu, each.uuid) for each in findings] + [(each.gpu, each.uuid) for each in scores]
    return next((uuid for index, uuid in known if index == gpu and uuid), None)


# --- the workload ---------------------------------------------------------------------------------------------------


def _moving(scores: Sequence[Score], policy: Policy, now: datetime) -> Iterator[Verdict]:
    """A verdict per job whose slow windows go from rank to rank: about one rank at a time, and none for long.

    Several ranks that became slow together have more slow windows than there are windows; one that stays slow has most.
    """
    by_job: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.kind is Kind.STEPS and score.job_id and score.windows_slow:
            by_job[score.job_id].append(score)
    for job_id, slow in by_job.items():
        total, longest = sum(score.windows_slow for score in slow), max(score.windows_slow for score in slow)
        num_windows = max(score.windows for score in slow)
        if len(slow) >= MOVES and policy.judge.windows_slow <= total <= num_windows and longest <= total / 2:
            said = tuple(f"{each.node}: slow in {each.windows_slow} of {each.windows} windows" for each in slow)
            cause = f"job {job_id}: slowness moves between {len(slow)} ranks (data, or ranks not bound to processors)"
            yield Verdict("", Health.UNKNOWN, Level.WORKLOAD, cause, said, now, kinds=(Kind.STEPS,))
