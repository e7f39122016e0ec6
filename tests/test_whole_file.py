"""Files that are complete or not there."""

import os
import stat

import pytest
from internals import atomic_write, output_path

MODES = pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_breaks_leaves_the_old_file_and_no_other(tmp_path, error):
    place = tmp_path / "page"
    place.write_bytes(b"old")

    def broken():
        with atomic_write(place) as file:
            file.write(b"half of the new")
            raise error

    with pytest.raises(error):
        broken()
    assert (place.read_bytes(), os.listdir(tmp_path)) == (b"old", ["page"])


def test_nothing_stands_at_its_place_before_it_is_complete(tmp_path):
    with atomic_write(tmp_path / "page") as file:
        file.write(b"new")
        assert not (tmp_path / "page").exists()
    assert (tmp_path / "page").read_bytes() == b"new"


@MODES
def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path):
    (tmp_path / "page").touch(0o644)
    with atomic_write(tmp_path / "page", is_private=True):
        assert {mode_of(path) for path in tmp_path.iterdir() if path.name != "page"} == {0o600}
    assert mode_of(tmp_path / "page") == 0o600


@MODES
def test_a_public_file_has_the_mode_of_what_it_replaces_or_of_any_new_file(tmp_path, monkeypatch):
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "any").touch()
    monkeypatch.setattr(os, "umask", None)  # it is that of other threads too
    for name in ("old", "new", long := "n" * 250):
        with atomic_write(tmp_path / name):
            pass
    assert (mode_of(tmp_path / "old"), mode_of(tmp_path / "new")) == (0o640, mode_of(tmp_path / "any"))
    assert (tmp_path / long).exists()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    with atomic_write(output_path(tmp_path / "link")) as file:
        file.write(b"new")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "old").read_bytes()) == (True, b"new")


@MODES
def test_a_pipe_and_a_device_are_refused_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(ValueError, match="path must name a plain file"):
            output_path(place)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_path_that_names_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    errors = {"": ValueError, "a\0b": ValueError, ".": IsADirectoryError, "nowhere/x": FileNotFoundError}
    for path, error in {**dict.fromkeys([None, 3, b"x", 1.5, (), object()], TypeError), **errors}.items():
        with pytest.raises(error, match=r"^path must "):
            output_path(path)


def test_what_a_killed_process_left_is_removed_after_an_hour(tmp_path):
    old, young, other = (tmp_path / name for name in (".page.1.part", ".page.2.part", ".other.3.part"))
    for left in (old, young, other):
        left.touch()
    for left in (old, other):
        os.utime(left, (0, 0))
    with atomic_write(tmp_path / "page"):
        pass
    assert sorted(os.listdir(tmp_path)) == [".other.3.part", ".page.2.part", "page"]


def test_the_file_and_its_folder_are_on_the_disk_before_the_end(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(stat.S_ISDIR(os.fstat(number).st_mode)))
    with atomic_write(tmp_path / "page"):
        pass
    assert flushed == ([False] if os.name == "nt" else [False, True])
