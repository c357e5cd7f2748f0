"""The lines that the programs in sweeps/ write, as values. A line that cannot be read is as if it were missing."""

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

GEMM_SCHEMA = "guardctl.sweep/1"
PAIR_SCHEMA = "guardctl.pairs/1"
MAX_FILE_BYTES = 16 * 2**20
# Event reasons that mean a GPU was held back by heat or by its power supply. A software power cap is how a GPU at full
# power runs, and says nothing.
THROTTLED = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})


@dataclass(frozen=True, slots=True)
class GemmResult:
    """What one GPU did alone, or (`ok` False) why it did not. `value` in `unit` is the median of `samples`."""

    node: str
    test: str
    ok: bool
    gpu: int | None = None
    uuid: str | None = None
    sku: str = ""
    value: float | None = None
    unit: str = ""
    size: int | None = None
    samples: tuple[float, ...] = ()
    num_gpus: int | None = None
    attempt: int = 1
    fault: str | None = None  # gemm_mismatch, gpu_lost, gpu_missing, gpu_hang: a fault of the GPU itself
    message: str = ""
    event_reasons: tuple[str, ...] = ()
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    power_w: float | None = None

    @property
    def key(self) -> str:
        """What may be compared: the same test of the same size on the same SKU."""
        return f"{self.test}/{self.size}|{self.sku}"

    @property
    def throttled(self) -> bool:
        """The GPU said that heat or power held it back."""
        return bool(THROTTLED & set(self.event_reasons))


@dataclass(frozen=True, slots=True)
class PairResult:
    """What two nodes did together, or (`ok` False) how it failed, which blames neither of them alone."""

    node_a: str
    node_b: str
    ok: bool
    busbw_gbps: float | None = None
    round: int = 0
    test: str = "allreduce"
    num_bytes: int | None = None
    asked_bytes: int | None = None
    ranks: int = 2
    sku: str = ""
    message: str = ""
    iterations: int = 0

    @property
    def nodes(self) -> frozenset[str]:
        """Both."""
        return frozenset({self.node_a, self.node_b})

    @property
    def key(self) -> str:
        """What may be compared: the same collective of the same size between as many ranks of the same SKU."""
        return f"{self.test}/{self.ranks}x{self.asked_bytes}|{self.sku}"


Result = GemmResult | PairResult


def read(folder: Path) -> list[Result]:
    """All results of a sweep's folder; files are at most 16 MiB, links are not followed."""
    found: list[Result] = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            log.warning("%s: not a regular file of at most %d bytes; left out", path, MAX_FILE_BYTES)
            continue
        found += parse(path.read_text(encoding="utf-8", errors="replace").splitlines(), name=str(path))
    return found


def parse(lines: Iterable[str], *, name: str) -> list[Result]:
    """The results in JSON Lines; a torn or foreign line is logged with its number and left out."""
    found: list[Result] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_result(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s:%d: not a sweep result: %s", name, number, error)
    return found


def _result(data: Mapping[str, Any]) -> Result:
    if data["schema"] == GEMM_SCHEMA:
        return _gemm(data)
    if data["schema"] == PAIR_SCHEMA:
        return _pair(data)
    raise ValueError(f"schema {data['schema']!r} is not known")


def _gemm(data: Mapping[str, Any]) -> GemmResult:
    value = _number(data.get("value"))
    return GemmResult(
        node=str(data["node"]),
        test=str(data["test"]),
        ok=bool(data.get("ok", value is not None)) and value is not None,
        gpu=data.get("gpu"),
        uuid=data.get("uuid"),
        sku=str(data.get("sku") or ""),
        value=value,
        unit=str(data.get("unit") or ""),
        size=data.get("size"),
        samples=tuple(float(each) for each in data.get("samples") or ()),
        num_gpus=data.get("num_gpus"),
        attempt=int(data.get("attempt") or 1),
        fault=data.get("fault"),
        message=str(data.get("message") or ""),
        event_reasons=tuple(data.get("event_reasons") or ()),
        temperature_c=_number(data.get("temperature_c")),
        sm_clock_mhz=_number(data.get("sm_clock_mhz")),
        power_w=_number(data.get("power_w")),
    )


def _pair(data: Mapping[str, Any]) -> PairResult:
    busbw_gbps = _number(data.get("busbw_gbps"))
    return PairResult(
        node_a=str(data["node_a"]),
        node_b=str(data["node_b"]),
        ok=bool(data["ok"]) and busbw_gbps is not None,
        busbw_gbps=busbw_gbps,
        round=int(data.get("round") or 0),
        test=str(data.get("test") or "allreduce"),
        num_bytes=data.get("bytes"),
        asked_bytes=data.get("asked_bytes"),
        ranks=int(data.get("ranks") or 2),
        sku=str(data.get("sku") or ""),
        message=str(data.get("message") or ""),
        iterations=int(data.get("iterations") or 0),
    )


def _number(value: object) -> float | None:
    """A finite number as float; None for anything else, also for NaN: unknown is not a measurement."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]
