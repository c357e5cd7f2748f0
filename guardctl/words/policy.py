"""The policy: every threshold of the house, with its unit, its range and where the number comes from.

Read from TOML by `load`; a missing file is the default policy, which only observes. An unknown key is an error that
names the nearest known one. `digest` is the hash that every event carries.
"""

import difflib
import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from guardctl.words.errors import PolicyError

Mode = Literal["observe", "warn", "act"]
DEFAULT_PATH = Path("/etc/guardctl/guardctl.toml")
HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
KEY_PART = re.compile(r"""\s*(?:"[^"]*"|'[^']*'|[^.\s]+)\s*""")


class Section(BaseModel):
    """A table of the policy file: frozen, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Observe(Section):
    """`[observe]`: what the agent on each node samples."""

    period_s: float = Field(30.0, ge=0.2, le=600, description="s between samples; Guard polls every 30-60 s")
    nvml_deadline_s: float = Field(5.0, ge=0.1, le=60, description="s until a silent driver call is a finding")
    interface: str = Field("", description="network interface to watch; empty: the one with the default route or eth0")
    cgroup: str = Field("self", description="folder with the cpu.stat of the jobs, or `self`: the agent's own group")
    kmsg: Path = Field(Path("/dev/kmsg"), description="kernel log")
    sysfs: Path = Field(Path("/sys"), description="where sysfs is mounted")
    run_dir: Path = Field(Path("/run/guardctl"), description="node-local folder for the hook's verdict and notes")
    retention_h: float = Field(48.0, ge=1, le=24 * 90, description="h that telemetry is kept in the spool")
    expected_gpus: int | None = Field(None, ge=0, le=64, description="GPUs per node; empty: what Slurm's gres says")
    max_step_file_bytes: int = Field(256 * 2**20, ge=2**10, description="bytes of one rank's step file that are read")


class Judge(Section):
    """`[judge]`: when a node is slow. Nobody has published Guard's thresholds; each default names its precedent."""

    window_s: float = Field(60.0, ge=1, le=3600, description="s per window; Guard samples every 30-60 s")
    windows: int = Field(5, ge=1, le=100, description="windows looked at; 5 of 60 s: between Minder's 4 min, Aegis' 10")
    windows_slow: int = Field(
        4, ge=1, le=100, validate_default=True, description="of these, how many must be slow before it counts"
    )
    slow_fraction: float = Field(0.10, gt=0, lt=1, description="share slower than the peers' median; Greyhound: 1.1x")
    mad_factor: float = Field(5.0, ge=0, le=50, description="and this many MADs from the median; EROICA: 5")
    min_peers: int = Field(3, ge=2, le=1000, description="equal peers needed for a comparison; below: cannot tell")
    min_steps: int = Field(2, ge=1, le=1000, description="steps per window and rank; fewer: the window says nothing")
    clock_fraction: float = Field(0.10, gt=0, lt=1, description="SM clock below the peers' median under load: slow")
    reason_share: float = Field(
        0.5, gt=0, le=1, description="share of a window's samples with a thermal or power-brake reason, above the peers"
    )
    hot_c: float = Field(85.0, ge=40, le=120, description="C; NVIDIA data-centre GPUs slow down from 85-90 C")
    throttled_excess: float = Field(0.15, gt=0, le=1, description="share of time throttled by the cgroup above peers")
    retransmits_per_s: float = Field(1.0, ge=0, description="TCP retransmits per s, and net_factor times the peers'")
    drops_per_s: float = Field(1.0, ge=0, description="packets per s dropped in the node's own queue, likewise")
    delays_per_s: float = Field(100.0, ge=0, description="packets per s held back by the node's own queue, likewise")
    rtt_ms: float = Field(5.0, ge=0, description="ms of TCP round trip; inside a cluster it is under 1 without a queue")
    net_factor: float = Field(5.0, ge=1, description="times the peers' median that network counters must exceed")

    @field_validator("windows_slow")
    @classmethod
    def _fits(cls, value: int, info: ValidationInfo) -> int:
        windows = info.data.get("windows", value)  # not there: it was refused already
        if value > windows:
            raise ValueError(f"over judge.windows = {windows}")
        return value


class Act(Section):
    """`[act]`: what may be done, and how much of it."""

    mode: Mode = Field("observe", description="observe: only look; act: drain, sweep and release")
    max_out: int = Field(8, ge=0, description="nodes out of service at once, everybody's drains counted")
    max_out_percent: float = Field(
        10.0, ge=0, le=100, description="likewise, share of the GPU nodes; at least one node"
    )
    max_drains_per_window: int = Field(4, ge=0, description="our own drains in one window")
    window_s: float = Field(3600.0, ge=1, description="s of that window")
    common_cause: int = Field(4, ge=2, description="nodes with the same new finding in one tick: look at the cause")
    common_cause_percent: float = Field(30.0, ge=1, le=100, description="and this share of the GPU nodes")
    protected: str = Field("", description="host list of nodes that are never touched")
    min_free: int = Field(0, ge=0, description="nodes that stay in service in each partition")
    max_lost_percent: float = Field(20.0, ge=0, le=100, description="nodes missing since the last tick: answer in part")
    checks: dict[str, Mode] = Field(default_factory=dict, description="mode by check or kind of signal")


class Quarantine(Section):
    """`[quarantine]`: the reservation that keeps a node ours while it is tested."""

    reservation_prefix: str = Field("guardctl", pattern=r"^[A-Za-z][A-Za-z0-9_]*$", description="its name starts so")
    duration_s: float = Field(3600.0, ge=60, le=7 * 86400, description="s it lasts from each renewal on")
    probation_s: float = Field(6 * 3600.0, ge=0, description="s of quiet work until a released node is HEALTHY")
    suspect_s: float = Field(1800.0, ge=0, description="s without evidence until a SUSPECT is HEALTHY again")
    triages: int = Field(3, ge=1, description="triages in the window that retire a node; Guard: third in a week")
    triage_window_s: float = Field(7 * 86400.0, ge=1, description="s of that window")


class Sweep(Section):
    """`[sweep]`: the active tests."""

    python: str = Field("", description="Python with torch on the nodes; empty: the one that runs guardctl")
    partition: str = Field("", description="partition to submit to; empty: Slurm's default")
    partners: int = Field(2, ge=0, le=64, description="idle healthy nodes borrowed as a measure and as pair partners")
    partner_wait_s: float = Field(1800.0, ge=0, description="s that a node with a bad link waits for an idle partner")
    seconds: float = Field(60.0, ge=1, le=7200, description="s of GEMM per GPU; heat needs minutes")
    pair_seconds: float = Field(30.0, ge=1, le=3600, description="s of all-reduce per pair")
    size: int = Field(8192, ge=64, le=65536, description="rows of the square matrices; 8192 fills an H100")
    pair_bytes: int = Field(2**28, ge=2**10, description="bytes per all-reduce")
    min_ratio: float = Field(0.90, gt=0, lt=1, description="of the reference, below: failed; SuperBench's 5 % + noise")
    pair_min_ratio: float = Field(0.75, gt=0, lt=1, description="of the reference busbw, below: a bad pair")
    time_limit_s: float = Field(900.0, ge=60, description="s, Slurm's limit for one sweep job")
    max_rounds: int = Field(3, ge=1, le=20, description="pair rounds before a person is asked")


class Hook(Section):
    """`[hook]`: prolog, epilog and health program."""

    refuse: bool = Field(False, description="prolog refuses a node with a hard fault; off: it only leaves a note")
    verdict_ttl_s: float = Field(300.0, ge=5, description="s that a cached verdict counts; later it is none")


class Policy(Section):
    """The whole policy file."""

    state_dir: Path = Field(Path("/var/lib/guardctl"), description="shared folder: telemetry, steps, sweeps")
    ledger: str = Field("", description="SQLAlchemy URL; empty: sqlite in state_dir")
    kill_switch: Path = Field(Path("/etc/guardctl/stop"), description="while this file exists nothing is changed")
    command_deadline_s: float = Field(20.0, ge=1, le=600, description="s for one Slurm command")
    observe: Observe = Observe()
    judge: Judge = Judge()
    act: Act = Act()
    quarantine: Quarantine = Quarantine()
    sweep: Sweep = Sweep()
    hook: Hook = Hook()

    @property
    def ledger_url(self) -> str:
        """The SQLAlchemy URL of the ledger."""
        return self.ledger or f"sqlite:///{self.state_dir}/ledger.db"

    @property
    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 over all values: which policy an event was made under."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def load(path: Path | None) -> Policy:
    """The policy in the file at `path`; None: the file at its usual place, or the defaults where there is none."""
    if path is None:
        return load(DEFAULT_PATH) if DEFAULT_PATH.exists() else Policy()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}", hint="`guardctl init` writes a policy") from error
    return parse(text, name=str(path))


def parse(text: str, *, name: str) -> Policy:
    """The policy in TOML `text`; `name` is what errors call it."""
    try:
        return Policy.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{name}: not TOML: {error}") from error
    except ValidationError as error:
        raise PolicyError(_describe(name, text, error)) from error


def _describe(name: str, text: str, error: ValidationError) -> str:
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"]]
    where = f"{name}{_line_of(text, path)}: {'.'.join(path) or 'policy'}"
    if problem["type"] != "extra_forbidden":
        return f"{where} = {problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"
    near = difflib.get_close_matches(path[-1], _keys(path[:-1]), n=1, cutoff=0.0)
    return f"{where}: no such key" + (f"; the nearest is `{near[0]}`" if near else "")


def _line_of(text: str, path: list[str]) -> str:
    """`:12` for the line that sets the key at `path`, or else what it lies in; nothing where no line does."""
    table: list[str] = []
    best = (0, 0)  # how much of the path, and minus the line, so that the first such line wins
    for number, line in enumerate(text.splitlines(), start=1):
        if found := HEADER.match(line):
            table = _parts(found[1])
        key = [] if found else _parts(line.partition("=")[0]) if "=" in line else [""]
        here = [*table, *key]
        if here == path[: len(here)]:
            best = max(best, (len(here), -number))
    return f":{-best[1]}" if best[0] else ""


def _parts(key: str) -> list[str]:
    """A TOML key by its parts: `act.checks."gpu lost"` has three."""
    return [part.strip(" \t\"'") for part in KEY_PART.findall(key)]


def _keys(path: list[str]) -> list[str]:
    fields: Mapping[str, Any] = Policy.model_fields
    for part in path:
        inner = fields[part].annotation if part in fields else None
        fields = inner.model_fields if isinstance(inner, type) and issubclass(inner, Section) else {}
    return list(fields)
