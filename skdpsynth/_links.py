"""Where the documentation of a class is: for what notebooks show."""

from itertools import takewhile
from typing import Any

PAGES = "https://skdpsynth.readthedocs.io/en/stable/api/generated/"
# What the package shows itself; all else is shown by the room that it lives in.
OUTERMOST = frozenset(
    {
        "LatentFactorSynthesizer",
        "LowDimSynthesizer",
        "OnlineSynthesizer",
        "PrivacyAccountant",
        "PrivateMeasureMechanism",
        "PrivatePCA",
        "SignedMeasureMechanism",
    }
)


def public_name(cls: type) -> str:
    """Return the full name under which people import a class."""
    room = takewhile(lambda part: not part.startswith("_"), cls.__module__.split("."))
    return ".".join([*(["skdpsynth"] if cls.__name__ in OUTERMOST else room), cls.__name__])


def page_of(cls: type) -> str:
    """Return the address of the page of a public class."""
    return f"{PAGES}{public_name(cls)}.html"


class Documented:
    """What scikit-learn asks an estimator for, so that its picture in a notebook links to our pages and not to scikit-learn's."""

    _doc_link_module = "skdpsynth"
    _doc_link_template = PAGES + "{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, Any]:
        return {"name": public_name(type(self))}
