#!/usr/bin/env python3
"""All-reduce over the nodes of a job, two by default, with a deadline on everything.

    srun --ntasks-per-node=1 python pair_allreduce.py --seconds 30 --bytes 4194304,268435456 --output pair.jsonl

Why: a bad cable, port or network card shows only between two nodes. One pair blames neither side; the rounds of a
sweep do that, with other partners. NCCL where CUDA is, one process per GPU; gloo elsewhere, one process per node.

Rank 0 writes one JSON line (schema guardctl.pairs/1), also when a rank never comes or a collective hangs: "ok": false
and what it waited for. busbw as in nccl-tests: busbw = bytes/time * 2(n-1)/n, with the median time, in GB/s (1e9).

The sizes go up from the smallest. Each is warmed up, checked, and repeated as often as fits; one that would not fit
into what is left of --seconds is not begun, so that a link at a hundredth of its speed ends in time too: `bytes` is the
size that was measured, `asked_bytes` the largest one asked for. Needs Python 3.11 and torch.
"""

import argparse
import gc
import json
import math
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

gc.disable()  # importing torch is a third cheaper without it, and nothing here makes cycles
os.environ.setdefault("OMP_NUM_THREADS", "1")

SCHEMA = "guardctl.pairs/1"
MIN_ITERATIONS, MAX_ITERATIONS = 3, 200
SMALL_SHARE = 0.2  # of the time that is left goes to each size but the last

RANK = int(os.environ.get("SLURM_PROCID") or os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("SLURM_NTASKS") or os.environ.get("WORLD_SIZE", "1"))
LOCAL = int(os.environ.get("SLURM_LOCALID") or os.environ.get("LOCAL_RANK", "0"))
NODES = (os.environ.get("GUARDCTL_NODES") or os.environ.get("SLURMD_NODENAME") or platform.node()).split()
BEGAN = time.monotonic()


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of all-reduce at most (default 30)")
    parser.add_argument("--bytes", default="1048576,16777216,268435456", help="sizes, comma-separated")
    parser.add_argument("--start-s", type=float, default=180.0, help="deadline for all ranks to meet (default 180)")
    parser.add_argument("--round", type=int, default=0, help="of the sweep; copied to the result")
    parser.add_argument("--output", type=Path, help="file for the JSON line (default stdout)")
    return parser.parse_args(argv)


options = argparse.Namespace()
written = threading.Lock()  # held for ever by whoever writes the one line


def emit(**fields: Any) -> None:
    """Rank 0's one result line; a second call does nothing."""
    if RANK != 0 or not written.acquire(blocking=False):
        return
    node_b = NODES[-1] if len(NODES) > 1 else None
    common = {
        "schema": SCHEMA,
        "at": datetime.now(UTC).isoformat(),
        "node_a": NODES[0],
        "node_b": node_b,
        "nodes": NODES,
    }
    line = json.dumps({**common, "round": options.round, "test": "allreduce", "ranks": WORLD, **fields})
    if options.output is None:
        print(line, flush=True)
    else:
        with options.output.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def failed(message: str) -> None:
    """A result line for a test that could not be made."""
    print(f"rank {RANK} of {WORLD}: {message}", file=sys.stderr, flush=True)
    emit(ok=False, busbw_gbps=None, message=message, bytes=None, p50_s=None, p90_s=None, iterations=0)


# --- the deadline ---------------------------------------------------------------------------------------------------

phase: tuple[str, float] = ("", float("inf"))  # what we wait for, and until when on the monotonic clock


def expect(what: str, seconds: float) -> None:
    """From now on the watchdog gives `what` that many seconds."""
    global phase  # noqa: PLW0603 - one process, one phase: the watchdog reads it
    phase = (what, time.monotonic() + seconds)


def watchdog() -> None:
    """Ends the process when a phase runs past its deadline, however deep in a library the main thread hangs."""
    while time.monotonic() < phase[1]:
        time.sleep(0.2)
    failed(f"{phase[0]} did not end in time, {time.monotonic() - BEGAN:.0f} s after the start")
    os._exit(1)


# --- one size -------------------------------------------------------------------------------------------------------


def reduce_once(dist: Any, tensor: Any) -> float:
    """Seconds of one all-reduce; the tensor is filled with rank + 1 before it and holds the sum after it."""
    tensor.fill_(RANK + 1)
    wait(tensor)
    began = time.perf_counter()
    dist.all_reduce(tensor)
    wait(tensor)
    return time.perf_counter() - began


def wait(tensor: Any) -> None:
    """Until the GPU has done what it was given; a processor has."""
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize()


def agree(dist: Any, torch: Any, value: float, device: str) -> float:
    """The largest `value` of all ranks, so that all decide alike."""
    number = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return float(number.item())


def measure(dist: Any, torch: Any, num_bytes: int, left_s: float, *, share: float, device: str) -> list[float]:
    """Seconds of each all-reduce of `num_bytes` (float32); raises RuntimeError if a sum is wrong."""
    tensor = torch.empty(max(1, num_bytes // 4), dtype=torch.float32, device=device)
    expect(f"the first all-reduce of {num_bytes} bytes", left_s + options.seconds + 30)
    reduce_once(dist, tensor)  # buffers, connections
    once_s = agree(dist, torch, reduce_once(dist, tensor), device)
    iterations = min(MAX_ITERATIONS, max(MIN_ITERATIONS, int(left_s * share / once_s)))
    expect(f"{iterations} all-reduces of {num_bytes} bytes", iterations * once_s * 5 + options.seconds + 30)
    times = [reduce_once(dist, tensor) for _ in range(iterations)]
    total = WORLD * (WORLD + 1) / 2
    if not bool((tensor == total).all()):
        raise RuntimeError(f"wrong sum: {num_bytes} bytes of {total:g} expected, got {tensor.min()} to {tensor.max()}")
    return times


def measure_sizes(dist: Any, torch: Any, device: str) -> tuple[int, list[float]]:
    """The largest size that fitted into the time, and the seconds of its all-reduces."""
    sizes = sorted(int(size) for size in options.bytes.split(","))
    until = time.monotonic() + options.seconds
    done, times = 0, [0.0]
    for size in sizes:
        need_s = min(times) * size / max(done, 1) * (MIN_ITERATIONS + 2)
        late = time.monotonic() + need_s > until
        if done and agree(dist, torch, float(late), device):
            break
        left_s = agree(dist, torch, max(0.5, until - time.monotonic()), device)
        share = 0.9 if size == sizes[-1] else SMALL_SHARE
        times = measure(dist, torch, size, left_s, share=share, device=device)
        done = size
    return done, times


# --- from the meeting to the line -----------------------------------------------------------------------------------


def meet() -> tuple[Any, Any, str]:
    """torch.distributed, torch, and the device, once all ranks are there."""
    expect("the start of torch", max(120.0, options.start_s))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    device = "cpu"
    if cuda:
        torch.cuda.set_device(LOCAL if torch.cuda.device_count() > 1 else 0)
        device = "cuda"
    expect(f"the meeting of {WORLD} ranks at {os.environ.get('MASTER_ADDR')}", options.start_s)
    dist.init_process_group(
        "nccl" if cuda else "gloo", init_method="env://", rank=RANK, world_size=WORLD,
        timeout=timedelta(seconds=options.start_s),
    )  # fmt: skip
    return dist, torch, device


def report(backend: str, sku: str, size: int, times: list[float]) -> None:
    """The result line of a test that was made."""
    asked = max(int(each) for each in options.bytes.split(","))
    ordered = sorted(times)
    p50_s = statistics.median(ordered)
    busbw_gbps = size / p50_s / 1e9 * 2 * (WORLD - 1) / WORLD
    message = "" if size == asked else f"{asked} bytes would not have fitted into {options.seconds:g} s"
    emit(ok=True, busbw_gbps=busbw_gbps, unit="GB/s", bytes=size, asked_bytes=asked, p50_s=p50_s,
         p90_s=ordered[math.ceil(0.9 * len(ordered)) - 1], iterations=len(times), message=message,
         backend=backend, sku=sku, times_s=[round(each, 6) for each in times])  # fmt: skip
    print(f"{'+'.join(NODES)}: {busbw_gbps:.4f} GB/s at {size} bytes {message}", flush=True, file=sys.stderr)


def main() -> int:
    """The exit code: 0 if this rank did its part."""
    threading.Thread(target=watchdog, daemon=True).start()
    try:
        dist, torch, device = meet()
        size, times = measure_sizes(dist, torch, device)
    except (RuntimeError, ValueError, ImportError, OSError) as error:  # torch's own are RuntimeErrors
        failed(f"{phase[0]}: {type(error).__name__}: {str(error).splitlines()[0]}")
        return 1
    expect("the end", 30)
    if RANK == 0:
        sku = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
        report(dist.get_backend(), sku, size, times)
    agree(dist, torch, 0.0, device)  # nobody leaves while another still needs it
    return 0


if __name__ == "__main__":
    options = arguments()
    status = main()
    sys.stdout.flush()
    os._exit(status)  # a hung library thread must not keep the job; freeing torch piece by piece costs seconds
