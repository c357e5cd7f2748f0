"""The policy as a commented TOML file: every key, its unit, range and source, so that the file explains itself."""

import json
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from guardctl.words.policy import Policy, Section

TITLE = "# The policy of guardctl. Every key may be left out; an unknown key is an error."


def render(policy: Policy, notes: tuple[str, ...] = ()) -> str:
    """The TOML text of `policy`, with `notes` as comment lines on top; `policy.parse` reads it back."""
    top = [TITLE, *(f"# {note}" for note in notes), ""]
    plain = [_key(name, info, policy) for name, info in Policy.model_fields.items() if not _is_section(info)]
    tables = [_table(name, getattr(policy, name)) for name, info in Policy.model_fields.items() if _is_section(info)]
    return "\n".join([*top, *plain, "", *tables])


def _is_section(info: FieldInfo) -> bool:
    return isinstance(info.annotation, type) and issubclass(info.annotation, Section)


def _table(name: str, section: Section) -> str:
    doc = (type(section).__doc__ or "").strip().splitlines()[0]
    keys = [_key(key, info, section) for key, info in type(section).model_fields.items()]
    return "\n".join([f"# {doc.partition(chr(58))[2].strip()}", f"[{name}]", *keys, ""])


def _key(name: str, info: FieldInfo, section: Section) -> str:
    value = getattr(section, name)
    comment = f"# {info.description}{_range(info)}"
    if value is None:
        return f"{comment}\n# {name} ="
    return f"{comment}\n{name} = {_value(value)}"


def _range(info: FieldInfo) -> str:
    """`[0.1 .. 60]` from the field's bounds; empty where there are none."""
    low = next((getattr(each, key) for each in info.metadata for key in ("ge", "gt") if hasattr(each, key)), None)
    high = next((getattr(each, key) for each in info.metadata for key in ("le", "lt") if hasattr(each, key)), None)
    if low is None and high is None:
        return ""
    return f" [{'' if low is None else f'{low:g} '}..{'' if high is None else f' {high:g}'}]"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{_value(key)} = {_value(each)}" for key, each in value.items()) + " }" if value else "{}"
        )
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # the one character that JSON takes as it is and TOML does not
