"""Command line: from a CSV file to synthetic rows, with a ledger and a card, without a line of Python."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `skdpsynth`, and exit with its code.

    It needs click, so ``pip install 'skdpsynth[cli]'``.

    Parameters
    ----------
    arguments : sequence of str, default=None
        None: those of the process.

    Raises
    ------
    SystemExit
        Always. 0: all went well; 1: a check found something; 2: wrong usage or input; 130: interrupted.
    """
    try:
        from skdpsynth.cli._program import program
    except ImportError as error:
        if error.name != "click":
            raise
        print("Error: The command line needs the package click; run pip install 'skdpsynth[cli]'.", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    program.main(arguments, prog_name="skdpsynth")
