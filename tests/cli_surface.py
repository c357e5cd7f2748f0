"""The surface of the command line as text: every command, its arguments and its options.

What scripts of other people rest on. `tests/cli_surface.txt` holds it as it is promised; a change on purpose is made by

    python -m tests.cli_surface > tests/cli_surface.txt

and goes to the change log.
"""

from collections.abc import Iterator
from typing import Any

import typer

HEAD = "# Made by: python -m tests.cli_surface > tests/cli_surface.txt"


def commands() -> list[tuple[str, Any]]:
    """The words of every command and group, and what click made of it."""
    from guardctl.cli.app import app

    return list(_walk("guardctl", typer.main.get_command(app)))


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _walk(f"{words} {name}", inner)


def text() -> str:
    """The surface, a block per command."""
    blocks = ("\n".join([words, *map(_line, command.params)]) for words, command in commands())
    return "\n\n".join([HEAD, *blocks]) + "\n"


def _line(parameter: Any) -> str:
    """`    --nodes -N integer, required`."""
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [parameter.name.upper()]
    kind = "flag" if getattr(parameter, "is_flag", False) else "count" if getattr(parameter, "count", False) else ""
    kind = kind or "|".join(map(str, getattr(parameter.type, "choices", ()))) or parameter.type.name.split()[0]
    return f"    {' '.join(names)} {kind}{', required' if parameter.required else ''}"


if __name__ == "__main__":
    typer.echo(text(), nl=False)
