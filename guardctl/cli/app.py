"""The command line: which commands there are. Rooms are imported inside the commands, so that --help stays quick."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from guardctl import __version__
from guardctl.cli import (
    commands_agent,
    commands_look,
    commands_monitor,
    commands_people,
    commands_plan,
    commands_setup,
    commands_store,
    commands_sweep,
)
from guardctl.cli.context import Context

HELP = """Keep slow and sick nodes out of large GPU training jobs on Slurm.

Start with `guardctl init` and `guardctl doctor`. A new install only observes: it drains nothing until the policy says
`act.mode = "act"`.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for module in (commands_setup, commands_agent, commands_monitor, commands_look, commands_people, commands_plan):
    module.register(app)
app.add_typer(commands_sweep.app, name="sweep")
app.add_typer(commands_plan.app, name="plan")
app.add_typer(commands_store.app, name="ledger")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"guardctl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", envvar="GUARDCTL_CONFIG", help="Policy file.", show_default=False)
    ] = None,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="More on stderr; twice: still more.")] = 0,
    version: Annotated[  # noqa: ARG001 - its callback is all it does
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    ctx.obj = Context(config_path=config)
    ctx.call_on_close(ctx.obj.close)
