from dataclasses import replace

import pytest

from guardctl.judge import score
from guardctl.judge.verdict import judge
from guardctl.words.records import Finding, Health, Kind, Level, Score, Standing, State, Verdict

from .worlds import NOW, POLICY, steps

STEPS = Score("n4", Kind.STEPS, "busy_s", 0, 1 / 1.48, 1.48, 1.0, "s", 5, 5, 5, "7")
HOST = Score("n4", Kind.HOST, "throttled_share", None, None, 0.88, 0.41, "", 5, 5, 5, "7")
RETRANSMITS = Score("n4", Kind.TRANSPORT, "retransmits_per_s", None, None, 40.0, 0.2, "per s", 5, 4, 5, "7")
DROPS = Score("n4", Kind.LINK, "queue_drops_per_s", None, None, 25.0, 0.0, "per s", 5, 5, 5, "7")
CLOCK = Score("n4", Kind.GPU, "sm_clock_mhz", 3, 0.5, 990.0, 1980.0, "MHz", 5, 5, 31, "7", "GPU-3")
THERMAL = Score("n4", Kind.GPU, "thermal_share", 3, None, 1.0, 0.0, "", 5, 5, 31, "7", "GPU-3")
HEAT = Score("n4", Kind.GPU, "temperature_c", 3, None, 91.0, 62.0, "C", 5, 5, 31, "7", "GPU-3")
SOUND = [replace(CLOCK, gpu=gpu, relative=1.0, windows_slow=0, uuid=f"GPU-{gpu}") for gpu in (0, 1, 2, 4, 5, 6, 7)]
LOST = Finding("n4", "gpu_lost", "the driver says that the GPU is lost: no more", True, NOW, 5, "GPU-5")
REMAP = Finding("n4", "remap_pending", "a memory repair waits for a reset", False, NOW, 2, "GPU-2")


def verdict(*found: Score | Finding, standing: State | None = None) -> Verdict | None:
    standings = {"n4": Standing("n4", standing)} if standing else {}
    scores = [each for each in found if isinstance(each, Score)]
    findings = [each for each in found if isinstance(each, Finding)]
    verdicts = judge(scores, findings, standings, POLICY, NOW)
    return verdicts[0] if verdicts else None


def test_two_kinds_of_which_one_is_the_systems_confirm() -> None:
    said = verdict(STEPS, HOST)
    assert said == Verdict(
        "n4", Health.SUSPECT, Level.NODE, "processor throttled",
        ("throttled 88% of the time, peers 41%", "GPU 0 busy time 48% longer than 5 peers"), NOW,
        relative=1 / 1.48, confirmed=True, kinds=(Kind.STEPS, Kind.HOST), checks=("busy_s", "throttled_share"),
    )  # fmt: skip


@pytest.mark.parametrize("alone", [STEPS, HOST, RETRANSMITS, DROPS, CLOCK])
def test_one_kind_alone_is_watched(alone: Score) -> None:
    said = verdict(alone)
    assert said
    assert (said.health, said.confirmed, said.kinds) == (Health.SUSPECT, False, (alone.kind,))


def test_two_signals_of_one_kind_are_still_one_kind() -> None:
    said = verdict(CLOCK, THERMAL, HEAT)
    assert said
    assert (said.confirmed, said.cause) == (False, "thermal throttle")


def test_two_layers_of_the_network_are_two_kinds() -> None:
    said = verdict(RETRANSMITS, DROPS)
    assert said
    assert (said.confirmed, said.level, said.cause) == (True, Level.LINK, "link drops")
    assert said.evidence == ("25.0 drops in its queue per s, peers 0.0", "40.0 TCP retransmits per s, peers 0.2")


def test_one_gpu_of_a_node_is_named_with_its_uuid() -> None:
    said = verdict(STEPS, CLOCK, THERMAL, HEAT, *SOUND)
    assert said
    assert (said.level, said.gpu, said.uuid, said.cause) == (Level.GPU, 3, "GPU-3", "thermal throttle")
    assert said.confirmed
    assert said.relative == 0.5
    assert said.evidence[-1] == "GPU 3 91 C, peers 62"


def test_all_gpus_of_a_node_are_the_node() -> None:
    said = verdict(*[replace(CLOCK, gpu=gpu) for gpu in range(8)])
    assert said
    assert (said.level, said.gpu, said.uuid) == (Level.NODE, None, None)


@pytest.mark.parametrize("windows_slow", [0, 1, 3])
def test_what_did_not_last_says_nothing(windows_slow: int) -> None:
    assert verdict(replace(STEPS, windows_slow=windows_slow), replace(HOST, windows_slow=windows_slow)) is None


def test_heat_alone_says_nothing() -> None:
    assert verdict(HEAT, *SOUND) is None


def test_a_hard_finding_is_enough() -> None:
    said = verdict(LOST, REMAP, STEPS)
    assert said
    assert (said.health, said.hard, said.confirmed, said.level, said.gpu) == (Health.FAULTY, True, True, Level.GPU, 5)
    assert said.uuid == "GPU-5"
    assert said.checks == ("gpu_lost",)


def test_faults_of_several_gpus_are_the_node() -> None:
    said = verdict(LOST, replace(LOST, gpu=6))
    assert said
    assert (said.level, said.gpu) == (Level.NODE, None)


def test_a_soft_finding_is_watched_and_never_confirms() -> None:
    alone, beside = verdict(REMAP), verdict(REMAP, STEPS)
    assert alone
    assert beside
    assert (alone.health, alone.confirmed) == (Health.SUSPECT, False)
    assert (beside.health, beside.confirmed) == (Health.SUSPECT, False)
    assert "GPU 2: a memory repair waits for a reset" in beside.evidence


@pytest.mark.parametrize(("state", "cleared"), [(State.SUSPECT, True), (State.PROBATION, True), (State.HEALTHY, False)])
def test_good_scores_clear_those_who_need_it(state: State, cleared: bool) -> None:
    said = verdict(*SOUND, standing=state)
    assert (said is not None and said.health is Health.HEALTHY) == cleared


def test_without_scores_nobody_is_healthy() -> None:
    assert verdict(standing=State.SUSPECT) is None


def test_slowness_that_moves_blames_the_workload_and_no_node() -> None:
    scores = score.rate(steps(8, lambda rank, window: 2.0 if rank == window else 1.0), POLICY, NOW)
    (said,) = judge(scores, [], {}, POLICY, NOW)
    assert (said.node, said.health, said.level, said.confirmed) == ("", Health.UNKNOWN, Level.WORKLOAD, False)
    assert "job 7" in said.cause


def test_ranks_that_became_slow_together_do_not_move() -> None:
    scores = score.rate(steps(16, lambda rank, window: 2.0 if rank < 3 and window > 2 else 1.0), POLICY, NOW)
    assert not judge(scores, [], {}, POLICY, NOW)


def test_a_slurm_reason_has_room_for_it() -> None:
    for found in ((STEPS, HOST), (RETRANSMITS, DROPS), (STEPS, CLOCK, THERMAL, *SOUND)):
        said = verdict(*found)
        assert said
        reason = "; ".join((said.cause, *said.evidence[:2]))
        assert len(reason) < 110
        assert not set(reason) & set("\"'\n")
