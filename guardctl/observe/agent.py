"""What runs on every node: sample all sources, append to the spool, keep the hook's verdict fresh.

One pass every period; a pass that takes longer skips the ones that it missed. Trouble with the spool or the verdict
file is said once and tried again at the next pass: the agent never ends by itself.
"""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from guardctl.observe import host, infiniband, kernel_log, net, spool, verdict_file
from guardctl.observe.identity import boot_at, boot_id, checked
from guardctl.observe.nvml import NvmlChild
from guardctl.observe.nvml import sample as sample_gpus
from guardctl.words.errors import SpoolError
from guardctl.words.policy import Policy
from guardctl.words.records import Finding, Reading, Source

log = logging.getLogger(__name__)
Check = Callable[[Sequence[Reading]], list[Finding]]
PRUNE_EVERY_S = 3600.0
MAX_UNWRITTEN = 1000  # readings of the log that are kept for a spool that cannot be written


@dataclass
class Probes:
    """What stays open from pass to pass."""

    policy: Policy
    node: str
    gpus: NvmlChild
    log: kernel_log.Tail
    spool: spool.Spool
    boot_id: str | None
    logged_at: datetime | None = None  # when the log was last read
    unwritten: list[Reading] = field(default_factory=list)  # of the log: a line is read once, and must not be lost
    pruned_at: float = field(default=float("-inf"))
    trouble: dict[str, str] = field(default_factory=dict)


def sample(probes: Probes, now: datetime) -> list[Reading]:
    """Readings of every source of this node, once."""
    policy, node, boot = probes.policy, probes.node, probes.boot_id
    logged = _logged(probes, now)  # first: a driver that hangs has often said why already
    gpus = sample_gpus(probes.gpus, node, boot, now)
    return [
        *kernel_log.located(logged, gpus.readings),
        *gpus.readings,
        net.read(policy, node, boot, now),
        *infiniband.read(policy.observe.sysfs, node, boot, now),
        host.read(gpus, probes.log.why, policy, node, boot, now),
    ]


def _logged(probes: Probes, now: datetime) -> list[Reading]:
    """What the driver wrote to the kernel log since the last pass."""
    events = kernel_log.parse_xid(probes.log.lines())
    after = probes.logged_at if probes.log.continued else None
    probes.logged_at = now
    return kernel_log.readings(events, probes.node, probes.boot_id, boot_at(), now, after)


def run(policy: Policy, node: str, check: Check, *, once: bool = False) -> None:
    """Pass after pass until SIGTERM or SIGINT. `check`: readings of one pass in, findings out."""
    stopping = _stop_on_signals()
    boot = boot_id()
    with NvmlChild(policy.observe.nvml_deadline_s) as gpus:
        writer = spool.Spool(policy.state_dir, checked(node), boot)
        probes = Probes(policy, node, gpus, kernel_log.Tail(policy.observe.kmsg), writer, boot)
        due = time.monotonic()
        while not stopping.is_set():
            one_pass(probes, check, datetime.now(UTC))
            if once:
                _fail_if_troubled(probes)
                return
            due = max(due + policy.observe.period_s, time.monotonic())
            stopping.wait(due - time.monotonic())


def _stop_on_signals() -> threading.Event:
    stopping = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
    return stopping


def _fail_if_troubled(probes: Probes) -> None:
    for what in probes.trouble.values():
        raise SpoolError(what, hint="look at state_dir and observe.run_dir of the policy, and at their disks")


def one_pass(probes: Probes, check: Check, now: datetime) -> None:
    """Sample, write, judge the hard faults, tell the hook."""
    readings = sample(probes, now)
    left = list(host.notes(probes.policy, probes.node, probes.boot_id))
    batch = [*probes.unwritten, *readings, *(note for _, note in left)]
    written = _try(probes, "spool", lambda: probes.spool.append(batch, now))
    probes.unwritten = [] if written else [each for each in batch if each.source is Source.LOG][-MAX_UNWRITTEN:]
    for path, _ in left if written else ():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    _try(probes, "verdict", lambda: _tell_hook(probes, check(readings), now))
    _prune(probes, now)


def _try(probes: Probes, what: str, work: Callable[[], object]) -> bool:
    """Whether `work` went well. Its trouble is logged when it is new, and when it is over."""
    try:
        work()
    except SpoolError as error:
        if probes.trouble.get(what) != str(error):
            log.error("%s; %s; trying again every %g s", error, error.hint, probes.policy.observe.period_s)
        probes.trouble[what] = str(error)
        return False
    if probes.trouble.pop(what, None):
        log.warning("the %s can be written again", what)
    return True


def _tell_hook(probes: Probes, findings: Sequence[Finding], now: datetime) -> None:
    said = verdict_file.fresh(_monitors(probes.policy, probes.node), now)
    content = verdict_file.document(probes.node, probes.boot_id, findings, said, probes.policy, now)
    verdict_file.replace(probes.policy.observe.run_dir / "verdict.json", content)


def _monitors(policy: Policy, node: str) -> Path:
    return policy.state_dir / "verdicts" / f"{node}.json"


def _prune(probes: Probes, now: datetime) -> None:
    if now.timestamp() - probes.pruned_at < PRUNE_EVERY_S:
        return
    probes.pruned_at = now.timestamp()
    try:
        spool.prune(probes.policy.state_dir, probes.node, probes.policy.observe.retention_h, now)
    except OSError as error:
        log.warning("old telemetry stays: %s", error)
