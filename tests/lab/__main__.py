"""The lab by hand: `python -m tests.lab up`, then try things, then `python -m tests.lab down`."""

import argparse
import os
import sys
import time
from collections.abc import Callable

from tests.lab import cgroups, faults, layout, teardown
from tests.lab.errors import LabError
from tests.lab.lab import Lab

DEFAULT_NAME = "lab"

TRY = """\
Lab {name}: {nodes} nodes with {gpus} GPUs each, ready after {seconds:.1f} s. It stays until: {me} down{option}

  export SLURM_CONF={path}/etc/slurm.conf      # sinfo, squeue, scontrol, ... as the operator

Try:
  sinfo -N -l
  {me} exec{option} --user nobody -- sbatch -N2 --gres=gpu:1 --wrap 'srun hostname'
  {me} fault{option} n1 slow-cpu=0.5
  {me} fault{option} n1 gpu=throttle:1
  {me} fault{option} n2 slow-link=50mbit
  {me} status{option}
  {me} shell{option} n1
  {me} heal{option} n1

Logs, home of the jobs and state: {path}/{{log,home,state}}
Faults: {faults}
"""
ME = "python -m tests.lab"


def say(text: str) -> None:
    """Data goes to standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def up(args: argparse.Namespace) -> int:
    """Starts a lab that stays."""
    began = time.monotonic()
    lab = Lab.start(args.nodes, args.gpus, args.name, switches=args.switches, stays=True)
    option = "" if args.name == DEFAULT_NAME else f" --name {args.name}"
    say(TRY.format(
        name=lab.name, nodes=args.nodes, gpus=args.gpus, path=lab.path, me=ME, option=option,
        faults=faults.HELP, seconds=time.monotonic() - began,
    ))  # fmt: skip
    return 0


def down(args: argparse.Namespace) -> int:
    """Takes a lab away, or all of them; nothing to do is no error."""
    labs = [plan for plan in layout.running() if args.all or plan.name == args.name]
    for plan in labs:
        teardown.teardown(plan.name, plan.number)
    say(f"taken away: {', '.join(plan.name for plan in labs) or 'nothing, no such lab runs'}")
    return 0


def status(args: argparse.Namespace) -> int:
    """Prints one line per node: Slurm's state, share of a processor, faults."""
    lab = Lab.attach(args.name)
    states = _slurm_states(lab)
    say(f"{'NODE':<6} {'STATE':<12} {'CORES':<7} FAULTS")
    for node in lab.nodes:
        share = cgroups.share_of(lab.node_cgroup(node))
        say(f"{node:<6} {states.get(node, 'unknown'):<12} {share:<7.3g} {', '.join(lab.faults(node)) or '-'}")
    return 0


def _slurm_states(lab: Lab) -> dict[str, str]:
    done = lab.run(["sinfo", "-h", "-N", "-o", "%N %T"], check=False)
    if done.returncode != 0:
        sys.stderr.write(f"slurmctld does not answer: {done.stderr.strip()}\n")
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def fault(args: argparse.Namespace) -> int:
    """Adds a fault to a node."""
    Lab.attach(args.name).fault(args.node, args.fault)
    return 0


def heal(args: argparse.Namespace) -> int:
    """Takes all faults from a node."""
    Lab.attach(args.name).heal(args.node)
    return 0


def shell(args: argparse.Namespace) -> int:
    """Becomes a shell on the node, or on the host as the lab's operator sees it."""
    args.command = ["env", f"PS1={args.node or 'login'}@{args.name}# ", "bash", "--norc"]
    return execute(args)


def execute(args: argparse.Namespace) -> int:
    """Becomes the given command, in the lab."""
    if not args.command:
        raise LabError("exec what? python -m tests.lab exec [--node n1] [--user nobody] -- COMMAND ...")
    lab = Lab.attach(args.name)
    argv = lab.argv(args.command, args.node, args.user)
    os.execvpe(argv[0], argv, lab.env)  # noqa: S606 - this process is to become the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=ME, description="A real Slurm cluster on this machine, with faults on request."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        sub.add_argument("--name", default=DEFAULT_NAME, help="the lab's name (default: %(default)s)")
        sub.set_defaults(run=run)
        return sub

    start = command("up", up)
    start.add_argument("--nodes", type=int, default=8, help="1 to 64 (default: %(default)s)")
    start.add_argument("--gpus", type=int, default=2, help="per node (default: %(default)s)")
    start.add_argument("--switches", type=int, default=0, help="leaf switches for topology/tree (default: none)")
    command("down", down).add_argument("--all", action="store_true", help="every lab on this machine")
    command("status", status)
    broken = command("fault", fault)
    broken.add_argument("node", metavar="NODE")
    broken.add_argument("fault", metavar="FAULT", help=faults.HELP)
    command("heal", heal).add_argument("node", metavar="NODE")
    inside = command("shell", shell)
    inside.add_argument("node", nargs="?", metavar="NODE")
    other = command("exec", execute)
    other.add_argument("--node", metavar="NODE")
    other.add_argument("command", nargs="*", metavar="COMMAND")
    for sub in (inside, other):
        sub.add_argument("--user", help="an ordinary user, such as nobody")
    return parser


def main() -> int:
    """Runs one command; what goes wrong is said in one place."""
    args = _parser().parse_args()
    try:
        return int(args.run(args))
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
