"""A sweep as a value, and its file `<state>/sweeps/<id>/sweep.json`, replaced as a whole after every step."""

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from guardctl.sweep.blame import Outcome, Result
from guardctl.words.errors import GuardError
from guardctl.words.records import Level

VERSION = 1
FILE = "sweep.json"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Stage(StrEnum):
    """What a sweep does now."""

    GEMM = "gemm"
    PAIRS = "pairs"
    DONE = "done"


class Phase(StrEnum):
    """How far one test is. LOST: it ended, or never began, without us knowing how; CANCELLED: by a person."""

    PLANNED = "planned"
    SUBMITTED = "submitted"
    ENDED = "ended"
    LOST = "lost"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Test:
    """One batch job of a sweep: one node alone, or two together. `words`: how it ended, if not well."""

    name: str
    nodes: tuple[str, ...]
    round: int = 0  # 0: alone
    attempt: int = 1  # 2: alone again, because the first was slow
    phase: Phase = Phase.PLANNED
    job_id: str | None = None
    words: str = ""
    since_at: datetime | None = None  # in this phase

    @property
    def over(self) -> bool:
        """Nothing more will come of it."""
        return self.phase in {Phase.ENDED, Phase.LOST, Phase.CANCELLED}


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep from its start to its outcomes.

    `nodes`: the suspects, one outcome each in the end. `partners`: idle healthy nodes; `partner_outcomes` is what the
    sweep happened to learn about them. `kinds`: kinds of signal behind each suspect. `baselines`: as
    `guardctl.sweep.baseline.Baselines`, taken at the start so that the judgement can be repeated from the file.
    `collected`: whoever asked has the outcomes.
    """

    id: str
    nodes: tuple[str, ...]
    partners: tuple[str, ...]
    reservation: str
    started_at: datetime
    deadline_at: datetime
    stage: Stage = Stage.GEMM
    round: int = 0
    tests: tuple[Test, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    partner_outcomes: tuple[Outcome, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    baselines: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    collected: bool = False

    @property
    def done(self) -> bool:
        """It has its outcomes."""
        return self.stage is Stage.DONE

    @property
    def everybody(self) -> tuple[str, ...]:
        """Suspects, then partners."""
        return (*self.nodes, *self.partners)

    def with_test(self, test: Test) -> "Sweep":
        """The same sweep with `test` in place of the one of its name."""
        return replace(self, tests=tuple(test if each.name == test.name else each for each in self.tests))


def new_id(now: datetime) -> str:
    """A short id, in the order of time: seconds since 2024 in base 36, and two random characters."""
    seconds, word = int(now.timestamp()) - 1_704_067_200, ""
    while seconds > 0:
        seconds, digit = divmod(seconds, len(DIGITS))
        word = DIGITS[digit] + word
    return word + "".join(secrets.choice(DIGITS) for _ in range(2))


# --- the file -------------------------------------------------------------------------------------------------------


def folder_of(state_dir: Path, sweep_id: str) -> Path:
    """Where a sweep's files lie."""
    return state_dir / "sweeps" / sweep_id


def save(sweep: Sweep, state_dir: Path) -> Sweep:
    """The same sweep, written so that a reader sees the old file or the new one. Raises GuardError if it cannot be."""
    path = folder_of(state_dir, sweep.id) / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            file.write(to_json(sweep))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise GuardError(f"{path}: cannot be written: {error}", hint="look at policy state_dir and its disk") from error
    return sweep


def load(state_dir: Path, sweep_id: str) -> Sweep:
    """The sweep with that id. Raises GuardError, naming the file, if there is none or it cannot be read."""
    path = folder_of(state_dir, sweep_id) / FILE
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GuardError(f"{path}: no such sweep: {error.strerror}", hint="`guardctl sweep show` lists them") from error
    except (ValueError, KeyError, TypeError) as error:
        raise GuardError(f"{path}: cannot be read: {error}", hint="move its folder away and sweep again") from error


def ids(state_dir: Path) -> list[str]:
    """The ids of all sweeps, the oldest first."""
    return [path.parent.name for path in sorted((state_dir / "sweeps").glob(f"*/{FILE}"))]


def to_json(sweep: Sweep) -> str:
    """A sweep as JSON."""
    return json.dumps({"version": VERSION, **asdict(sweep)}, default=_plain, indent=1)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} has no place in JSON")


def from_json(text: str) -> Sweep:
    """The sweep that `to_json` wrote. Raises ValueError, KeyError or TypeError."""
    data = json.loads(text)
    if data.pop("version") != VERSION:
        raise ValueError("written by another version of guardctl")
    return Sweep(**{
        **data,
        "nodes": tuple(data["nodes"]),
        "partners": tuple(data["partners"]),
        "stage": Stage(data["stage"]),
        "tests": tuple(_test(each) for each in data["tests"]),
        "outcomes": _outcomes(data["outcomes"]),
        "partner_outcomes": _outcomes(data["partner_outcomes"]),
        "kinds": {node: tuple(kinds) for node, kinds in data["kinds"].items()},
        "baselines": {key: tuple(values) for key, values in data["baselines"].items()},
        "started_at": datetime.fromisoformat(data["started_at"]),
        "deadline_at": datetime.fromisoformat(data["deadline_at"]),
    })  # fmt: skip


def _test(data: Mapping[str, Any]) -> Test:
    since_at = datetime.fromisoformat(data["since_at"]) if data["since_at"] else None
    return Test(**{**data, "nodes": tuple(data["nodes"]), "phase": Phase(data["phase"]), "since_at": since_at})


def _outcomes(data: Iterable[Mapping[str, Any]]) -> tuple[Outcome, ...]:
    return tuple(
        Outcome(**{**each, "result": Result(each["result"]), "level": Level(each["level"]),
                   "evidence": tuple(each["evidence"])})
        for each in data
    )  # fmt: skip
