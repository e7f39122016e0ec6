"""The leaderboard shows what is stored, and a peer pins what it needs."""

import importlib
import re
import sys

import pytest
from extensions import DOCS

BENCHMARKS = DOCS.parent / "benchmarks"
if not (BENCHMARKS / "leaderboard.json").exists():
    pytest.skip("needs the source tree", allow_module_level=True)
pytest.importorskip("pandas")
pytest.importorskip("yaml")


@pytest.fixture
def board(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("leaderboard")
    for name in {path.stem for path in BENCHMARKS.glob("*.py")} & set(sys.modules):
        del sys.modules[name]


def test_the_page_is_that_of_the_stored_figures(board, monkeypatch):
    page = board.PAGE.read_text(encoding="utf-8")
    written = []
    monkeypatch.setattr(type(board.PAGE), "write_text", lambda path, text, **options: written.append(text))
    board.write_page()
    assert written == [page]


def test_every_board_names_the_losses_of_ours_and_no_figure_of_a_peer_without_a_source(board):
    stored = {name: list(each.stored()) for name, each in board.BOARDS.items()}
    assert all(re.search(r"\(20\d\d-\d\d", source) for rows in stored.values() for _, _, _, source in rows)
    cells = {"a": {board.OURS: {"score": [1.0, 2.0]}, "peer": {"score": [3.0]}}}
    cells["b"] = {board.OURS: {"score": [4.0]}, "peer": {"score": [3.0]}}
    said = board.verdict(board.Board(list, {"score": (0, True)}), cells)
    assert "in 1 of 2 comparisons" in said
    assert "a: peer, score 3, ours 2 (1)" in said


def test_peers_pin_what_they_need(board):
    peers = [path for path in board.PEERS.glob("*.py") if board.said_of(path)]
    assert peers
    for path in peers:
        lists = board.PEERS / f"{board.said_of(path).get('environment')}.txt"
        needed = board.metadata(path).get("dependencies") or [line for line in lists.read_text().splitlines() if line[:1] not in ("#", "")]
        assert [each for each in needed if "==" not in each] == []
