"""One lab as a value: its names, numbers and folders. Everything else about it follows from here."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab.errors import LabError

ROOT = Path("/tmp")  # not /run: a library cannot be loaded from a file system that is mounted noexec
PREFIX = "guardctl-lab-"
CONTROL_GROUPS = ("control", "munge", "login")
HOST_OCTET = 254  # the controller's address ends in this; nodes end in their number
MAX_NODES = 64
MAX_GPUS = 16
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Names, numbers and folders of one lab. `number` (0-254) is its own: subnet, bridge and port come from it."""

    name: str
    number: int
    num_nodes: int
    num_gpus: int
    cores: int
    hostname: str
    checkout: str
    venv: str
    switches: int = 0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise LabError(f"lab name {self.name!r}: 1 to 32 small letters, digits and dashes, please")
        if not 1 <= self.num_nodes <= MAX_NODES:
            raise LabError(f"a lab has 1 to {MAX_NODES} nodes, not {self.num_nodes}")
        if not 0 <= self.num_gpus <= MAX_GPUS:
            raise LabError(f"a node has 0 to {MAX_GPUS} GPUs, not {self.num_gpus}")

    @property
    def path(self) -> Path:
        return folder(self.name)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"n{i}" for i in range(1, self.num_nodes + 1))

    @property
    def share(self) -> float:
        """Share of one processor for each healthy node: 80 % of the machine split evenly, at most half a core."""
        return min(0.5, 0.8 * self.cores / self.num_nodes)

    @property
    def bridge(self) -> str:
        return bridge(self.number)

    @property
    def controller_address(self) -> str:
        return f"10.77.{self.number}.{HOST_OCTET}"

    @property
    def controller_port(self) -> int:
        return 21_700 + self.number

    @property
    def groups(self) -> tuple[str, ...]:
        return (*CONTROL_GROUPS, *self.nodes)

    def address(self, node: str) -> str:
        return f"10.77.{self.number}.{node[1:]}"

    def veth(self, node: str) -> str:
        """The host's end of the node's network cable."""
        return f"{self.bridge}{node}"

    def node(self, node: str) -> Path:
        return self.path / "nodes" / node

    def save(self) -> None:
        (self.path / "lab.json").write_text(json.dumps(asdict(self)))


def folder(name: str) -> Path:
    """Where the lab of this name keeps everything that is a file."""
    return ROOT / f"{PREFIX}{name}"


def bridge(number: int) -> str:
    return f"glab{number}"


def load(path: Path) -> Layout:
    return Layout(**json.loads((path / "lab.json").read_text()))


def running() -> list[Layout]:
    """Every lab on this machine."""
    return [load(file.parent) for file in sorted(ROOT.glob(f"{PREFIX}*/lab.json"))]
