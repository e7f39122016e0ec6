"""The version of the package: the ledger notes it beside each charge."""

__version__ = "0.1.0"
