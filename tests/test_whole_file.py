"""Files that are complete or not there."""

import os
import stat

import pytest

from skdpsynth._whole_file import whole_file

MODES = pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_breaks_leaves_the_old_file_and_no_other(tmp_path, error):
    place = tmp_path / "page"
    place.write_bytes(b"old")

    def broken():
        with whole_file(place) as file:
            file.write(b"half of the new")
            raise error

    with pytest.raises(error):
        broken()
    assert (place.read_bytes(), os.listdir(tmp_path)) == (b"old", ["page"])


def test_nothing_stands_at_its_place_before_it_is_complete(tmp_path):
    with whole_file(tmp_path / "page") as file:
        file.write(b"new")
        assert not (tmp_path / "page").exists()
    assert (tmp_path / "page").read_bytes() == b"new"


@MODES
def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path):
    (tmp_path / "page").touch(0o644)
    with whole_file(tmp_path / "page", is_private=True):
        assert {mode_of(path) for path in tmp_path.iterdir() if path.name != "page"} == {0o600}
    assert mode_of(tmp_path / "page") == 0o600


@MODES
def test_a_public_file_has_the_mode_of_what_it_replaces_or_of_any_new_file(tmp_path):
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "any").touch()
    for name in ("old", "new"):
        with whole_file(tmp_path / name):
            pass
    assert (mode_of(tmp_path / "old"), mode_of(tmp_path / "new")) == (0o640, mode_of(tmp_path / "any"))


@pytest.mark.parametrize("is_private", [True, False])
def test_the_umask_of_other_threads_is_left_alone(tmp_path, monkeypatch, is_private):
    monkeypatch.setattr(os, "umask", None)
    with whole_file(tmp_path / "page", is_private=is_private):
        pass


def test_a_long_name_needs_no_longer_one_beside_it(tmp_path):
    place = tmp_path / ("n" * 250)
    with whole_file(place):
        pass
    assert place.exists()
