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
    """`    --nodes -N VALUE, required`; only what every release of typer can tell."""
    if parameter.param_type_name == "argument":
        return f"    {parameter.name.upper()}{'' if parameter.required else ', optional'}"
    takes = "" if parameter.is_flag or parameter.count else " VALUE"
    return f"    {' '.join((*parameter.opts, *parameter.secondary_opts))}{takes}{', required' * parameter.required}"


if __name__ == "__main__":
    typer.echo(text(), nl=False)
