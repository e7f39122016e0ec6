"""Differentially private synthetic data and principal components, with the scikit-learn API."""

from typing import TYPE_CHECKING, Any

from skdpsynth._version import __version__

if TYPE_CHECKING:
    from skdpsynth._progress import show_progress
    from skdpsynth.decomposition import PrivatePCA
    from skdpsynth.persistence import load
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.synthesis import (
        AreaSynthesizer,
        LatentFactorSynthesizer,
        LinkedTablesSynthesizer,
        LowDimSynthesizer,
        OnlineSynthesizer,
        PrivateMeasureMechanism,
        SignedMeasureMechanism,
    )

__all__ = [
    "AreaSynthesizer",
    "LatentFactorSynthesizer",
    "LinkedTablesSynthesizer",
    "LowDimSynthesizer",
    "OnlineSynthesizer",
    "PrivacyAccountant",
    "PrivateMeasureMechanism",
    "PrivatePCA",
    "SignedMeasureMechanism",
    "__version__",
    "load",
    "show_progress",
]

# Short names of the papers, names of other libraries, and names of a room, with what they are here.
_MEANT = {
    **dict.fromkeys(("PMM", "PrivateMeasure"), "PrivateMeasureMechanism"),
    **dict.fromkeys(("PSMM", "SignedMeasure"), "SignedMeasureMechanism"),
    **dict.fromkeys(("PCA", "DPPCA"), "PrivatePCA"),
    **dict.fromkeys(("DPFM", "AIM", "MST", "PrivBayes", "GaussianCopulaSynthesizer", "Synthesizer"), "LatentFactorSynthesizer"),
    **dict.fromkeys(("HMASynthesizer", "LinkedSynthesizer"), "LinkedTablesSynthesizer"),
    **dict.fromkeys(("BudgetAccountant", "Accountant"), "PrivacyAccountant"),
    **{name: f"domain.{name}" for name in ("Children", "Schema")},
    "PrivateSearchCV": "model_selection.PrivateSearchCV",
}


def _open() -> None:
    """Import all rooms, including those whose classes only a saved file names, and export the public names.

    Numpy, scipy and scikit-learn take more than a second, and programs that use no public name, such as the help of the command line, need
    not wait for them (PEP 562).
    """
    import skdpsynth.federated
    import skdpsynth.model_selection  # noqa: F401
    from skdpsynth._progress import show_progress
    from skdpsynth.decomposition import PrivatePCA
    from skdpsynth.persistence import load
    from skdpsynth.privacy import PrivacyAccountant
    from skdpsynth.synthesis import (
        AreaSynthesizer,
        LatentFactorSynthesizer,
        LinkedTablesSynthesizer,
        LowDimSynthesizer,
        OnlineSynthesizer,
        PrivateMeasureMechanism,
        SignedMeasureMechanism,
    )

    tables = AreaSynthesizer, LatentFactorSynthesizer, LinkedTablesSynthesizer
    numbers = LowDimSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism
    globals().update({thing.__name__: thing for thing in (*tables, *numbers, PrivatePCA, PrivacyAccountant, load, show_progress)})


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        _open()
        if name in globals():  # a room as well: imported, it is an attribute of the package
            return globals()[name]
    hint = f"; did you mean {__name__}.{_MEANT[name]}?" if name in _MEANT else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
