"""What the NVIDIA driver writes to the kernel log: Xid of GPUs, SXid of NVSwitches, GPUs that fell off the bus.

Reads /dev/kmsg, or a file in the same format (`priority,sequence,microseconds since boot,flags;text`). The pure part
takes lines in the formats of dmesg too, whose times it leaves alone unless they count from boot.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from guardctl.words.records import Reading, Source, Value

KMSG = re.compile(r"(?P<priority>\d+),(?P<sequence>\d+),(?P<usec>\d+),[^;]*;(?P<text>.*)")
DMESG = re.compile(r"\s*\[\s*(?P<seconds>\d+\.\d+)\]\s?(?P<text>.*)")
XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?:, (?P<text>.*))?")
SXID = re.compile(r"nvidia-nvswitch\d+: SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?:, (?P<text>.*))?")
OFF_BUS_BEGIN = re.compile(r"NVRM: The NVIDIA GPU (?P<pci>[0-9a-fA-F:.]+)")
OFF_BUS_END = re.compile(r"NVRM:\s+fallen off the bus and is not responding")
INIT_FAILED = re.compile(r"NVRM: (?:GPU (?P<pci>[0-9a-fA-F:.]+): )?RmInitAdapter failed!(?P<text>.*)")
FATAL = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
PID = re.compile(r"\bpid='?(\d+)")
PROCESS = re.compile(r"\bname=([^<\s,][^,]*)")
PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?")
OFF_BUS_LINES = 3
USER_FACILITY = 8  # records from there on were written to /dev/kmsg by programs, not by the kernel
DRIVER = ("NVRM:", "nvidia-nvswitch")  # begins its records; others may quote a user, as "oom-kill" does a cgroup's name
MAX_RECORD_BYTES = 8192
MAX_READ_BYTES = 4 * 2**20  # of a file at once; more waits for the next period


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line, or three, of the driver. `since_boot_s` and `sequence` are None where the line does not say."""

    event: str  # "xid", "sxid", "fell_off_bus", "init_failed"
    pci: str | None
    text: str
    code: int | None = None
    since_boot_s: float | None = None
    sequence: int | None = None

    @property
    def fatal(self) -> bool | None:
        """What the line itself says; only SXid and Xid 144 and up say it."""
        match = FATAL.search(self.text)
        return None if match is None else match[1] is None

    @property
    def values(self) -> dict[str, Value]:
        """The signals of a reading."""
        pid, process = PID.search(self.text), PROCESS.search(self.text)
        return {
            "event": self.event, "pci": self.pci, "text": self.text, "sequence": self.sequence, "fatal": self.fatal,
            "xid": self.code if self.event == "xid" else None, "sxid": self.code if self.event == "sxid" else None,
            "pid": int(pid[1]) if pid else None, "process": process[1].strip() if process else None,
        }  # fmt: skip


def parse_xid(lines: Iterable[str]) -> list[LogEvent]:
    """The driver's events in log lines, in order. Lines of anybody else and lines with no number are passed over."""
    events: list[LogEvent] = []
    opened: tuple[LogEvent, int] | None = None
    for number, line in enumerate(lines):
        head, text = _split(line)
        opened = _begin(head, text, number) or opened
        if opened and number - opened[1] < OFF_BUS_LINES and OFF_BUS_END.search(text):
            events.append(opened[0])
            opened = None
        elif event := _event(text):
            events.append(replace(event, since_boot_s=head.since_boot_s, sequence=head.sequence))
    return events


def normal_pci(text: str) -> str | None:
    """`0000:18:00` of "0000:18:00", "00000000:18:00.0" or "18:00.0", the way the driver's log names a GPU."""
    match = PCI.fullmatch(text.lower())
    return f"{(match[1] or '0000')[-4:]}:{match[2]}:{match[3]}" if match else None


@dataclass(frozen=True, slots=True)
class _Head:
    since_boot_s: float | None = None
    sequence: int | None = None


def _split(line: str) -> tuple[_Head, str]:
    """What stands before the text of a line, and the text."""
    if match := KMSG.match(line):
        if int(match["priority"]) >= USER_FACILITY or not match["text"].startswith(DRIVER):
            return _Head(), ""
        return _Head(int(match["usec"]) / 1e6, int(match["sequence"])), match["text"]
    if match := DMESG.match(line):
        return _Head(float(match["seconds"])), match["text"]
    return _Head(), line


def _begin(head: _Head, text: str, number: int) -> tuple[LogEvent, int] | None:
    match = OFF_BUS_BEGIN.search(text)
    if match is None:
        return None
    event = LogEvent("fell_off_bus", normal_pci(match["pci"]), "GPU has fallen off the bus and is not responding")
    return replace(event, since_boot_s=head.since_boot_s, sequence=head.sequence), number


def _event(text: str) -> LogEvent | None:
    for name, pattern in (("xid", XID), ("sxid", SXID)):
        if match := pattern.search(text):
            return LogEvent(name, normal_pci(match["pci"]), (match["text"] or "").strip(), int(match["code"]))
    if match := INIT_FAILED.search(text):
        pci = normal_pci(match["pci"]) if match["pci"] else None
        return LogEvent("init_failed", pci, f"RmInitAdapter failed!{match['text']}".strip())
    return None


def readings(
    events: Sequence[LogEvent],
    node: str,
    boot_id: str | None,
    boot_at: datetime,
    now: datetime,
    after: datetime | None = None,
) -> list[Reading]:
    """Log readings, device = the GPU's PCI address; their time is the line's own where it says one.

    `after`: when the log was read to its end before. The clock of the kernel's log is not corrected and can be minutes
    off after weeks; a line that is new since then is no older, or it would be too old for whoever looks at minutes.
    """
    return [
        Reading(node, _at(event, boot_at, now, after), Source.LOG, event.pci or "", boot_id=boot_id,
                values=event.values)
        for event in events
    ]  # fmt: skip


def located(log: Sequence[Reading], gpus: Sequence[Reading]) -> list[Reading]:
    """Log readings with the index and the identity of the GPU at their PCI address, where one of `gpus` is there."""
    by_pci = {pci: gpu for gpu in gpus if (pci := gpu.values.get("pci"))}
    return [_on(each, by_pci.get(each.device)) for each in log]


def _on(reading: Reading, gpu: Reading | None) -> Reading:
    if gpu is None:
        return reading
    return replace(reading, uuid=gpu.uuid, serial=gpu.serial, values={**reading.values, "gpu": int(gpu.device)})


def _at(event: LogEvent, boot_at: datetime, now: datetime, after: datetime | None) -> datetime:
    if event.since_boot_s is None:
        return now
    at = boot_at + timedelta(seconds=event.since_boot_s)
    return min(now, at if after is None else max(at, after))


@dataclass(slots=True)
class Tail:
    """The place up to which a log was read. `why`: what is wrong with the log, empty if nothing is.

    `continued`: the last call went on where the one before it had come to the log's end, so all its lines are new.
    """

    path: Path
    why: str = ""
    continued: bool = False
    _at_end: bool = False
    _fd: int = field(default=-1, repr=False)
    _offset: int = 0
    _rest: bytes = b""

    def lines(self) -> list[str]:
        """The lines since the last call; at first all that are there. A log that cannot be read gives none."""
        try:
            self._open()
            data = b"".join(self._new())
        except OSError as error:
            self.why = f"{self.path}: {error.strerror}"
            self.close()
            self.continued = False
            return []
        self.continued, self._at_end = self._at_end, len(data) < MAX_READ_BYTES
        self.why = ""
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def close(self) -> None:
        """Forget the open file; the next call starts at the beginning."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._offset, self._rest, self._at_end = -1, 0, b"", False

    def _open(self) -> None:
        if self._fd >= 0 and self._is_the_same():
            return
        self.close()
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def _is_the_same(self) -> bool:
        """A file that was replaced or cut is a new one; a device stays."""
        opened, named = os.fstat(self._fd), self.path.stat()
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino) and (
            not stat.S_ISREG(named.st_mode) or named.st_size >= self._offset
        )

    def _new(self) -> Iterator[bytes]:
        if stat.S_ISREG(os.fstat(self._fd).st_mode):
            data = os.pread(self._fd, MAX_READ_BYTES, self._offset)
            self._offset += len(data)
            yield data
        else:
            yield from self._records()

    def _records(self) -> Iterator[bytes]:
        """Records of /dev/kmsg: one per read, until it would block."""
        while True:
            try:
                data = os.read(self._fd, MAX_RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.EPIPE:  # EPIPE: records were overwritten before we came; the next one is there
                    raise
                continue
            if not data:
                return
            yield data
