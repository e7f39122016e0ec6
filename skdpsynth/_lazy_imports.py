"""All rooms of the package, imported at once when one is needed: ``import skdpsynth`` by itself loads none."""

from collections.abc import Callable

_importers: list[Callable[[], None]] = []


def register_importer(opener: Callable[[], None]) -> None:
    """Remember what imports all rooms: the package itself, which stands above them and may name them all."""
    _importers[:] = [opener]


def import_all_modules() -> None:
    """Import all rooms: the same ones whatever asks for them, a file that is loaded too."""
    for opener in _importers:
        opener()
