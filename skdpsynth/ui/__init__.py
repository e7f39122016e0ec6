"""Form in the browser: from a file to synthetic rows, a ledger and a card, on the machine of whoever holds the rows."""

from collections.abc import Callable
from pathlib import Path

_HOST = "127.0.0.1"  # never another: whoever reaches the port can try tokens


def serve(folder: Path, port: int = 0, *, announce: Callable[[str, Path], None], words: Callable[[str], str]) -> None:
    """Serve the form until a signal or its button ends it, and remove its temporary files.

    Parameters
    ----------
    folder : Path
        Where budgets are kept.
    port : int, default=0
        0: a free one.
    announce : callable
        Gets the address, and a page for the owner of the process alone that leads there.
    words : callable
        Puts a sentence of the library into words of files and flags.
    """
    import secrets
    import socket
    import tempfile

    try:
        import uvicorn

        from skdpsynth.ui._guard import Guard
        from skdpsynth.ui._pages import Form
        from skdpsynth.ui._work import private_folder
    except ModuleNotFoundError as error:
        raise ImportError(f"The form needs {error.name}: pip install 'skdpsynth[ui]'.") from None
    token, before = secrets.token_urlsafe(32), tempfile.tempdir
    with private_folder() as place, socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
        listener.listen()  # so that a browser that is faster than the server waits for it
        port = listener.getsockname()[1]
        tempfile.tempdir = str(place)  # where uploads are put while they arrive
        form = Form(place, folder, words, stop=lambda: setattr(server, "should_exit", True))
        app = Guard(form.app, token, port)
        quiet = uvicorn.Config(app, log_config=None, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none")
        quiet.timeout_graceful_shutdown = 1
        server = uvicorn.Server(quiet)
        address = f"http://{_HOST}:{port}/{token}/"
        page = place / "start.html"  # the address of a program that is started can be read by all users of the machine
        page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}"><title>skdpsynth</title>', encoding="utf-8")
        try:
            announce(address, page)
            server.run(sockets=[listener])
        finally:
            tempfile.tempdir = before
            form.close()
