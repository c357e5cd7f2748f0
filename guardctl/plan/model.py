"""A model's cost and memory constants, and today's uniform plan, from a TOML file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardctl.words.errors import InputError

HINT = "the file needs the tables [model], [parallel], [tensor_slowdown] and [memory]"


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory per GPU of a full TP group, in MB. `per_layer_mb`: first ... last stage, the last entry is the last stage.

    Earlier stages keep more micro-batches alive, so a layer costs them more; `embedding_mb` is on the first and last.
    """

    per_layer_mb: tuple[float, ...]
    embedding_mb: float
    extra_mb: float
    bound_mb: float
    gap_mb: float


@dataclass(frozen=True, slots=True)
class Model:
    """Constants of one model on one kind of GPU. `slowdown` is rho: TP group size -> time relative to a full group."""

    num_layers: int
    num_micro_batches: int  # of all pipelines together
    data: int
    tensor: int
    pipeline: int
    gpus_per_node: int
    slowdown: Mapping[int, float]
    memory: Memory

    @property
    def max_stages(self) -> int:
        """The longest pipeline whose memory is known."""
        return len(self.memory.per_layer_mb)


def load(path: Path) -> Model:
    """The model in the file at `path`. Raises `InputError` with the file, the key and the value."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}", hint=HINT) from error
    return parse(text, name=str(path))


def parse(text: str, *, name: str) -> Model:
    """The model in TOML `text`; `name` is what errors call it."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: not TOML: {error}", hint=HINT) from error
    file = _File(name, text, table)
    parallel = {key: file.count("parallel", key) for key in ("data", "tensor", "pipeline", "gpus_per_node")}
    return Model(
        num_layers=file.count("model", "layers"), num_micro_batches=file.count("model", "micro_batches"),
        slowdown=_slowdown(file, parallel["tensor"], parallel["gpus_per_node"]), memory=_memory(file), **parallel,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    text: str
    table: Mapping[str, Any]

    def value(self, section: str, key: str) -> Any:
        if section not in self.table or key not in self.table[section]:
            raise InputError(f"{self.name}: [{section}] {key} is missing", hint=HINT)
        return self.table[section][key]

    def count(self, section: str, key: str) -> int:
        value = self.value(section, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(section, key, value, "a whole number of at least 1")
        return value

    def number(self, section: str, key: str) -> float:
        return self.checked(section, key, self.value(section, key))

    def checked(self, section: str, key: str, value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
            raise self.wrong(section, key, value, "a number of at least 0")
        return float(value)

    def wrong(self, section: str, key: str, value: object, wanted: str) -> InputError:
        lines = (number for number, line in enumerate(self.text.splitlines(), 1) if line.split("=")[0].strip() == key)
        line = next(lines, None)
        place = f":{line}" if line else ""
        return InputError(f"{self.name}{place}: [{section}] {key} = {value!r}: must be {wanted}")


def _slowdown(file: _File, tensor: int, gpus_per_node: int) -> dict[int, float]:
    """Rho by size; sizes are whole numbers up to a node, the full size `tensor` is among them and has rho 1."""
    table = file.table.get("tensor_slowdown", {})
    if not isinstance(table, Mapping) or str(tensor) not in table:
        raise InputError(f"{file.name}: [tensor_slowdown] has no entry for parallel.tensor = {tensor}", hint=HINT)
    for key in table:
        if not key.isdecimal() or not 1 <= int(key) <= gpus_per_node:
            raise file.wrong("tensor_slowdown", key, table[key], f"for 1 to {gpus_per_node} GPUs of one node")
        if file.checked("tensor_slowdown", key, table[key]) < 1:
            raise file.wrong("tensor_slowdown", key, table[key], "at least 1: a full group is the fastest")
    if table[str(tensor)] != 1:
        raise file.wrong("tensor_slowdown", str(tensor), table[str(tensor)], "1: it is the unit")
    return {int(key): float(value) for key, value in table.items()}


def _memory(file: _File) -> Memory:
    layers = file.value("memory", "per_layer")
    if not isinstance(layers, list) or not layers:
        raise file.wrong("memory", "per_layer", layers, "a list of numbers, one per stage")
    per_layer_mb = tuple(file.checked("memory", "per_layer", value) for value in layers)
    if min(per_layer_mb) <= 0:
        raise file.wrong("memory", "per_layer", layers, "a list of numbers over 0")
    embedding_mb, extra_mb, bound_mb, gap_mb = (
        file.number("memory", key) for key in ("embedding", "extra", "bound", "gap")
    )
    return Memory(per_layer_mb, embedding_mb, extra_mb, bound_mb, gap_mb)
