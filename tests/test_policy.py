"""The policy file: what is written reads back, and what is wrong is named with its line and its value."""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from guardctl.words import policy
from guardctl.words.errors import PolicyError
from guardctl.words.policy import Mode, Policy, Section
from guardctl.words.policy_text import render

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
MODES = st.sampled_from(get_args(Mode))
FLOAT_MAX = 1e12


def error_of(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        policy.parse(text, name="x.toml")
    return str(caught.value)


# --- every value there is, by its type and range --------------------------------------------------------------------


def values_of(info: FieldInfo) -> st.SearchStrategy[Any]:
    kind: Any = info.annotation
    limits = {
        key: getattr(each, key) for each in info.metadata for key in ("ge", "gt", "le", "lt") if hasattr(each, key)
    }
    pattern = next((each.pattern for each in info.metadata if getattr(each, "pattern", None)), None)
    if pattern is not None:
        return st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True)
    if isinstance(kind, type) and issubclass(kind, Section):
        return section(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is dict:
        return st.dictionaries(TEXTS, MODES, max_size=3)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        str: TEXTS,
        Path: TEXTS.map(Path),
        float: numbers(limits, st.floats),
        int: numbers(limits, st.integers),
        int | None: st.none() | numbers(limits, st.integers),
    }
    return plain[kind]


def numbers(limits: dict[str, Any], make: Any) -> st.SearchStrategy[Any]:
    low, high = limits.get("ge", limits.get("gt", 0)), limits.get("le", limits.get("lt", int(FLOAT_MAX)))
    found: st.SearchStrategy[Any] = make(low, high)
    return found.filter(lambda each: each not in {limits.get("gt"), limits.get("lt")})


def section(kind: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of its keys, with any value that fits."""
    fields = {name: values_of(info) for name, info in kind.model_fields.items()}
    return st.fixed_dictionaries({}, optional=fields).map(fitting)


def fitting(values: dict[str, Any]) -> dict[str, Any]:
    """The one rule between two keys."""
    if {"windows", "windows_slow"} & values.keys():
        values["windows"] = values.get("windows", 5)
        values["windows_slow"] = min(values.get("windows_slow", 4), values["windows"])
    return values


POLICIES = section(Policy).map(Policy.model_validate)


def test_the_defaults_read_back() -> None:
    assert policy.parse(render(Policy()), name="x") == Policy()
    assert policy.parse("", name="x") == Policy()


@given(POLICIES, st.lists(TEXTS.filter(lambda text: len(text.splitlines()) <= 1 and text.isprintable()), max_size=2))
def test_any_policy_reads_back(made: Policy, notes: list[str]) -> None:
    again = policy.parse(render(made, tuple(notes)), name="x")
    assert again == made
    assert again.digest == made.digest


@given(POLICIES, POLICIES)
def test_the_digest_tells_policies_apart(one: Policy, other: Policy) -> None:
    assert (one.digest == other.digest) == (one == other)


def leaves(kind: type[Section], *path: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, info in kind.model_fields.items():
        inner = info.annotation
        found += (
            leaves(inner, *path, name) if isinstance(inner, type) and issubclass(inner, Section) else [(*path, name)]
        )
    return found


def other_value(value: Any) -> Any:
    """A value near this one that is allowed, too."""
    if isinstance(value, bool):
        return not value
    if value is None:
        return 3
    if value == "observe":
        return "act"
    if isinstance(value, str | Path):
        return type(value)(f"{value}x")
    if isinstance(value, dict):
        return {"xid": "act"}
    return value + 1 if isinstance(value, int) else value * 0.99 + 0.003


@pytest.mark.parametrize("path", leaves(Policy), ids=".".join)
def test_the_digest_changes_with_every_key(path: tuple[str, ...]) -> None:
    wanted: dict[str, Any] = Policy().model_dump()
    table = wanted
    for name in path[:-1]:
        table = table[name]
    table[path[-1]] = other_value(table[path[-1]])
    if path[-1] == "windows_slow":
        table["windows"] = table["windows_slow"]
    assert Policy.model_validate(wanted).digest != Policy().digest


def test_every_key_says_what_it_is() -> None:
    text = render(Policy(), ("Made from a live Slurm.",))
    assert "# Made from a live Slurm." in text
    for path in leaves(Policy):
        found = re.search(rf"^# (.+)\n(?:# )?{path[-1]} =", text, re.MULTILINE)
        assert found, path
        assert len(found[1].split()) > 1, path


# --- what is wrong with a file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[judge]\nwindows = 5\n\nwindow = 60\n", "x.toml:4: judge.window: no such key; the nearest is `windows`"),
        ('state_dri = "/x"\n', "x.toml:1: state_dri: no such key; the nearest is `state_dir`"),
        ("# first\n[jugde]\nwindows = 5\n", "x.toml:2: jugde: no such key; the nearest is `judge`"),
        ("# first\n[ judge ] # speed\nwindwos = 5\n", "x.toml:3: judge.windwos: no such key; the nearest is `windows`"),
        ("act.mod = 'act'\n", "x.toml:1: act.mod: no such key; the nearest is `mode`"),
    ],
)
def test_an_unknown_key_names_the_nearest(text: str, said: str) -> None:
    assert error_of(text) == said


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("[observe]\nperiod_s = 0.0\n", "x.toml:2: observe.period_s = 0.0: ", "greater than or equal to 0.2"),
        ("[judge]\n\n  slow_fraction = 1.5", "x.toml:3: judge.slow_fraction = 1.5: ", "less than 1"),
        ('[act]\nmode = "drain"\n', "x.toml:2: act.mode = 'drain': ", "'observe', 'warn' or 'act'"),
        ('[act]\nmode = "act"\n[act.checks]\nxid = "no"\n', "x.toml:4: act.checks.xid = 'no': ", "'act'"),
        ('[act]\n\nchecks = { xid = "no" }\n', "x.toml:3: act.checks.xid = 'no': ", "'act'"),
        ("[sweep]\nseconds = nan\n", "x.toml:2: sweep.seconds = nan: ", "finite"),
        ("[act]\nwindow_s = inf\n", "x.toml:2: act.window_s = inf: ", "finite"),
        ("\nhook = 3\n", "x.toml:2: hook = 3: ", "dictionary"),
        ('[quarantine]\nreservation_prefix = "a-b"\n', "x.toml:2: quarantine.reservation_prefix = 'a-b': ", "pattern"),
        ("[judge]\nwindows_slow = 6\n", "x.toml:2: judge.windows_slow = 6: ", "over judge.windows = 5"),
        ("\n[judge]\nwindows = 3\n", "x.toml:2: judge.windows_slow = 4: ", "over judge.windows = 3"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_line(text: str, where: str, why: str) -> None:
    said = error_of(text)
    assert said.startswith(where)
    assert why in said.removeprefix(where)


def test_not_toml() -> None:
    said = error_of("[judge\nwindows = 5\n")
    assert said.startswith("x.toml: not TOML: ")
    assert "line 1" in said


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(PolicyError, match=re.escape(f"{path}: cannot be read")) as caught:
            policy.load(path)
        assert "guardctl init" in caught.value.hint
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'state_dir = "/srv/\xe9t\xe9"\n')
    with pytest.raises(PolicyError, match="cannot be read: 'utf-8'"):
        policy.load(latin)


def test_errors_name_the_file_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "guardctl.toml"
    path.write_text("command_deadline_s = 0\n")
    with pytest.raises(PolicyError, match=re.escape(f"{path}:1: command_deadline_s = 0: ")) as caught:
        policy.load(path)
    assert caught.value.exit_code == 2


def test_no_file_is_the_default_which_only_observes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "DEFAULT_PATH", tmp_path / "guardctl.toml")
    assert policy.load(None) == Policy()
    assert Policy().act.mode == "observe"
    (tmp_path / "guardctl.toml").write_text("[judge]\nwindows = 9\n")
    assert policy.load(None).judge.windows == 9
