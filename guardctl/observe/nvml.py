"""The node's GPUs, asked through a child that may hang without us: a driver call that gives no answer is a finding.

One request per GPU, each with a deadline. A child that stays silent past it is killed with its process group, and left
behind if it cannot be killed (a task in state D); the next GPU is asked by a new child. While a child lives it keeps
the devices open, so `nvidia-smi --gpu-reset` needs the agent stopped.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from guardctl.observe.kernel_log import normal_pci
from guardctl.words.records import Reading, Source, Value

PROBE = (sys.executable, "-P", "-m", "guardctl.observe.nvml_probe")
ROOT = Path(__file__).resolve().parents[2]  # where the package lies: the child must find it, too
START_S = 10.0  # a child's first answer may wait for Python and for the driver to wake the GPUs
KILL_WAIT_S = 0.5
MAX_ANSWER_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Gpus:
    """What the driver said. `num_gpus` is None, and `why` says why, where it did not even count.

    `hang`: it gave no answer to the count, so no GPU is to blame alone.
    """

    readings: tuple[Reading, ...] = ()
    num_gpus: int | None = None
    why: str = ""
    hang: bool = False


class NvmlChild:
    """A child process that answers requests about the driver, started when needed and replaced when it hangs."""

    def __init__(self, deadline_s: float, argv: Sequence[str] = PROBE, start_s: float = START_S) -> None:
        self._deadline_s = deadline_s
        self._start_s = start_s
        self._argv = tuple(argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._abandoned: list[subprocess.Popen[bytes]] = []
        self._stuck: dict[int, subprocess.Popen[bytes]] = {}
        self._identities: dict[int, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer, or None if there was none in time. A child that ends by itself is an answer: `why`."""
        fresh = self._process is None
        deadline_s = self._deadline_s + (self._start_s if fresh else 0.0)
        try:
            line = self._exchange(json.dumps(request).encode() + b"\n", deadline_s)
        except OSError as error:
            self.close()
            return {"why": f"the driver's child ended: {error.strerror}"}
        if line is None:
            return None
        answer = _object(line)
        return self._ended_after(line) if answer is None else answer

    def _ended_after(self, line: bytes) -> dict[str, Any]:
        """What to say of a child that ended, or that says what we cannot read and is ended: it may be out of step."""
        process = self._process
        self.close()
        if line:
            return {"why": f"the driver's child was ended, for this is no answer: {line[:80]!r}"}
        return {"why": f"the driver's child ended without an answer (exit code {process and process.returncode})"}

    def ask_gpu(self, index: int) -> dict[str, Any]:
        """The answer about one GPU, with `hang`, and with the identity that it had when it last answered."""
        stuck = self._stuck.pop(index, None)
        if stuck and stuck.poll() is None:
            self._stuck[index] = stuck  # asking again would leave one more process behind in each period
            answer: dict[str, Any] = {"hang": True, "why": f"process {stuck.pid} still hangs in a call to this GPU"}
        else:
            answer = self.ask({"op": "gpu", "index": index}) or self._gave_up_on(index)
        values = answer.get("values", {})
        if answer.get("uuid"):
            self._identities[index] = {"uuid": answer["uuid"], "serial": answer.get("serial"), "bus": _bus(values)}
        known = self._identities.get(index, {"uuid": None, "serial": None, "bus": None})
        values = {**values, "pci_bus_id": _bus(values) or known["bus"]}
        return {
            "uuid": known["uuid"],
            "serial": known["serial"],
            "lost": False,
            "hang": False,
            **answer,
            "values": values,
        }

    def _gave_up_on(self, index: int) -> dict[str, Any]:
        self._abandon(index)
        return {"hang": True, "why": f"no answer within {self._deadline_s:g} s"}

    def close(self) -> None:
        """End the child."""
        self._abandon(None)
        for process in self._abandoned:
            process.poll()

    def _exchange(self, request: bytes, deadline_s: float) -> bytes | None:
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert process.stdout is not None  # noqa: S101 - likewise
        process.stdin.write(request)
        process.stdin.flush()
        return _read_line(process.stdout.fileno(), time.monotonic() + deadline_s)

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        return self._process

    def _abandon(self, index: int | None) -> None:
        """Kill the child and go on without it, whether it ends or not."""
        process, self._process = self._process, None
        self._abandoned = [each for each in self._abandoned if each.poll() is None]
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unwritten bytes for a dead reader
                    pipe.close()
        try:
            process.wait(KILL_WAIT_S)
        except subprocess.TimeoutExpired:
            self._abandoned.append(process)
            if index is not None:
                self._stuck[index] = process


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _bus(values: Mapping[str, Any]) -> str | None:
    bus = values.get("pci_bus_id")
    return bus if isinstance(bus, str) else None


def _read_line(fd: int, until: float) -> bytes | None:
    """One line; what came before the end of the file; None if the time is over first."""
    data = b""
    while not data.endswith(b"\n") and len(data) < MAX_ANSWER_BYTES:
        ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(fd, MAX_ANSWER_BYTES)
        if not chunk:
            break
        data += chunk
    return data


def sample(child: NvmlChild, node: str, boot_id: str | None, now: datetime) -> Gpus:
    """Readings of all GPUs of the node, each asked by itself.

    Where the driver as a whole stops answering after a GPU hung, the GPUs behind it get no reading, and no blame.
    """
    counted = child.ask({"op": "count"})
    if counted is None:
        child.close()
        return Gpus(why="the driver did not answer at all", hang=True)
    if not isinstance(counted.get("num_gpus"), int):
        return Gpus(why=str(counted.get("why", "no answer")))
    readings: list[Reading] = []
    for index in range(counted["num_gpus"]):
        readings.append(reading(index, child.ask_gpu(index), node, boot_id, now))
        if readings[-1].values["hang"] and child.ask({"op": "count"}) is None:
            child.close()
            return Gpus(tuple(readings), counted["num_gpus"], f"the driver stopped answering after GPU {index}")
    if any(each.values["lost"] for each in readings):
        child.close()  # only a new process sees a GPU that was reset
    return Gpus(tuple(readings), counted["num_gpus"])


def reading(index: int, answer: Mapping[str, Any], node: str, boot_id: str | None, now: datetime) -> Reading:
    """One GPU's answer as a reading."""
    values: dict[str, Value] = dict(answer.get("values", {}))
    bus = _bus(values)
    values["pci"] = normal_pci(bus) if bus else None
    values |= {"lost": bool(answer["lost"]), "hang": bool(answer["hang"]), "why": answer.get("why")}
    return Reading(node, now, Source.GPU, str(index), answer["uuid"], answer["serial"], boot_id, values)
