"""Host lists in Slurm's form, to names and back.

In: `n[1-3,07]`, or names. Out: names, or the short form.

Folding is ClusterShell's. Expanding is done here, by Slurm's own grammar and in Slurm's order, because ClusterShell
refuses four things that Slurm accepts (`n[01-100]`, `n[1-2][3-4]`, `nid[00001-5]`, empty items), reads `@ ! & ^ /` as
operators of its own, and sorts.
"""

import itertools
import math
import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from guardctl.words.errors import InputError

PLACEHOLDERS = frozenset({"", "(null)", "n/a", "none", "none assigned", "null"})
MAX_NAMES = 1_000_000  # more than Slurm has ever managed: a slip, not a cluster
TERMS = re.compile(r"(?:[^,\[]|\[[^\]]*\])+|\[")  # what stands between the commas that are outside brackets
PARTS = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand(text: str) -> tuple[str, ...]:
    """The names that a host list stands for, in its order, each once.

    A placeholder such as "None assigned" or "(null)" stands for no host. A second number is written as wide as the
    first, as Slurm does: `n[01-100]` is n01 ... n100. Raises InputError that names the faulty part.
    """
    if text.strip().lower() in PLACEHOLDERS:
        return ()
    names: dict[str, None] = {}
    for term in TERMS.findall(text):
        if term.strip():
            names.update(dict.fromkeys(_expand_term(term.strip(), text)))
        if len(names) > MAX_NAMES:
            raise InputError(f"host list {_short(text)}: more than {MAX_NAMES} names")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """The shortest host list of these names that Slurm reads; duplicates fall together, the order is sorted.

    Only the last number of a name is folded, and only where it ends the name: Slurm refuses `n[1-2]-ipmi` and
    `x[1-2]y1`, but prints nothing and exits 0 for them.
    """
    unique = sorted({check_name(name) for name in names})
    numbered = [name for name in unique if name[-1].isdigit() and not name.isdigit()]
    nodes = NodeSet.fromlist(numbered, resolver=RESOLVER_NOGROUP)
    nodes.fold_axis = (-1,)
    plain = [name for name in unique if not (name[-1].isdigit() and not name.isdigit())]
    return ",".join([text for text in (str(nodes), *plain) if text])


def check_name(name: str) -> str:
    """The name itself, if it can be one node's: no host list, no blank, no option, not Slurm's word ALL."""
    if not NAME.fullmatch(name) or name.upper() == "ALL":
        raise InputError(f"{name!r} is not the name of one node")
    return name


def _expand_term(term: str, text: str) -> list[str]:
    choices: list[list[str]] = []
    position = 0
    for match in PARTS.finditer(term):
        if match.start() != position:
            break
        inner, plain = match.groups()
        choices.append([plain] if inner is None else _numbers(inner, term, text))
        position = match.end()
    if position != len(term):
        raise InputError(f"host list {_short(text)}: brackets do not match in {_short(term)}")
    if math.prod(map(len, choices)) > MAX_NAMES:
        raise InputError(f"host list {_short(text)}: {_short(term)} is more than {MAX_NAMES} names")
    return [_name(parts, term, text) for parts in itertools.product(*choices)]


def _name(parts: Iterable[str], term: str, text: str) -> str:
    name = "".join(parts)
    if not NAME.fullmatch(name):
        raise InputError(f"host list {_short(text)}: {_short(term)} is not a host name")
    return name


def _numbers(inner: str, term: str, text: str) -> list[str]:
    numbers: list[str] = []
    for item in inner.split(","):
        match = RANGE.fullmatch(item.strip())
        if match is None:
            why = "a step is ClusterShell's form, not Slurm's" if "/" in item else "not a number or a range"
            raise InputError(f"host list {_short(text)}: {item!r} in {_short(term)}: {why}")
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if not 0 < count <= MAX_NAMES:
            why = "runs backwards" if count < 1 else f"more than {MAX_NAMES} names"
            raise InputError(f"host list {_short(text)}: {item!r} in {_short(term)}: {why}")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
