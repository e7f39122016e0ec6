"""The command `ui`: a form in the browser in place of the other commands."""

from pathlib import Path

import click

from skdpsynth.cli._options import Refusal, in_words_of_commands


@click.command(short_help="Open a form in the browser, which runs the other commands.")
@click.option("--folder", type=click.Path(), default=".", help="Where budgets are kept.  [default: this folder]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="A port of 127.0.0.1.  [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Print the address alone.")
def ui(folder: str, port: int, no_browser: bool) -> None:
    """Open a form in the browser: from a file to synthetic rows, a budget and a card.

    It runs on this machine alone, until Ctrl-C or its button ends it. The address holds a secret, so keep it to yourself. A copy of your
    file lies in a private temporary folder, which is removed at the end; nothing stays but budgets, and what you download.
    """
    from skdpsynth.ui import serve

    place = Path(folder).resolve()
    if not place.is_dir():
        raise Refusal(f"--folder must be a folder that exists, got {folder!r}; make it first")

    def announce(address: str, page: Path) -> None:
        click.echo(f"The form is at {address}\nKeep the address to yourself. Ctrl-C ends the form, and removes its copy of your file.")
        if not no_browser:
            click.launch(page.as_uri())

    serve(place, port, announce=announce, words=in_words_of_commands)
