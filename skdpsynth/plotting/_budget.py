"""Display of a privacy budget."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

from skdpsynth._validation import check_attributes
from skdpsynth.plotting._display import PALE, QUIET, SYNTHETIC, WARNING, Display, headline, panels, shorten, tidy

_MOST = 12  # lines
_MOST_OF_GROUP = 4  # a stream has a part for each of its blocks


@dataclass(eq=False, repr=False)
class BudgetDisplay(Display):
    """The expenses of a privacy budget, and the rest.

    Make it by `from_accountant`. A ledger tells nothing of the rows, so the picture is public.

    Parameters
    ----------
    names : tuple of str
        Names of the releases, in the order of the charges; equal names are one line, and so are many parts of a group.
    epsilons : tuple of float
        Increase of the spent epsilon by each.
    noises : tuple of str or None
        The noise, in words.
    epsilon, delta : float
        The budget.
    spent, spent_delta : float
    relation : str, default="replace_one"
        Under which the losses are stated.

    Attributes
    ----------
    ax_ : matplotlib Axes
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    skdpsynth.PrivacyAccountant.to_frame : The same as a table.

    Examples
    --------
    >>> from skdpsynth import PrivacyAccountant
    >>> from skdpsynth.plotting import BudgetDisplay
    >>> budget = PrivacyAccountant(2.0)
    >>> budget.spend(0.5, name="synthetic patients")
    >>> display = BudgetDisplay.from_accountant(budget)
    >>> display.names, display.epsilons
    (('synthetic patients',), (0.5,))
    >>> figure = display.plot().figure_
    """

    names: Any
    epsilons: Any
    noises: Any
    epsilon: Any
    delta: Any
    spent: Any
    spent_delta: Any
    relation: str = "replace_one"

    @classmethod
    def from_accountant(cls, accountant: Any) -> Self:
        """Return the display of a `PrivacyAccountant`, open or a record, such as ``accountant_`` of a fitted model."""
        check_attributes(
            "accountant", accountant, ("charges", "noise_of", "spent_delta"), "a PrivacyAccountant, such as accountant_ of a fit"
        )
        charges = list(accountant.charges())
        many = {group for group, n in Counter(entry.group for entry, *_ in charges).items() if group and n > _MOST_OF_GROUP}
        lines: dict[str, list[Any]] = {}
        for entry, epsilon, _ in charges:
            is_joined = entry.group in many
            line = lines.setdefault(entry.group if is_joined else entry.name, [0.0, {}, 0, "parts" if is_joined else "times"])
            line[0] += float(epsilon)
            line[1][accountant.noise_of(entry)] = None
            line[2] += 1
        names = tuple(name if line[2] == 1 else f"{name} ({line[2]} {line[3]})" for name, line in lines.items())
        noises = tuple("; ".join(words for words in line[1] if words) or None for line in lines.values())
        budget, spent = (float(accountant.epsilon), float(accountant.delta)), (float(accountant.spent), float(accountant.spent_delta))
        return cls(names, tuple(line[0] for line in lines.values()), noises, *budget, *spent, accountant.neighboring)

    def plot(self, ax: Any = None, *, title: str | None = None, **options: Any) -> Self:
        """Draw a bar for each release, where the one before ends, up to what was spent, and what remains.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place to draw. None: a new figure.
        title : str, default=None
        **options : dict
            Passed to ``Axes.barh``, for the bars of the expenses.

        Returns
        -------
        display : BudgetDisplay
            Itself.
        """
        lines = self._lines()
        axes, _ = panels(ax, (1, 1), (7.2, 0.42 * (len(lines) + 1) + 1.1))
        place = axes[0, 0]
        if math.isinf(self.spent):
            place.text(0.5, 0.5, "epsilon is infinite: no noise, not private", ha="center", va="center", color=WARNING)
            place.set_axis_off()
        else:
            self._draw(place, lines, {"color": SYNTHETIC, "height": 0.6, **options})
        headline(axes, None, title)
        return self._remember_axes(axes)

    def _lines(self) -> list[tuple[str, float, str | None]]:
        """Return (name, epsilon, noise) of each line, joining the small ones if there are too many."""
        lines = list(zip(self.names, self.epsilons, self.noises, strict=True))
        if len(lines) <= _MOST:
            return lines
        large = set(sorted(range(len(lines)), key=lambda i: -lines[i][1])[: _MOST - 1])
        kept = [line for i, line in enumerate(lines) if i in large]
        rest = [line for i, line in enumerate(lines) if i not in large]
        return [*kept, (f"{len(rest)} others", sum(line[1] for line in rest), None)]

    def _draw(self, ax: Any, lines: list[Any], style: dict[str, Any]) -> None:
        end = self.spent if math.isinf(self.epsilon) else max(self.epsilon, self.spent)
        reached, beyond = 0.0, 0.012 * end
        for place, (_, epsilon, noise) in enumerate(lines):
            ax.barh(place, epsilon, left=reached, **style)
            reached += epsilon
            start = reached - epsilon
            # Beside the bar where there is more room; in it, if it takes nearly all.
            free = {"after": end - reached, "before": start, "in": 0.7 * epsilon}
            where = max(free, key=lambda side: free[side])
            room = int(96 * free[where] / end) - 8  # about as many letters as that holds
            words = f"{epsilon:.3g}" + (f"   {shorten(noise, room)}" if noise and room > 8 else "")
            side = {"after": reached, "before": start - 2 * beyond, "in": start}[where] + beyond
            color = "white" if where == "in" else QUIET
            ax.text(side, place, words, ha="right" if where == "before" else "left", va="center", fontsize=7.5, color=color)
        names = [shorten(name, 34) for name, _, _ in lines]
        if not math.isinf(self.epsilon):
            self._draw_rest(ax, len(lines))
            names.append("remains")
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_ylim(len(names) - 0.5, -0.6)
        ax.set_xlim(0, end * 1.01)
        delta = f", delta {self.spent_delta:.3g} of {self.delta:.3g}" if self.delta else ""
        ax.set_xlabel(f"epsilon: {self.spent:.4g} of {self.epsilon:.4g} spent{delta} ({self.relation})", fontsize=8.5)
        ax.tick_params(labelsize=8)
        tidy(ax)

    def _draw_rest(self, ax: Any, place: int) -> None:
        rest = max(self.epsilon - self.spent, 0.0)
        is_nothing = rest < 1e-5 * self.epsilon  # conversions to epsilon leave a small rest
        if not is_nothing:
            ax.barh(place, rest, left=self.spent, height=0.6, color=PALE, edgecolor="0.6", linewidth=0.6)
        is_narrow = rest < 0.08 * self.epsilon
        words, side = "nothing" if is_nothing else f"{rest:.3g}", self.spent - 0.012 * self.epsilon if is_narrow else self.spent + rest / 2
        ax.text(side, place, words, ha="right" if is_narrow else "center", va="center", fontsize=7.5, color=QUIET)
        ax.axvline(self.epsilon, color=QUIET, linewidth=1)
