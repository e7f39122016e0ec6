"""The program itself: where it listens, what it leaves behind, and what it says."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from walks import CANARY, FACTS, text_of_people

import skdpsynth

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends by signals")


class Served:
    """The program `skdpsynth ui`, and a browser without a window."""

    def __init__(self, folder):
        import httpx2

        self.temporary, self.ledgers = folder / "temporary", folder / "budgets"
        for each in (self.temporary, self.ledgers):
            each.mkdir(exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "skdpsynth", "ui", "--no-browser", "--folder", str(self.ledgers)]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_as_usual
        )
        self.said = self.process.stdout.readline() + self.process.stdout.readline()
        self.address = re.search(r"http\S+", self.said)[0]
        self.port = int(re.search(r":(\d+)/", self.address)[1])
        origin = {"origin": f"http://127.0.0.1:{self.port}"}
        self.client = httpx2.Client(headers=origin, follow_redirects=True, timeout=60, trust_env=False)

    def begin_a_check(self):
        """Send a file, and let a command read it."""
        answer = self.client.post(self.address, files={"file": ("people.csv", text_of_people(20_000))})
        assert str(answer.url).endswith("/columns")
        return self.client.post(str(answer.url), data=FACTS)

    def end(self, number):
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        return self.process.returncode, self.said + rest


def _as_usual():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture
def served(tmp_path):
    served = Served(tmp_path)
    yield served
    served.process.kill()
    served.process.wait()


def children(process):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_removes_all_files_and_ends_all_work_and_no_cell_is_said(served, number, code):
    served.begin_a_check()
    (folder,) = served.temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path for path in served.temporary.parent.rglob("*.csv") if folder not in path.parents] == []
    started = children(served.process)
    ended, said = served.end(number)
    assert ended == code
    assert list(served.temporary.iterdir()) == []
    assert list(served.ledgers.iterdir()) == []
    assert CANARY not in said
    assert len(said.split("\n")) <= 5  # click begins a line after Ctrl-C
    assert not [
        pid for pid in started if Path(f"/proc/{pid}/cmdline").exists() and b"skdpsynth" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_it_listens_to_this_machine_alone_and_logs_nothing(served):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.settimeout(5)
        # All of 127/8 is this machine, but another address: whoever listens everywhere answers there.
        assert other.connect_ex(("127.0.0.2", served.port)) != 0
    assert served.client.get(served.address).status_code == 200
    assert served.client.get(f"http://127.0.0.1:{served.port}/").status_code == 403
    assert served.client.get(served.address + "none?" + CANARY).status_code == 404
    with socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.sendall(f"{CANARY}\r\n\r\n".encode())
        raw.recv(1000)
    _, said = served.end(signal.SIGTERM)
    assert re.fullmatch(r"The form is at \S+\nKeep the address .*\nTerminated; .*\n", said)


def test_what_a_killed_program_left_is_removed_by_the_next(served, tmp_path):
    served.begin_a_check()
    served.process.kill()
    served.process.wait()
    (left,) = served.temporary.iterdir()
    again = Served(tmp_path)
    try:
        assert not left.exists()
        assert len(list(again.temporary.iterdir())) == 1
        assert again.address != served.address
    finally:
        again.end(signal.SIGTERM)


def test_two_programs_leave_each_other_alone_and_the_button_ends_one(served, tmp_path):
    other = Served(tmp_path)
    assert len(list(served.temporary.iterdir())) == 2
    assert "has ended" in other.client.post(other.address + "quit").text
    assert other.process.wait(timeout=60) == 0
    assert len(list(served.temporary.iterdir())) == 1
    assert served.client.get(served.address).status_code == 200


def test_the_browser_is_sent_through_a_page_that_only_its_owner_can_read(tmp_path, monkeypatch):
    """The address of a program that is started can be read by all users of the machine."""
    from click.testing import CliRunner
    from internals import program

    opened = []

    def launch(address):
        opened.append((address, Path(address.removeprefix("file://")).read_text(encoding="utf-8")))
        raise KeyboardInterrupt

    monkeypatch.setattr("click.launch", launch)
    done = CliRunner().invoke(program, ["ui", "--folder", str(tmp_path)])
    ((address, text),) = opened
    assert "127.0.0.1" not in address
    assert re.search(r"http\S+", done.output)[0] in text
    assert not Path(address.removeprefix("file://")).exists()


def test_without_its_packages_the_command_says_what_to_install(tmp_path):
    script = "import sys; sys.modules['uvicorn'] = None; from skdpsynth.cli import main; main(['ui'])"
    environment = {**os.environ, "PYTHONPATH": str(Path(skdpsynth.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (2, "Error: The form needs uvicorn: pip install 'skdpsynth[ui]'.\n")
    missing = subprocess.run([sys.executable, "-m", "skdpsynth", "ui", "--folder", "none"], capture_output=True, text=True, env=environment)
    assert "--folder must be a folder that exists, got 'none'" in missing.stderr
