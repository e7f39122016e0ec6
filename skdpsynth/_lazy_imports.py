"""Lazy import of all rooms at once: ``import skdpsynth`` by itself loads none."""

from collections.abc import Callable

_importers: list[Callable[[], None]] = []


def register_importer(opener: Callable[[], None]) -> None:
    """Register the function that imports all rooms, from the package itself, which stands above them."""
    _importers[:] = [opener]


def import_all_modules() -> None:
    for opener in _importers:
        opener()
