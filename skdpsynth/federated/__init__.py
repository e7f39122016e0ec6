"""Sums from elsewhere: fits of tables whose rows lie with others, or pass by in chunks."""

from skdpsynth.federated._partial_sums import PartialSums, RemoteRows
from skdpsynth.federated._partial_sums import RemoteTable as RemoteTable
from skdpsynth.federated._sites import Masks, Site, Sites
from skdpsynth.statistics import Question

__all__ = ["Masks", "PartialSums", "Question", "RemoteRows", "Site", "Sites"]
