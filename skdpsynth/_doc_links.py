"""Links from notebooks to the documentation of a class."""

from itertools import takewhile
from typing import Any

API_URL = "https://skdpsynth.readthedocs.io/en/stable/api/generated/"
# Exported by the package; all other classes are exported by their rooms, but those of `tables` by `domain`.
TOP_LEVEL_CLASSES = frozenset(
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
    room = list(takewhile(lambda part: not part.startswith("_"), cls.__module__.split(".")))
    place = ["skdpsynth"] if cls.__name__ in TOP_LEVEL_CLASSES else ["skdpsynth", "domain"] if room[1:] == ["tables"] else room
    return ".".join([*place, cls.__name__])


class DocLinkMixin:
    """Links of the HTML representation of an estimator to this documentation instead of scikit-learn's."""

    _doc_link_module = "skdpsynth"
    _doc_link_template = API_URL + "{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, Any]:
        return {"name": public_name(type(self))}
