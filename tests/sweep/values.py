"""Plain values that the tests of the sweep are made of."""

from collections.abc import Sequence
from datetime import UTC, datetime

from guardctl.sweep.results import GemmResult, PairResult

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def gpus(node: str, values: Sequence[float]) -> list[GemmResult]:
    """Results of all GPUs of a node that went well."""
    return [
        GemmResult(node, "gemm_bf16", ok=True, gpu=gpu, uuid=f"GPU-{node}-{gpu}", sku="H100", value=float(value),
                   unit="tflops", size=8192, num_gpus=len(values))
        for gpu, value in enumerate(values)
    ]  # fmt: skip


def pair(a: str, b: str, busbw_gbps: float, number: int = 1) -> PairResult:
    """A pair that gave a result."""
    return PairResult(a, b, ok=True, busbw_gbps=busbw_gbps, round=number, num_bytes=1024, asked_bytes=1024, sku="H100")
