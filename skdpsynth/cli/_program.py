"""The program `skdpsynth` with all its commands."""

import sys
from functools import partial
from typing import Any

import click

from skdpsynth._version import __version__
from skdpsynth.cli._audit import audit
from skdpsynth.cli._budget import budget
from skdpsynth.cli._evaluate import evaluate
from skdpsynth.cli._exit_codes import run_command
from skdpsynth.cli._impute import impute
from skdpsynth.cli._interval import interval
from skdpsynth.cli._models import card, sample
from skdpsynth.cli._plan import plan
from skdpsynth.cli._schema import schema
from skdpsynth.cli._synthesize import synthesize


class Program(click.Group):
    """A group of commands whose errors are one sentence without a traceback."""

    def main(self, args: Any = None, prog_name: Any = None, complete_var: Any = None, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run and exit with a code; without `standalone_mode` return and raise, as click does."""
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        return sys.exit(run_command(run)) if standalone_mode else run()


@click.group(cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="skdpsynth", message="%(prog)s %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """Differentially private synthetic tables.

    From a CSV or Parquet file: write a schema (schema init), fill in what is public, check it (schema check), and synthesize. INPUT is a
    file, a folder or a pattern; "-" is standard input or output. Exit codes: 0 fine, 1 a check found something, 2 wrong usage or input,
    130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (schema, synthesize, sample, impute, interval, budget, plan, evaluate, audit, card):
    program.add_command(command)
