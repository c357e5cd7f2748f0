"""Tells guardctl how long each rank of a training job was busy in each step. Standard library only.

    timer = StepTimer()
    for batch in loader:
        with timer.step():
            loss.backward()
            with timer.wait():                # a collective: waiting is not work
                dist.all_reduce(gradients)
            optimizer.step()
    timer.close()                             # or: with StepTimer() as timer

In synchronous training every rank shows the same step time; the straggler is the rank that waits least. So the busy
time, the step without what lies in `wait`, is what is compared between equal ranks.

Times are wall clock. On a GPU, kernels run behind the program's back: put what ends in a synchronisation (a loss that
is read, an optimizer step) inside the step, or the time lands in the next one.

Writes `<state>/steps/<job>/rank<r>.jsonl`: a header, then a line per step. The folder is GUARDCTL_STATE or
/var/lib/guardctl; job, rank, node and GPU come from the environment of Slurm or torchrun. Whatever goes wrong here,
training goes on: one warning on stderr, and the timer does nothing from then on.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "guardctl.steps/1"
STATE_DIR = "/var/lib/guardctl"
FLUSH_S = 1.0
MAX_BUFFERED = 256  # lines


class StepTimer:
    """Times steps and the waiting inside them. `stage`: pipeline stage, None without pipelines.

    A step that ends in an exception is not recorded. Not thread-safe: one timer per rank, used by its training loop.
    """

    def __init__(
        self,
        state_dir: str | None = None,
        job_id: str | None = None,
        rank: int | None = None,
        node: str | None = None,
        gpu: int | None = None,
        stage: int | None = None,
    ) -> None:
        env = os.environ
        self._job_id = job_id or env.get("SLURM_JOB_ID", "")
        self._rank = rank if rank is not None else _number(env, "RANK", "SLURM_PROCID")
        self._node = node or env.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
        self._gpu = gpu if gpu is not None else _gpu(env)
        self._stage = stage
        self._folder = os.path.join(state_dir or env.get("GUARDCTL_STATE") or STATE_DIR, "steps", self._job_id)
        self._lines: list[str] = []
        self._flushed_at = time.monotonic()
        self._file: IO[str] | None = None
        self._step = 0
        self._waited_s = 0.0
        self._open()

    # ---- what a training loop calls ----

    @contextmanager
    def step(self, number: int | None = None, tokens: int | None = None) -> Iterator[None]:
        """One training step. `number`: counted from 0 if not given; `tokens`: this rank's work in it."""
        self._step = number if number is not None else self._step
        self._waited_s = 0.0
        began = time.perf_counter()
        yield
        step_s = time.perf_counter() - began
        self._record(step_s, tokens)
        self._step += 1

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Time that is no work: a collective, a barrier, a wait for data from another rank."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._waited_s += time.perf_counter() - began

    def close(self) -> None:
        """Write what is buffered and end; calling it again does nothing."""
        self._flush()
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:  # a full disk or a network file system may say so only now
            self._give_up(str(error))

    def __enter__(self) -> StepTimer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the file ----

    def _open(self) -> None:
        if not self._job_id or self._rank is None:
            self._give_up("no job id or rank in the environment (SLURM_JOB_ID, RANK or SLURM_PROCID)")
            return
        try:
            os.makedirs(self._folder, 0o755, exist_ok=True)
            # whatever the umask says: on a shared file system the monitor may not be root
            os.chmod(self._folder, 0o755)  # noqa: S103 - others may only look
            path = os.path.join(self._folder, f"rank{self._rank}.jsonl")
            _keep_old(path, self._head())
            self._file = open(path, "a", encoding="utf-8")
            os.chmod(path, 0o644)
            if self._file.tell() == 0:
                self._file.write(self._head())
                self._file.flush()
        except OSError as error:
            self._give_up(str(error))

    def _head(self) -> str:
        head = {"schema": SCHEMA, "job_id": self._job_id, "rank": self._rank, "node": self._node,
                "gpu": self._gpu, "stage": self._stage}  # fmt: skip
        return json.dumps(head) + "\n"

    def _record(self, step_s: float, tokens: int | None) -> None:
        if self._file is None:
            return
        busy_s = max(0.0, step_s - self._waited_s)
        more = "" if tokens is None else f', "tokens": {int(tokens)}'
        self._lines.append(
            f'{{"step": {self._step}, "busy_s": {busy_s:.6f}, "step_s": {step_s:.6f}, "at": {time.time():.3f}{more}}}\n'
        )
        if len(self._lines) >= MAX_BUFFERED or time.monotonic() - self._flushed_at >= FLUSH_S:
            self._flush()

    def _flush(self) -> None:
        self._flushed_at = time.monotonic()
        if self._file is None or not self._lines:
            return
        try:
            self._file.write("".join(self._lines))
            self._file.flush()
        except OSError as error:
            self._give_up(str(error))
        self._lines = []

    def _give_up(self, why: str) -> None:
        broken, self._file = self._file, None
        with suppress(OSError, ValueError, AttributeError):  # stderr may be closed or None
            sys.stderr.write(f"guardctl: step times are not recorded: {why}\n")
        with suppress(OSError):  # the same trouble, met again while closing
            if broken is not None:
                broken.close()


def _keep_old(path: str, head: str) -> None:
    """A job that Slurm requeued may have this rank on another node now: its old file steps aside."""
    try:
        with open(path, encoding="utf-8", errors="replace") as old:
            same = old.readline() == head
    except FileNotFoundError:
        return
    if not same:
        os.replace(path, f"{path}.{int(time.time())}")


def _number(env: os._Environ[str], *names: str) -> int | None:
    """The first of the variables that holds a number."""
    texts = (env.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdigit()), None)


def _gpu(env: os._Environ[str]) -> int | None:
    """The node's index of the GPU that this rank uses, as far as the environment tells."""
    local = _number(env, "LOCAL_RANK", "SLURM_LOCALID") or 0
    given = (env.get("SLURM_STEP_GPUS") or env.get("CUDA_VISIBLE_DEVICES") or "").split(",")
    mine = given[local] if local < len(given) else given[0]
    return int(mine) if mine.isdigit() else None
