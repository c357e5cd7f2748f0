"""A cluster as values and as files: N nodes with 8 GPUs in one job, its telemetry and its step times."""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from guardctl import steptimer
from guardctl.cluster.records import Job, Node, Snapshot
from guardctl.observe.spool import Spool
from guardctl.words.policy import Judge, Policy
from guardctl.words.records import Reading, Source, Value

NUM_GPUS = 8
JOB = "7001"
STEP_S = 10.0
WINDOWS = 3
SLOW_NODE, SLOWER = 3, 1.25  # one straggler, so that the judge has something to say

# what an agent says of an H100, value by value
GPU: dict[str, Value] = {
    "name": "NVIDIA H100 80GB HBM3", "board": "692-2G520-0200-000", "pci_bus_id": "00000000:18:00.0",
    "temperature_c": 57, "temperature_margin_c": 28, "power_w": 646.973, "power_limit_w": 700.0, "sm_clock_mhz": 1980,
    "mem_clock_mhz": 2619, "max_sm_clock_mhz": 1980, "event_reasons": 0, "utilization_percent": 99,
    "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0, "ecc_corrected_aggregate": 0,
    "ecc_uncorrected_aggregate": 0, "remapped_correctable": 0, "remapped_uncorrectable": 0, "remapped_pending": False,
    "remapped_failed": False, "pcie_gen": 5, "max_pcie_gen": 5, "pcie_width": 16, "max_pcie_width": 16,
    "pcie_replays": 0, "nvlinks_up": 18, "nvlink_errors": 0, "memory_used_bytes": 68719476736,
    "memory_total_bytes": 85520809984, "mig": False, "num_processes": 1, "recovery_action": 0,
    "event_reason_names": "", "pci": "0000:18:00", "lost": False, "hang": False,
}  # fmt: skip
NET: dict[str, Value] = {
    "tcp_retransmits": 58, "tcp_out_segments": 377762, "tcp_in_segments": 375361, "tcp_timeouts": 74,
    "tcp_lost_retransmits": 0, "rx_bytes": 353957620, "rx_errors": 0, "rx_drops": 0, "tx_bytes": 1700407,
    "tx_errors": 0, "tx_drops": 0, "qdisc_drops": 0, "qdisc_overlimits": 0, "qdisc_requeues": 2,
    "qdisc_backlog_bytes": 0, "carrier_changes": 2,
}  # fmt: skip
HOST: dict[str, Value] = {
    "num_gpus": NUM_GPUS, "nvml_hang": False, "load1": 1.24, "uptime_s": 5320.96, "mem_total_bytes": 2164663517184,
    "mem_available_bytes": 1924647938048, "periods": 0, "throttled_periods": 0, "throttled_s": 0.0, "usage_s": 91.25,
}  # fmt: skip


def names(num_nodes: int) -> list[str]:
    """`n1` and so on."""
    return [f"n{number}" for number in range(1, num_nodes + 1)]


def policy(state_dir: Path) -> Policy:
    """The default thresholds over three windows."""
    return Policy(state_dir=state_dir, judge=Judge(windows=WINDOWS, windows_slow=WINDOWS))


def snapshot(num_nodes: int, now: datetime) -> Snapshot:
    """All nodes in one job of our own user."""
    nodes = {name: Node(name, "ALLOCATED", partitions=("gpu",), num_gpus=NUM_GPUS) for name in names(num_nodes)}
    job = Job(JOB, "train", "RUNNING", "user", os.getuid(), tuple(nodes), "gpu", start_at=now - timedelta(hours=1))
    return Snapshot(now, nodes, {JOB: job}, version="bench")


def write_spool(made: Policy, num_nodes: int, now: datetime) -> int:
    """The telemetry of all windows, by the agent's own writer; how many bytes it is."""
    period_s = made.observe.period_s
    num_samples = int((WINDOWS + 1) * made.judge.window_s / period_s)
    for node in names(num_nodes):
        spool = Spool(made.state_dir, node, f"boot-of-{node}")
        for back in reversed(range(num_samples)):
            at = now - timedelta(seconds=back * period_s)
            spool.append(list(readings(node, at)), at)
    return sum(path.stat().st_size for path in (made.state_dir / "telemetry").glob("*/*.jsonl"))


def readings(node: str, at: datetime) -> Iterator[Reading]:
    """What one pass of the agent gives."""
    for gpu in range(NUM_GPUS):
        uuid, serial = f"GPU-{node}-{gpu}", f"16502{gpu:08}"
        yield Reading(node, at, Source.GPU, str(gpu), uuid, serial, values=GPU | {"temperature_c": 54 + gpu})
    yield Reading(node, at, Source.NET, "eth0", values=NET)
    yield Reading(node, at, Source.HOST, values=HOST)


def write_steps(made: Policy, num_nodes: int, now: datetime) -> None:
    """A file per rank in the step timer's form, with the steps of all windows; one node is slow."""
    folder = made.state_dir / "steps" / JOB
    folder.mkdir(parents=True)
    num_steps = int((WINDOWS + 1) * made.judge.window_s / STEP_S)
    for number, node in enumerate(names(num_nodes)):
        busy_s = STEP_S / 2 * (SLOWER if number == SLOW_NODE else 1.0)
        for gpu in range(NUM_GPUS):
            rank = number * NUM_GPUS + gpu
            head = {"schema": steptimer.SCHEMA, "job_id": JOB, "rank": rank, "node": node, "gpu": gpu, "stage": None}
            rows = [
                {"step": step, "busy_s": busy_s + rank % 7 / 1000, "step_s": STEP_S,
                 "at": now.timestamp() - (num_steps - 1 - step) * STEP_S}
                for step in range(num_steps)
            ]  # fmt: skip
            text = "".join(json.dumps(row) + "\n" for row in (head, *rows))
            (folder / f"rank{rank}.jsonl").write_text(text, encoding="utf-8")
