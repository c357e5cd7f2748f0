"""Faults as words ("slow-link=50mbit", "gpu=throttle:1") and what each does to a node.

A node's condition is the fold of the faults it has: `condition` is pure, `Lab` puts it into the kernel and the files.
An Xid is an event: it is a line in the log, and nothing heals it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.lab.errors import LabError
from tests.lab.gpus import Scenario

HELP = "slow-link=50mbit, slow-cpu=0.5, gpu=throttle:1, gpu=lost:1, gpu=ecc:0, gpu=hang[:1], xid=79:0, gpu0.FIELD=VALUE"
RATE = re.compile(r"\d+(\.\d+)?[kmg]?bit")
FIELD = re.compile(r"gpu(\d+)\.([a-z0-9_]+)")
GPU = re.compile(r"(throttle|lost|ecc|hang):(\d+)|(hang)")
XID = re.compile(r"(\d+):(\d+)")
THROTTLED_SPEED = 0.5

GPU_FAULTS: dict[str, Scenario] = {
    "throttle": {
        "temperature_c": "88", "temperature_margin_c": "-3", "memory_temperature_c": "92",
        "clock_sm_mhz": "780", "clock_graphics_mhz": "780", "power_mw": "268000",
        "clocks_event_reasons": "0x48",  # hardware slowdown, hardware thermal slowdown
        "violation_thermal_ns": "5000000000",
    },
    "lost": {"state": "lost", "recovery_action": "2"},
    "hang": {"state": "hang"},
    "ecc": {
        "ecc_uncorrected_volatile": "3", "ecc_uncorrected_aggregate": "3",
        "remapped_uncorrected": "1", "remapped_failure": "1", "recovery_action": "1",
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """What a node's faults add up to."""

    speed: float = 1.0  # 0.5: half of its healthy share of the processor
    rate: str | None = None  # of its link, in tc's words
    gpu_lines: Scenario = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Xid:
    """A line that the driver writes to the kernel log."""

    number: int
    gpu: int


def parse(fault: str, num_gpus: int) -> Condition | Xid:
    """What one fault does to a node with that many GPUs. Raises LabError with the faults there are."""
    name, _, value = fault.partition("=")
    if name == "slow-link" and RATE.fullmatch(value):
        return Condition(rate=value)
    if name == "slow-cpu":
        return Condition(speed=_fraction(fault, value))
    if name == "gpu" and (match := GPU.fullmatch(value)):
        return _gpu_fault(match, num_gpus)
    if name == "xid" and (match := XID.fullmatch(value)):
        return Xid(int(match[1]), _index(match[2], num_gpus))
    if value and (match := FIELD.fullmatch(name)):
        return Condition(gpu_lines={f"gpu{_index(match[1], num_gpus)}.{match[2]}": value})
    raise LabError(f"no fault {fault!r}; there are: {HELP}")


def _fraction(fault: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.0 < number <= 1.0:
        raise LabError(f"{fault}: the speed must be a number above 0 and up to 1, such as slow-cpu=0.5")
    return number


def _index(text: str, num_gpus: int) -> int:
    if int(text) >= num_gpus:
        raise LabError(f"no GPU {text}: the node's {num_gpus} GPUs count from 0")
    return int(text)


def _gpu_fault(match: re.Match[str], num_gpus: int) -> Condition:
    kind = match[1] or match[3]
    indices = range(num_gpus) if match[2] is None else (_index(match[2], num_gpus),)
    lines = {f"gpu{gpu}.{name}": value for gpu in indices for name, value in GPU_FAULTS[kind].items()}
    # The GPU's work is done on the node's processor here, so a hot GPU must slow that down too.
    return Condition(speed=THROTTLED_SPEED if kind == "throttle" else 1.0, gpu_lines=lines)


def condition(faults: Sequence[str], num_gpus: int) -> Condition:
    """All faults together: the slowest speed, the latest rate, and every GPU's lines."""
    parts = [part for fault in faults if isinstance(part := parse(fault, num_gpus), Condition)]
    lines: Scenario = {}
    for part in parts:
        lines |= part.gpu_lines
    return Condition(
        speed=min((part.speed for part in parts), default=1.0),
        rate=next((part.rate for part in reversed(parts) if part.rate), None),
        gpu_lines=lines,
    )
