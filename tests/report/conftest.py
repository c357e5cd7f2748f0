"""One week of a small cluster, as the ledger would hold it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guardctl.cluster.records import Node, Snapshot
from guardctl.ledger.fold import fold
from guardctl.report.summary import Summary, summary
from guardctl.words.records import Event, EventKind, Standing

K = EventKind
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SINCE = NOW - timedelta(days=7)
NASTY = "<script>alert(1)</script> [red]| `x` \x1b[31m*y*"


def at(hours_ago: float) -> datetime:
    return NOW - timedelta(hours=hours_ago)


def event(
    hours_ago: float, node: str, kind: EventKind, why: str = "", incident: str | None = None, **detail: Any
) -> Event:
    return Event(
        node,
        at(hours_ago),
        kind,
        why,
        incident,
        detail,
        actor="guard@head1",
        version="0.1.0",
        policy_hash="9f2c41d07ab3",
    )


def stay(node: str, tag: str, hours_ago: float, cause: str, evidence: list[str], *, kinds: list[str]) -> list[Event]:
    """From the suspicion to the sweep's start, three hours in all."""
    reason = f"guardctl:{tag} {cause}"
    facts: dict[str, Any] = {"cause": cause, "evidence": evidence, "kinds": kinds, "relative": 0.71}
    mark = {"reason": reason, "user": "guard", "at": at(hours_ago - 0.5).isoformat()}
    return [
        event(hours_ago, node, K.SUSPECTED, cause, **facts),
        event(hours_ago - 0.499, node, K.DRAIN_INTENDED, cause, tag, **facts, reason=reason, user="guard"),
        event(hours_ago - 0.5, node, K.DRAINED, cause, tag, **facts, **mark),
        event(hours_ago - 2, node, K.QUARANTINED, "reserved for its sweep", tag, reservation=f"guardctl_{tag}"),
        event(
            hours_ago - 2.01, node, K.SWEEP_STARTED, "its sweep starts", tag, sweep=f"sw-{tag}", partners=["n01", "n02"]
        ),
    ]


CLOCK = [
    "GPU 3: SM clock 1005 MHz under load, peers 1980 MHz",
    "GPU 3: hw_thermal_slowdown in 96% of samples, peers 0%",
]
LINK = ["TCP retransmits 41 per s, peers 0.2", "busy 0.84 of its peers in 5 of 5 windows"]


@pytest.fixture
def events() -> list[Event]:
    told = [
        *stay("n07", "4k2", 150, "GPU 3 runs slow: held back by heat", CLOCK, kinds=["steps", "gpu"]),
        event(147.5, "n07", K.SWEEP_FAILED, "GPU 3 reaches 0.54 of a healthy one", "4k2", gpu_tflops=389.0,
              reference_tflops=720.4),
        event(147.49, "n07", K.DRAINED, "GPU 3 reaches 0.54 of a healthy one", "4k2", reason="guardctl:4k2 GPU 3",
              user="guard", at=at(147.49).isoformat()),
        event(100, "n07", K.REPAIRED, "fan tray swapped", "4k2"),
        event(99.5, "n07", K.QUARANTINED, "reserved for its sweep", "4k2", reservation="guardctl_4k2"),
        event(99.4, "n07", K.SWEEP_STARTED, "its sweep starts", "4k2", sweep="sw-9"),
        event(99, "n07", K.SWEEP_PASSED, "all 8 GPUs reach 0.99 or more", "4k2", slowest_ratio=0.992),
        event(98.9, "n07", K.RELEASED, "passed its sweep", "4k2"),
        event(92.9, "n07", K.CLEARED, "probation was quiet for 21600 s", "4k2"),
        *stay("n19", "4k3", 60, "network slow: retransmits", LINK, kinds=["steps", "transport"]),
        event(57.2, "n19", K.SWEEP_PASSED, "all pairs reach 0.97 or more", "4k3", slowest_pair_gbps=181.2),
        event(57.1, "n19", K.RELEASED, "passed its sweep", "4k3"),
        event(51.1, "n19", K.CLEARED, "probation was quiet for 21600 s", "4k3"),
        event(30, "n11", K.SUSPECTED, "slow steps"), event(29.4, "n11", K.CLEARED, "no more evidence for 1800 s"),
        *stay("n19", "4k4", 22, "network slow: retransmits", LINK, kinds=["steps", "transport"]),
        event(19.2, "n19", K.SWEEP_FAILED, "both pairs of n19 reach 0.41 of a healthy one", "4k4", pair_gbps=76.0),
        event(19.19, "n19", K.DRAINED, "both pairs of n19 reach 0.41 of a healthy one", "4k4"),
        event(9, "n23", K.HELD, "vendor comes on Monday", "4k5"),
        event(8.9, "n23", K.DRAINED, "vendor comes on Monday", "4k5"),
        event(5, "n30", K.DRAINED, "GPU 6 fell off the bus", "4k6", cause="GPU 6 fell off the bus", hard=True,
              evidence=["Xid 79 on GPU 6 at 06:58:12"], gpu=6),
        *stay("n31", "4k7", 2.2, f"slow steps in {NASTY}", [f"job {NASTY} says 0.7"], kinds=["steps", "gpu"]),
        event(1.5, "", K.MONITOR, "Slurm did not answer for 20 s: nothing was done"),
        event(1.0, "n12", K.REFUSED, "8 nodes are out, act.max_out is 8", None),
    ]  # fmt: skip
    return sorted(told, key=lambda each: each.at)


@pytest.fixture
def standings(events: list[Event]) -> dict[str, Standing]:
    return fold(events, NOW)


@pytest.fixture
def snapshot() -> Snapshot:
    nodes = {f"n{number:02d}": Node(f"n{number:02d}", "IDLE", num_gpus=8) for number in range(1, 33)}
    for name in ("n19", "n23", "n30"):
        nodes[name] = Node(name, "IDLE", frozenset({"DRAIN"}), reason="guardctl", reason_user="guard", num_gpus=8)
    nodes["n31"] = Node("n31", "IDLE", frozenset({"RESERVED"}), num_gpus=8)
    nodes["n05"] = Node(
        "n05", "IDLE", frozenset({"DRAIN"}), reason=f"memory {NASTY}", reason_user="alice", reason_at=at(40), num_gpus=8
    )
    return Snapshot(NOW, nodes)


@pytest.fixture
def week(events: list[Event], standings: dict[str, Standing], snapshot: Snapshot) -> Summary:
    return summary(events, standings, SINCE, NOW, snapshot=snapshot)
