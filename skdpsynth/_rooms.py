"""All rooms of the package, imported at once when one is needed: ``import skdpsynth`` by itself loads none."""

from collections.abc import Callable

_openers: list[Callable[[], None]] = []


def open_by(opener: Callable[[], None]) -> None:
    """Remember what imports all rooms: the package itself, which stands above them and may name them all."""
    _openers[:] = [opener]


def open_rooms() -> None:
    """Import all rooms: the same ones whatever asks for them, a file that is loaded too."""
    for opener in _openers:
        opener()
