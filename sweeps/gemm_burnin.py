#!/usr/bin/env python3
"""Sustained matrix multiplication on every GPU of one node, one GPU after the other, in one process.

    python gemm_burnin.py --seconds 60 --size 8192 --output n1.jsonl

Why: a GPU that is hot, short of power or damaged multiplies more slowly than its equals, and only under a load that
lasts. Beside the throughput stand the clock, temperature and power of the same seconds, so that a slow number comes
with its reason; and as the same product is made again and again, its bits must never change.

Writes one JSON line per GPU (schema guardctl.sweep/1). `value` is the median of `samples`, each the throughput of one
window of `sample_s` seconds; a falling row of samples is a GPU that heats up. A fault of the GPU itself is a line with
"ok": false and `fault`; a line with "ok": false alone says that the test could not be made and blames nothing.

CUDA multiplies in bf16 with torch. Without CUDA the node's processor stands in for each GPU in turn, in float32 with
numpy: torch takes 2 s of processor time to start, numpy 0.2 s. Needs Python 3.11; NVML is used if `pynvml` is there.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

gc.disable()  # importing torch is a third cheaper without it, and nothing here makes cycles
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread: the number must not depend on who else runs
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # the same kernel every time, so equal bits can be asked for

SCHEMA = "guardctl.sweep/1"
NVML_DEADLINE_S = 10.0  # a driver call that takes longer hangs
REASONS = {  # nvml.h, nvmlClocksEventReason*
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown", 0x100: "display_clocks",
}  # fmt: skip
# How NVML's error names translate; every other error only says that the test could not be made.
FAULTS = {
    "NVMLError_GpuIsLost": "gpu_lost",
    "NVMLError_InvalidArgument": "gpu_missing",
    "NVMLError_NotFound": "gpu_missing",
}


class Gpu(NamedTuple):
    """One GPU to test. `number` and `uuid` as NVML says; None where there is no NVML."""

    number: int | None
    uuid: str | None
    sku: str
    handle: Any


class Work(NamedTuple):
    """The multiplication on one device: `run(repeats)` returns when it is done, `same()` compares with the first."""

    test: str
    unit: str
    run: Callable[[int], None]
    same: Callable[[], bool]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of load per GPU (default 60; heat needs minutes)")
    parser.add_argument(
        "--size", type=int, default=0, help="rows of the square matrices (default 8192, without CUDA 512)"
    )
    parser.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="auto: cuda if its driver is here"
    )
    parser.add_argument("--attempt", type=int, default=1, help="of the sweep; copied to the results")
    parser.add_argument(
        "--output", type=Path, help="file for JSON lines, or a folder: one file per node (default stdout)"
    )
    return parser.parse_args(argv)


# --- what to test ---------------------------------------------------------------------------------------------------


def within(deadline_s: float, call: Callable[[], Any]) -> Any:
    """What `call` gives; TimeoutError if it takes longer, as a driver call that hangs in the kernel does for ever."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except Exception as error:  # noqa: BLE001 - the outermost frame of a thread: handed to whoever waits
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(timeout=deadline_s)


def open_nvml() -> Any:
    """The module pynvml, ready; None where it is not installed or there is no driver library."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        within(NVML_DEADLINE_S, pynvml.nvmlInit)
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return None
    return pynvml


def allotted() -> list[str]:
    """The GPUs that Slurm gave to this step, as indices or UUIDs; empty if it says nothing."""
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        if os.environ.get(name):
            return os.environ[name].split(",")
    return []


def find_gpu(nvml: Any, token: str) -> Gpu:
    """The GPU with that index or UUID."""
    handle = nvml.nvmlDeviceGetHandleByIndex(int(token)) if token.isdigit() else nvml.nvmlDeviceGetHandleByUUID(token)
    index, uuid = nvml.nvmlDeviceGetIndex(handle), nvml.nvmlDeviceGetUUID(handle)
    return Gpu(index, uuid, nvml.nvmlDeviceGetName(handle), handle)


def tokens(nvml: Any, on_cuda: bool) -> list[str]:
    """One word per GPU, on CUDA in the order of CUDA's own devices; one empty word where nobody knows of GPUs."""
    if on_cuda:
        import torch

        devices = range(torch.cuda.device_count())
        return [f"GPU-{torch.cuda.get_device_properties(device).uuid}" for device in devices]
    return allotted() or ([str(index) for index in range(nvml.nvmlDeviceGetCount())] if nvml else [""])


def choose_device(wanted: str) -> str:
    """`cuda` or `cpu`. A node with the CUDA driver is tested on its GPUs or not at all."""
    if wanted != "auto":
        return wanted
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "cpu"
    return "cuda"


# --- the load -------------------------------------------------------------------------------------------------------


def cuda_work(device: int, size: int) -> Work:
    """bf16 on one CUDA device."""
    import torch

    torch.manual_seed(0)
    with torch.device("cuda", device):
        a, b = (torch.randn(size, size).to(torch.bfloat16) for _ in range(2))  # a, b, out, first: (size, size)
        first, out = a @ b, torch.empty_like(a)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize(device)

    return Work("gemm_bf16", "tflops", run, lambda: torch.equal(out, first))


def cpu_work(size: int) -> Work:
    """float32 on one thread of the processor."""
    import numpy as np

    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    out = np.empty_like(a)
    first = np.matmul(a, b)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            np.matmul(a, b, out=out)

    return Work("gemm_fp32", "gflops", run, lambda: bool(np.array_equal(out, first)))


def timed(work: Work, repeats: int) -> float:
    """Seconds that so many multiplications take."""
    began = time.perf_counter()
    work.run(repeats)
    return time.perf_counter() - began


def fit(work: Work, window_s: float) -> int:
    """How many multiplications fill a window on this device; also its warm-up."""
    repeats, took = 1, timed(work, 1)
    while took < window_s / 4:
        repeats *= 2
        took = timed(work, repeats)
    return max(1, round(repeats * window_s / took))


def sustain(work: Work, size: int, seconds: float, window_s: float) -> tuple[list[float], int]:
    """Throughput of each window, in the work's unit, and how many windows ended with other bits than the first."""
    scale = 1e12 if work.unit == "tflops" else 1e9
    until = time.perf_counter() + seconds
    repeats = fit(work, window_s)
    samples: list[float] = []
    num_different = 0
    while not samples or time.perf_counter() + window_s / 2 < until:
        samples.append(2.0 * size**3 * repeats / timed(work, repeats) / scale)  # 2 n^3: a multiply and an add each
        num_different += not work.same()
    return samples, num_different


# --- what the GPU says meanwhile ------------------------------------------------------------------------------------


def reading(nvml: Any, handle: Any) -> dict[str, Any]:
    """Clock, temperature, power and its limit, and the mask of event reasons, of one GPU now; None: not supported."""
    calls: dict[str, Callable[[], Any]] = {
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    }
    values: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            values[name] = call()
        except nvml.NVMLError:
            values[name] = None
    return values


class Watch:
    """Reads one GPU every `period_s` in a thread of its own: a driver call that hangs does not stop the load."""

    def __init__(self, nvml: Any, gpu: Gpu, period_s: float) -> None:
        self.readings: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(nvml, gpu.handle, period_s), daemon=True)
        if gpu.handle is not None:
            self._thread.start()

    def _watch(self, nvml: Any, handle: Any, period_s: float) -> None:
        while not self._stop.wait(period_s):
            self.readings.append(reading(nvml, handle))

    def end(self) -> bool:
        """Whether the driver still answers."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(NVML_DEADLINE_S)
        return not self._thread.is_alive()

    def summary(self) -> dict[str, Any]:
        """The hottest temperature, the medians of the rest, and every event reason that was seen."""
        kept = {name: [each[name] for each in self.readings if each[name] is not None] for name in self._names()}
        middle: dict[str, Any] = {name: statistics.median(kept[name]) if kept[name] else None for name in kept}
        middle["temperature_c"] = max(kept["temperature_c"], default=None)
        del middle["reasons"]
        mask = 0
        for seen in kept["reasons"]:
            mask |= int(seen)
        middle["event_reasons"] = [word for bit, word in REASONS.items() if mask & bit] if kept["reasons"] else None
        return middle

    @staticmethod
    def _names() -> tuple[str, ...]:
        return "sm_clock_mhz", "temperature_c", "power_w", "power_limit_w", "reasons"


# --- the test -------------------------------------------------------------------------------------------------------

options = argparse.Namespace()
NODE = os.environ.get("SLURMD_NODENAME") or platform.node()


def emit(**fields: Any) -> None:
    """One result line, to the file (opened for each line: what is written survives us) or to stdout."""
    common = {"schema": SCHEMA, "node": NODE, "at": datetime.now(UTC).isoformat(), "attempt": options.attempt}
    line = json.dumps({**common, **fields})
    if options.output is None:
        print(line, flush=True)
        return
    path = options.output / f"{NODE}.jsonl" if options.output.is_dir() else options.output
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def say(words: str) -> None:
    """Progress for a person: stdout, or stderr where stdout carries the results."""
    print(words, flush=True, file=sys.stderr if options.output is None else sys.stdout)


def burn(nvml: Any, gpu: Gpu, work: Work, size: int, num_gpus: int) -> None:
    """Load one GPU and write its line."""
    window_s = min(5.0, max(0.3, options.seconds / 12))
    watch = Watch(nvml, gpu, window_s)
    samples, num_different = sustain(work, size, options.seconds, window_s)
    answers = watch.end()
    value = statistics.median(samples)
    fault = "gemm_mismatch" if num_different else "" if answers else "gpu_hang"
    message = f"{num_different} of {len(samples)} samples: same input, other bits" if num_different else ""
    message = message or ("" if answers else f"NVML gave no answer within {NVML_DEADLINE_S:g} s under load")
    emit(gpu=gpu.number, uuid=gpu.uuid, sku=gpu.sku, test=work.test, metric="throughput", value=value, unit=work.unit,
         size=size, num_gpus=num_gpus, ok=not fault, fault=fault or None, message=message, sample_s=window_s,
         samples=[round(sample, 3) for sample in samples], **watch.summary())  # fmt: skip
    say(f"{NODE} GPU {gpu.number}: {value:.1f} {work.unit} {message}")


def test_one(nvml: Any, position: int, token: str, *, device: str, num_gpus: int) -> bool:
    """Find one GPU and load it; whatever is wrong with it is its line and leaves the others to be tested."""
    size = options.size or (8192 if device == "cuda" else 512)
    test = "gemm_bf16" if device == "cuda" else "gemm_fp32"
    number = int(token) if token.isdigit() else None
    fault = None
    try:
        gpu = within(NVML_DEADLINE_S, lambda: find_gpu(nvml, token)) if nvml else Gpu(number, None, cpu_sku(), None)
        burn(nvml, gpu, cuda_work(position, size) if device == "cuda" else cpu_work(size), size, num_gpus)
    except TimeoutError:
        fault, message = "gpu_hang", f"NVML gave no answer within {NVML_DEADLINE_S:g} s"
    except (RuntimeError, MemoryError) as error:  # torch's own errors are RuntimeErrors
        message = f"{type(error).__name__}: {error}"
    except nvml_error(nvml) as error:
        fault, message = FAULTS.get(type(error).__name__), f"NVML: {error}"
    else:
        return True
    emit(gpu=number, test=test, ok=False, fault=fault, message=message, num_gpus=num_gpus)
    say(f"{NODE} GPU {token}: {message}")
    return False


def nvml_error(nvml: Any) -> type[Exception]:
    """The class of NVML's errors; without NVML one that nothing raises here."""
    return nvml.NVMLError if nvml else StopAsyncIteration


def cpu_sku() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> int:
    """The exit code: 0 if every GPU that Slurm gave was measured."""
    device = choose_device(options.device)
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            emit(
                test="gemm_bf16",
                ok=False,
                message=f"the CUDA driver is here, but torch {torch.__version__} cannot use it",
            )
            return 1
    try:
        nvml = open_nvml()
        chosen = within(NVML_DEADLINE_S, lambda: tokens(nvml, device == "cuda"))
    except TimeoutError:
        emit(test="gemm", ok=False, fault="gpu_hang", message=f"NVML gave no answer within {NVML_DEADLINE_S:g} s")
        return 1
    expected = int(os.environ.get("SLURM_GPUS_ON_NODE") or len(chosen))
    if len(chosen) < expected:
        emit(test="gemm", ok=False, fault="gpu_missing", message=f"{len(chosen)} GPUs found, Slurm gave {expected}")
    passed = [
        test_one(nvml, position, token, device=device, num_gpus=expected) for position, token in enumerate(chosen)
    ]
    return 0 if all(passed) and len(chosen) >= expected else 1


if __name__ == "__main__":
    options = arguments()
    status = main()
    sys.stdout.flush()
    os._exit(
        status
    )  # a thread that waits in the driver must not keep the job; freeing torch piece by piece costs seconds
