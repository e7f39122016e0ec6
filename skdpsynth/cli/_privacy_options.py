"""Privacy options, and the ledger that a run charges."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from skdpsynth.cli._output import Voice

RELATIONS = ("replace_one", "add_or_remove_one")


_PRIVACY_OPTIONS = (  # as the help lists them, the last first
    click.option(
        "--neighboring",
        type=click.Choice(RELATIONS),
        default=RELATIONS[0],
        show_default=True,
        help="Is the number of rows public (replace_one), or private (add_or_remove_one)?",
    ),
    click.option(
        "--delta",
        type=float,
        default=0.0,
        show_default=True,
        help="Above 0, such as 1e-6, most noise is Gaussian, and much smaller for many columns.",
    ),
    click.option("--epsilon", type=float, required=True, help="The whole budget; a smaller one protects more. 1 is common."),
)


def add_privacy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in _PRIVACY_OPTIONS:
        command = option(command)
    return command


def open_ledger(path: str | None, epsilon: float, delta: float, neighboring: str) -> Any:
    """Open a ledger that can pay for a run, and refuse any other before a row is read."""
    if path is None:
        return None
    from skdpsynth.exceptions import BudgetExceededError
    from skdpsynth.privacy import PrivacyAccountant

    accountant = PrivacyAccountant.at(path)
    if accountant.neighboring != neighboring:
        raise ValueError(
            f"--neighboring must be that of the ledger {path}, {accountant.neighboring!r}, got {neighboring!r}; use one relation."
        )
    # The plan of the fit decides which of these it is charged as, and the fit asks again before it draws.
    refused = []
    for rho in (None, "gaussian", "zcdp") if delta else (None,):
        try:
            accountant.check_affordable(epsilon, delta, name="synthesize", rho=rho)
            return accountant
        except (BudgetExceededError, ValueError) as error:
            refused.append(error)
    raise refused[0]


@contextmanager
def report_charges(accountant: Any, path: str | None, voice: Voice) -> Iterator[None]:
    """Print the charges of a run that breaks; they stay, because noise may have been seen."""
    from skdpsynth.exceptions import BudgetExceededError

    before: Any = accountant and accountant.spent
    try:
        yield
    except BaseException as error:
        # A refused run was charged nothing: others spent the difference.
        if accountant is not None and accountant.spent > before and not isinstance(error, BudgetExceededError):
            click.echo(
                f"The budget {path} was charged before the run broke, and stays so: spent epsilon {float(before):g} before, "
                f"{float(accountant.spent):g} of {float(accountant.epsilon):g} now.",
                err=True,
            )
        raise
