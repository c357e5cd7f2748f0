#!/usr/bin/env python3
# ruff: noqa: T201, E402 - a program that prints its steps; torch is imported after what makes that cheap
"""A small real data-parallel training: what guardctl looks after in the lab.

One rank per node, gloo. A multi-layer perceptron of a million parameters learns a fixed random function. All gradients
lie in one flat buffer of 4 MB, which one all-reduce adds up over the ranks, so a slow link hurts every step, and every
rank waits for the slowest one, as in a large job.

SIGUSR1 on any rank (`scancel --signal=USR1 JOB`) ends all ranks after the same step, with a checkpoint: the flag
travels in the last element of that buffer. A run with the same --checkpoint goes on from there.

Run it by train.sbatch, or by hand with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment.
"""

import argparse
import gc
import hashlib
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType

gc.disable()  # importing torch is a third cheaper without it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch.nn.functional import gelu, mse_loss

from guardctl.steptimer import StepTimer

torch.set_num_threads(1)

RANK = int(os.environ.get("SLURM_PROCID") or os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("SLURM_NTASKS") or os.environ.get("WORLD_SIZE", "1"))
WIDTHS = (256, 512, 512, 512, 512, 256)  # 1.05 million weights
LEARNING_RATE, MOMENTUM = 0.2, 0.9

parser = argparse.ArgumentParser(description="A small real data-parallel training.")
parser.add_argument("--steps", type=int, default=1_000_000, help="to train in all, those before a checkpoint included")
parser.add_argument("--seconds", type=float, default=float("inf"), help="at most, of this run")
parser.add_argument("--batch", type=int, default=448, help="samples per rank and step: 60-80 ms of one core")
parser.add_argument("--checkpoint", type=Path, help="file to go on from, and to save to on SIGUSR1")
options = parser.parse_args()

asked_to_stop = threading.Event()


def on_signal(_number: int, _frame: FrameType | None) -> None:
    asked_to_stop.set()


signal.signal(signal.SIGUSR1, on_signal)

# The model: every layer's weight is a view into `weights`, every gradient one into `buffer`, whose last element is the
# flag that asks to stop.
torch.manual_seed(0)  # the same start on every rank
shapes = list(zip(WIDTHS[1:], WIDTHS[:-1], strict=True))
num_weights = sum(rows * columns for rows, columns in shapes)
weights = torch.empty(num_weights)
momentum = torch.zeros(num_weights)
buffer = torch.zeros(num_weights + 1)
layers: list[torch.Tensor] = []
offset = 0
for rows, columns in shapes:
    part = weights[offset : offset + rows * columns].view(rows, columns)
    part.copy_(torch.randn(rows, columns) * (2.0 / columns) ** 0.5)
    layer = part.detach().requires_grad_()  # the same memory, so that `weights` may change in place
    layer.grad = buffer[offset : offset + rows * columns].view(rows, columns)
    layers.append(layer)
    offset += rows * columns
teacher = torch.randn(WIDTHS[0], WIDTHS[-1]) / WIDTHS[0] ** 0.5


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Input (batch, 256) and target (batch, 256); every rank and step has its own."""
    source = torch.Generator().manual_seed(step * WORLD + RANK)
    x = torch.randn(options.batch, WIDTHS[0], generator=source)
    return x, torch.sin(x @ teacher)


def forward(x: torch.Tensor) -> torch.Tensor:
    for layer in layers[:-1]:
        x = gelu(x @ layer.T)
    return x @ layers[-1].T


def train_step(step: int, timer: StepTimer) -> tuple[float, bool]:
    """The loss of this rank, and whether some rank was asked to stop."""
    with timer.step():
        x, target = batch_of(step)
        buffer.zero_()
        loss = mse_loss(forward(x), target)
        torch.autograd.backward(loss)
        buffer[-1] = float(asked_to_stop.is_set() or time.monotonic() > until)
        with timer.wait():
            dist.all_reduce(buffer)
        momentum.mul_(MOMENTUM).add_(buffer[:-1], alpha=1 / WORLD)
        weights.sub_(momentum, alpha=LEARNING_RATE)
    return float(loss.detach()), bool(buffer[-1] > 0)


def restored() -> int:
    """The step to begin with: rank 0 reads the checkpoint, all get the same."""
    begin = torch.zeros(1, dtype=torch.int64)
    if RANK == 0 and options.checkpoint is not None and options.checkpoint.exists():
        saved = torch.load(options.checkpoint, weights_only=True)
        weights.copy_(saved["weights"])
        momentum.copy_(saved["momentum"])
        begin[0] = saved["step"]
    for tensor in (begin, weights, momentum):
        dist.broadcast(tensor, src=0)
    return int(begin)


def save(step: int) -> None:
    """A checkpoint that is either the old one or the new one."""
    if RANK != 0 or options.checkpoint is None:
        return
    part = options.checkpoint.with_suffix(".part")
    torch.save({"step": step, "weights": weights.detach(), "momentum": momentum}, part)
    part.replace(options.checkpoint)
    print(f"checkpoint at step {step}: {options.checkpoint}", flush=True)


def train() -> int:
    """The number of the first step that is not done."""
    timer = StepTimer()
    for step in range(restored(), options.steps):
        began = time.perf_counter()
        loss, stop = train_step(step, timer)
        if RANK == 0:
            print(f"step {step} loss {loss:.4f} step_s {time.perf_counter() - began:.3f}", flush=True)
        if stop:
            save(step + 1)
            return step + 1
    return int(options.steps)


dist.init_process_group("gloo", init_method="env://", rank=RANK, world_size=WORLD, timeout=timedelta(seconds=300))
until = time.monotonic() + options.seconds
steps_done = train()
digest = hashlib.sha256(weights.detach().numpy().tobytes()).hexdigest()[:16]
print(f"rank {RANK}: {steps_done} steps, weights {digest}", flush=True)
dist.barrier()
sys.stdout.flush()
os._exit(0)  # freeing torch piece by piece costs a second of processor time
