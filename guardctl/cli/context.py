"""What every command needs, made when first asked for: the policy, the ledger, the door to Slurm, the console."""

import json
import os
import pwd
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from guardctl import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from guardctl.act.perform import World
    from guardctl.cluster.slurm import SlurmCommands
    from guardctl.ledger.store import Ledger
    from guardctl.words.policy import Policy


def utc_now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


@dataclass
class Context:
    """The lazily made parts that commands share; `config_path` None: the usual place, or the defaults."""

    config_path: Path | None = None

    @cached_property
    def policy(self) -> "Policy":
        """The policy file, validated."""
        from guardctl.words import policy

        return policy.load(self.config_path)

    @cached_property
    def ledger(self) -> "Ledger":
        """The ledger, opened and up to date."""
        from guardctl.ledger.store import Ledger

        return Ledger.open(self.policy.ledger_url)

    def close(self) -> None:
        """Give the ledger's connections back, if it was opened."""
        if "ledger" in self.__dict__:
            self.ledger.close()

    @cached_property
    def cluster(self) -> "SlurmCommands":
        """Slurm, by its commands."""
        from guardctl.cluster.slurm import SlurmCommands

        return SlurmCommands(deadline_s=self.policy.command_deadline_s)

    def world(self, *, act: bool | None = None) -> "World":
        """What acting needs; `act` takes the place of the policy's act.mode for this run."""
        from guardctl.act.perform import World

        policy = self.policy
        if act is not None:
            changed = policy.act.model_copy(update={"mode": "act" if act else "observe"})
            policy = policy.model_copy(update={"act": changed})
        return World(self.cluster, self.ledger, policy, utc_now, user_name(), socket.gethostname(), __version__)

    def refuse_if_stopped(self) -> None:
        """Raises GuardError while the kill switch is on: every part obeys it, also a person's own command."""
        from guardctl.words.errors import GuardError

        switch = self.policy.kill_switch
        if switch.exists():
            raise GuardError(f"the kill switch is on ({switch}): nothing in Slurm is changed", hint=f"rm {switch}")

    @cached_property
    def out(self) -> "Console":
        """Where tables go: stdout."""
        from rich.console import Console

        return Console()

    @cached_property
    def err(self) -> "Console":
        """Where words for the person go: stderr, so that stdout stays data."""
        from rich.console import Console

        return Console(stderr=True)


def of(ctx: typer.Context) -> Context:
    """The shared parts of this run."""
    if not isinstance(ctx.obj, Context):
        raise TypeError("the command was called without its context")
    return ctx.obj


def user_name() -> str:
    """The login name of whoever runs this, as Slurm will write it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")
