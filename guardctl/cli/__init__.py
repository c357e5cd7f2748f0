"""The commands. The only room that prints or exits; each command is one short function over the other rooms.

Errors are caught here, once: the message goes to stderr with what to do next, and its class gives the exit code.
"""

import sys


def main() -> None:
    """Run `guardctl`."""
    from guardctl.cli.app import app
    from guardctl.words.errors import GuardError

    try:
        app(prog_name="guardctl")
    except GuardError as error:
        sys.stderr.write(f"guardctl: {error}\n")
        if error.hint:
            sys.stderr.write(f"  try: {error.hint}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as with `| head`: not our failure
        sys.exit(141)
