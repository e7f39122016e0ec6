"""Pages of the form, in the order of a walk: file, columns, check, budget, release, results."""

import json
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from skdpsynth.ui._columns import FIELDS, KEPT, KINDS, Typed, columns_of, fields_of, schema_of
from skdpsynth.ui._walk import EVALUATION, FILES, SCHEMA, Release, Walk, file_name
from skdpsynth.ui._work import Command

if TYPE_CHECKING:  # takes a while to import, and the first page must not wait
    from skdpsynth.privacy import PrivacyAccountant

STEPS = {"file": "File", "columns": "Columns", "check": "Check", "budget": "Budget", "release": "Release", "result": "Results"}
READ = ("separator", "decimal", "encoding", "skip", "sheet")
_SCRIPT = "repeat.sh"
_TO_SHOW_THE_END = 0.5  # seconds, in which the browser gets the style of the last page
_SEEN = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox allow-popups"
_FIELDS = {"stratify": "target", "max-rows-per-unit": "epsilon", "neighboring": "epsilon"}  # of an option, where it has another name
_WORDS = [
    (r"'synthesize' costs", "this release costs"),
    (r", or charge what was spent here to a larger budget, and go on there", ""),
    (r"Invalid value for '--([\w-]+)': ", r"\1: "),
    (r"; see skdpsynth [\w ]+ --help", ""),
    (
        r"in a file, by its suffix one of .*, got (.*?); convert or read it first",
        r"(CSV, Parquet, Excel, SQLite, Stata, SPSS), got \1; save it as one",
    ),
    (r"correct it, or read of the schema \(encoding, comment, skip\)", "choose another, or say below how it is written"),
    (r"--max-rows-per-unit", "the number of rows of a person"),
    (r"--unit", "the column that names the person"),
    (r"--stratify", "the column to predict"),
    (r"--schema\b", "the schema"),
    (r"--(\w+)", r"\1"),
    (r"\bINPUT\b", "the file"),
    (r"\bLEDGER\b", "the budget"),
    (r"(set nullable=True|write nullable: true)", "tick that cells may be missing"),
    (r"write integer: false", "choose a number with decimals"),
    (r"bounds: \[low, high\]", "the lowest and the highest value"),
    (r"^bounds\b", "the lowest and the highest value"),
    (r"write kind: (\w+)", r"choose the kind \1"),
    (r"write (\w+): (.+?)(?= if| for|; |\.$|$)", r"put \2 into \1"),
    (r"into step\b", "into multiples of"),
    (r"into missing\b", "into codes for a missing cell"),
]


class Form:
    """The form: its pages, and the walks that are under way.

    Parameters
    ----------
    place : Path
        Private folder, in which each walk has one of its own.
    ledgers : Path
        Folder in which budgets are kept.
    words : callable
        Puts a sentence of the library into words of files and flags.
    stop : callable
        Ends the program.
    """

    def __init__(self, place: Path, ledgers: Path, words: Callable[[str], str], stop: Callable[[], object]) -> None:
        self._place, self._ledgers, self._stop = place, ledgers, stop
        self._words_of_files = words
        self._walks: dict[str, Walk] = {}
        loader = PackageLoader("skdpsynth.ui")
        self._templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        pages = {name: getattr(self, f"_{name}") for name in (*STEPS, "job", "state", "private", "download")}
        posts = {name: getattr(self, f"_post_{name}") for name in ("file", "columns", "budget", "release", "cancel", "evaluate")}
        routes = [Route("/", self._endpoint(self._start)), Route("/", self._endpoint(self._post_file), methods=["POST"])]
        routes += [Route("/{name}.{suffix}", self._endpoint(self._asset)), Route("/quit", self._endpoint(self._quit), methods=["POST"])]
        routes += [Route(f"/w/{{walk}}/{name}", self._endpoint(page)) for name, page in pages.items()]
        routes += [
            Route(f"/w/{{walk}}/{name}", self._endpoint(post, is_free=name == "cancel"), methods=["POST"]) for name, post in posts.items()
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: self._no_page, Exception: self._no_page})

    def close(self) -> None:
        """End all commands."""
        for walk in self._walks.values():
            if walk.command is not None:
                walk.command.end()

    # Requests

    def _endpoint(self, handle: Callable[..., Response], is_free: bool = True) -> Callable[[Request], Any]:
        """Return an endpoint that gets the walk and what was typed; while a command of the walk runs, others must wait for it."""

        async def endpoint(request: Request) -> Response:
            name = request.path_params.get("walk")
            if name is not None and name not in self._walks:
                raise HTTPException(404)
            walk = self._walks[name] if name is not None else None
            if request.method == "GET":
                return await run_in_threadpool(handle, request, walk)
            async with request.form(max_fields=100_000, max_files=4) as form:
                if walk is not None and not is_free and walk.command is not None and walk.command.code is None:
                    return _go("job")
                return await run_in_threadpool(handle, request, walk, form)

        return endpoint

    def _page(self, template: str, walk: Walk | None = None, step: str = "file", status: int = 200, **values: object) -> Response:
        page = step if walk is None else template
        known = {"walk": walk, "step": step, "steps": STEPS, "root": "" if walk is None else "../../", "ledgers": self._ledgers}
        known["typed"] = {} if walk is None else walk.typed.get(page, {})
        known["faults"] = {} if walk is None else walk.faults.get(page, {})
        return HTMLResponse(self._templates.get_template(f"{template}.html").render(**known | values), status)

    def _no_page(self, request: Request, error: Exception) -> Response:
        """Say that there is no such page, or the type of an unforeseen error, whose text may quote a cell."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        root = "../" * (request.scope["path"].count("/") - 1)
        return self._page("missing", step="", status=status, root=root, unforeseen=type(error).__name__ if status == 500 else "")

    def _words(self, sentence: str) -> str:
        sentence = self._words_of_files(sentence)
        for pattern, words in _WORDS:
            sentence = re.sub(pattern, words, sentence)
        return sentence[:1].upper() + sentence[1:]

    def _asset(self, request: Request, walk: None) -> Response:
        name = "{name}.{suffix}".format(**request.path_params)
        if name not in ("style.css", "script.js"):
            raise HTTPException(404)
        return FileResponse(Path(__file__).parent / "templates" / name)

    def _quit(self, request: Request, walk: None, form: Mapping[str, Any]) -> Response:
        threading.Timer(_TO_SHOW_THE_END, self._stop).start()
        return self._page("ended", step="")

    # File

    def _start(self, request: Request, walk: None) -> Response:
        return self._page("file")

    def _file(self, request: Request, walk: Walk) -> Response:
        return self._page("file", walk)

    def _post_file(self, request: Request, walk: Walk | None, form: Mapping[str, Any]) -> Response:
        prefix = "" if walk is not None else "w/"
        uploads = {name: file for name, file in form.items() if isinstance(file, UploadFile) and file.filename}
        if walk is None:
            name = secrets.token_urlsafe(12)
            prefix += f"{name}/"
            walk = self._walks[name] = Walk(self._place / name)
            walk.folder.mkdir(mode=0o700)
        walk.typed["file"] = _texts(form)
        faults = walk.faults["file"] = self._take_file(walk, uploads)
        return _go(f"{prefix}{'file' if faults else 'columns'}")

    def _take_file(self, walk: Walk, uploads: Mapping[str, UploadFile]) -> Typed:
        """Keep a file in the folder of the walk, and propose a schema by its names; return faults."""
        if "file" in uploads:
            if walk.file:
                (walk.folder / walk.file).unlink(missing_ok=True)
            try:
                walk.file = file_name(str(uploads["file"].filename))
            except ValueError as error:
                walk.file = ""
                return {"file": self._words(str(error))}
            with (walk.folder / walk.file).open("wb") as kept:
                shutil.copyfileobj(uploads["file"].file, kept)
        if not walk.file:
            return {"file": "Choose a file with one table, such as people.csv."}
        walk.columns, walk.schema, known = [], "", None
        walk.typed.pop("columns", None)
        if "known" in uploads:
            known = walk.folder / f"known{Path(str(uploads['known'].filename)).suffix.lower()}"
            known.write_bytes(uploads["known"].file.read())
        try:
            return self._propose(walk, known)
        except Exception as error:  # a file may be anything; only what is written for users may be said
            is_told = isinstance(error, ValueError | TypeError | OSError | ImportError) and str(error)
            told = re.sub(r"'[^']*/([^'/]*)'", r"'\1'", str(error)) if is_told else f"This is no such file ({type(error).__name__})."
            field = next((name for name in READ if f"read[{name!r}]" in told or told.startswith(name)), "file")
            return {"known" if known is not None and walk.columns else field: self._words(told)}

    def _propose(self, walk: Walk, known: Path | None) -> Typed:
        """Fill the fields of the columns in, by the names as `schema init` does and by the schema or code book that the user has."""
        from skdpsynth.domain import Schema, schema_of_file

        typed = walk.typed["file"]
        read: dict[str, Any] = {name: int(typed[name]) if typed[name].isdecimal() else typed[name] for name in READ if typed.get(name)}
        kinds = Schema.skeleton(str(walk.folder / walk.file), False, read)
        if kinds.read.get("decimal") == "open":
            return {"decimal": "Cells are separated by semicolons here: choose the sign between whole and decimal digits."}
        walk.columns = [{"name": name} for name in kinds]  # so much is known of the file
        if known is not None:
            is_schema = known.suffix in (".yaml", ".yml", ".json")
            stated = schema_of_file(str(known)) if is_schema else Schema.from_codebook(known)
            if not isinstance(stated, Schema):
                return {"known": "This must be the schema of one table; for tables that hang on each other use the command line."}
            rules = [rule for rule in stated.rules if kinds.keys() >= set(rule.columns_named)]
            kinds = Schema({name: stated.get(name, kind) for name, kind in kinds.items()}, rules, {**kinds.read, **stated.read})
        facts = json.loads(str(kinds.to_json()))
        walk.columns, walk.read = facts["columns"], facts.get("read", {})
        lines = "\n".join(rule if isinstance(rule, str) else json.dumps(rule, ensure_ascii=False) for rule in facts.get("rules", ()))
        walk.typed["columns"] = {**fields_of(walk.columns), "rules": lines, "whose": "", "unit": "", "most": "1"}
        walk.faults["columns"], walk.findings, walk.preview = {}, None, None
        return {}

    # Columns and check

    def _columns(self, request: Request, walk: Walk) -> Response:
        if "columns" not in walk.typed:
            return _go("file")
        labels = {
            "whose": "Whom the promise protects",
            "unit": "Column that names the person",
            "most": "Rows of one person",
            "rules": "Rules",
        }
        labels |= {f"{field}.{i}": f"{column['name']}, {field}" for i, column in enumerate(walk.columns) for field in FIELDS}
        return self._page("columns", walk, "columns", kinds=KINDS, kept=KEPT, labels=labels)

    def _post_columns(self, request: Request, walk: Walk, form: Mapping[str, Any]) -> Response:
        if "columns" not in walk.typed:
            return _go("file")
        typed = walk.typed["columns"] = _texts(form)
        walk.schema, walk.preview, walk.findings = "", None, None
        columns, faults = columns_of(typed, walk.columns, self._words)
        if typed.get("whose") not in ("row", "column"):
            faults = {"whose": "Say first whom the promise protects."} | faults
        if typed.get("whose") == "column":
            names = [column["name"] for column in columns]
            if typed.get("unit") not in names:
                faults = {"unit": "Choose the column that says whose row it is."} | faults
            else:
                place = names.index(typed["unit"])
                columns[place] = {"name": typed["unit"], "kind": "identifier"}
                faults = {name: fault for name, fault in faults.items() if not name.endswith(f".{place}")}
            faults = _number_faults(typed, most="a whole number of rows, 1 or more") | faults
        if not faults:
            walk.schema, faults = schema_of(columns, typed.get("rules", ""), walk.read, self._words)
        walk.faults["columns"] = faults
        if faults:
            return _go("columns")
        (walk.folder / SCHEMA).write_text(walk.schema, encoding="utf-8")
        walk.start(
            "Checking the rows against the schema",
            "check",
            ["schema", "check", walk.file, "--schema", SCHEMA, "--json"],
            self._checked(walk),
        )
        return _go("job")

    def _checked(self, walk: Walk) -> Callable[[Command], None]:
        def done(command: Command) -> None:
            if command.return_code in (0, 1):
                walk.findings = command.result
            else:
                walk.faults["columns"], command.page = {"": self._failure(command)}, "columns"

        return done

    def _check(self, request: Request, walk: Walk) -> Response:
        if not walk.schema:
            return _go("columns")
        lines = walk.findings and walk.findings["findings"] + walk.findings["notes"]
        return self._page("check", walk, "check", lines=[{**line, "told": self._words(line["told"])} for line in lines or ()])

    # Budget

    def _budgets(self) -> "dict[str, PrivacyAccountant]":
        """Return the budgets in the folder, by the names of their files."""
        from skdpsynth.privacy import PrivacyAccountant

        found = {}
        for path in sorted(self._ledgers.glob("*.db")):
            try:
                found[path.name] = PrivacyAccountant.at(path)
            except (OSError, ValueError):
                continue  # another file, or one that cannot be used
        return found

    def _budget(self, request: Request, walk: Walk) -> Response:
        if not walk.schema:
            return _go("columns")
        budgets = self._budgets()
        defaults = {"dataset": Path(walk.file).stem, "epsilon": "3", "delta": "1e-5", "relation": "replace_one"}
        if not budgets:  # else a second budget for the same people is a choice to make
            defaults["ledger"] = "new"
        return self._page("budget", walk, "budget", typed=defaults | walk.typed.get("budget", {}), budgets=budgets)

    def _post_budget(self, request: Request, walk: Walk, form: Mapping[str, Any]) -> Response:
        typed = walk.typed["budget"] = _texts(form)
        budgets, name = self._budgets(), typed.get("ledger", "")
        if name not in budgets:
            name, faults = self._new_budget(walk, typed, budgets)
            walk.faults["budget"] = faults
            if faults:
                return _go("budget")
            typed["ledger"] = name
            budgets = self._budgets()
        account, walk.ledger, walk.preview, walk.faults["budget"] = budgets[name], self._ledgers / name, None, {}
        facts = {
            "epsilon": float(account.epsilon),
            "delta": float(account.delta),
            "neighboring": account.neighboring,
            "dataset": account.dataset,
        }
        walk.budget = ["budget", "init", str(walk.ledger), *(f"--{key}={value}" for key, value in facts.items() if value is not None)]
        return _go("release")

    def _new_budget(self, walk: Walk, typed: Typed, budgets: Mapping[str, object]) -> tuple[str, Typed]:
        stem = re.sub(r"[^\w-]+", "-", typed.get("dataset", "")).strip("-")
        name, faults = f"{stem}.db", _number_faults(typed, epsilon="a number above 0", delta="a number from 0 to below 1")
        if typed.get("ledger") != "new":
            faults = {"ledger": "Choose the budget of these people, or make a new one if nothing was released about them."}
        elif not stem:
            faults["dataset"] = "Give the data set a name: the budget is kept under it."
        elif (self._ledgers / name).exists():
            what = "choose it above" if name in budgets else "give another name"
            faults["dataset"] = f"There is a file {name} already; {what}."
        if faults:
            return name, faults
        from skdpsynth.privacy import PrivacyAccountant

        facts: dict[str, Any] = {"neighboring": typed["relation"], "dataset": typed["dataset"], "ledger": self._ledgers / name}
        try:
            PrivacyAccountant(float(typed["epsilon"]), float(typed["delta"]), **facts)
        except (ValueError, TypeError, OSError) as error:
            return name, {"dataset": self._words(str(error))}
        return name, {}

    # Release

    def _account(self, walk: Walk) -> "PrivacyAccountant":
        from skdpsynth.privacy import PrivacyAccountant

        assert walk.ledger is not None
        return PrivacyAccountant.at(walk.ledger)

    def _release(self, request: Request, walk: Walk) -> Response:
        if walk.ledger is None or not walk.schema:
            return _go("budget" if walk.schema else "columns")
        account = self._account(walk)
        is_public = account.neighboring == "replace_one" and walk.findings is not None
        defaults = {
            "epsilon": f"{min(1.0, float(account.remaining)):g}",
            "delta": f"{min(1e-6, float(account.delta)):g}",
            "rows": "",
            "target": "",
        }
        defaults["about"] = str(walk.findings["rows"]) if is_public and walk.findings else ""
        return self._page(
            "release", walk, "release", typed=defaults | walk.typed.get("release", {}), account=account, preview=_table(walk.preview)
        )

    def _post_release(self, request: Request, walk: Walk, form: Mapping[str, Any]) -> Response:
        typed = walk.typed["release"] = _texts(form)
        wanted = {"epsilon": "a number above 0", "delta": "a number from 0 to below 1"}
        is_preview = typed.get("action") == "preview"
        if is_preview:
            wanted["about"] = "a whole number of rows, 1 or more"
        elif typed.get("rows"):
            wanted["rows"] = "a whole number of rows, 1 or more"
        walk.faults["release"] = _number_faults(typed, **wanted)
        if walk.faults["release"]:
            return _go("release")
        account = self._account(walk)
        if is_preview:
            walk.start("Simulating errors", "release", walk.plan(account.neighboring), self._previewed(walk))
            return _go("job")
        with walk.lock:
            if typed.get("ticket") != walk.ticket:  # sent twice: by a second click, or by going back
                return _go("job")
            walk.ticket = secrets.token_urlsafe()
            release = walk.synthesize(account.neighboring)
            release.folder.mkdir(exist_ok=True)
            places = {"-o": "synthetic.csv", "--card": "card.html", "--model": "model.skdp"}
            options = [part for option, name in places.items() for part in (option, f"{release.folder.name}/{name}")]
            arguments = [*release.arguments, *options, f"--ledger={walk.ledger}", "--json", "--force"]
            walk.start("Learning the table", "release", arguments, self._fitted(walk, release, float(account.spent)))
        return _go("job")

    def _previewed(self, walk: Walk) -> Callable[[Command], None]:
        def done(command: Command) -> None:
            walk.preview = command.result if command.return_code == 0 else None
            if command.return_code:
                walk.faults["release"] = {_field_of(command.error): self._failure(command)}

        return done

    def _fitted(self, walk: Walk, release: Release, before: float) -> Callable[[Command], None]:
        def done(command: Command) -> None:
            if command.return_code == 0:
                release.facts, release.notes = command.result, [self._words(note) for note in command.sentences]
                walk.releases.append(release)
                command.page = f"result?n={len(walk.releases)}"
                return
            account = self._account(walk)
            spent = float(account.spent)
            now = (
                "Nothing was charged." if spent == before else f"The budget was charged: epsilon {spent:g} is spent, {before:g} was before."
            )
            walk.faults["release"] = {_field_of(command.error): f"{self._failure(command)} {now}"}

        return done

    def _failure(self, command: Command) -> str:
        if command.was_cancelled:
            return "Cancelled."
        if command.return_code is not None and command.return_code < 0:
            return "The work was ended from outside, perhaps because the memory was full."
        return self._words(command.error)

    # Commands that run

    def _job(self, request: Request, walk: Walk) -> Response:
        command = walk.command
        if command is None or command.code is not None:
            return _go("file" if command is None else command.page)
        step = command.page.partition("?")[0]
        return self._page("job", walk, step if step in STEPS else "result", command=command, state=command.state())

    def _state(self, request: Request, walk: Walk) -> Response:
        return JSONResponse({"is_over": True} if walk.command is None else walk.command.state())

    def _post_cancel(self, request: Request, walk: Walk, form: Mapping[str, Any]) -> Response:
        if walk.command is not None and walk.command.code is None:
            walk.command.cancel()
            walk.command.wait()
        return _go("job")

    # Results

    def _asked(self, request: Request, walk: Walk) -> tuple[int, Release]:
        number = request.query_params.get("n", str(len(walk.releases)))
        if not (number.isdecimal() and 1 <= int(number) <= len(walk.releases)):
            raise HTTPException(404)
        return int(number), walk.releases[int(number) - 1]

    def _result(self, request: Request, walk: Walk) -> Response:
        if not walk.releases:
            return _go("release")
        number, release = self._asked(request, walk)
        return self._page(
            "result", walk, "result", number=number, release=release, files=FILES, script=_SCRIPT, account=self._account(walk)
        )

    def _post_evaluate(self, request: Request, walk: Walk, form: Mapping[str, Any]) -> Response:
        number, release = self._asked(request, walk)
        typed, folder = _texts(form), release.folder.name
        walk.typed["result"] = typed
        target = [f"--target={typed['target']}"] if typed.get("target") else []
        arguments = ["evaluate", walk.file, f"{folder}/synthetic.csv", "--schema", SCHEMA, "-o", f"{folder}/{EVALUATION}", *target]
        walk.faults["result"] = {}

        def done(command: Command) -> None:
            if command.return_code:
                walk.faults["result"], command.page = {"target": self._failure(command)}, f"result?n={number}"

        walk.start("Comparing synthetic with real rows", f"private?n={number}", [*arguments, "--json", "--force"], done)
        return _go("job")

    def _private(self, request: Request, walk: Walk) -> Response:
        number, release = self._asked(request, walk)
        if not (release.folder / EVALUATION).exists():
            return _go(f"result?n={number}")
        return self._page("private", walk, "result", number=number, evaluation=EVALUATION)

    def _download(self, request: Request, walk: Walk) -> Response:
        _, release = self._asked(request, walk)
        name = request.query_params.get("name", "")
        texts = {SCHEMA: walk.schema, _SCRIPT: walk.script(release)}
        if name in texts:
            return Response(texts[name], headers={"content-disposition": f'attachment; filename="{name}"'}, media_type="text/plain")
        if name not in (*FILES, EVALUATION) or not (release.folder / name).exists():
            raise HTTPException(404)
        if "show" in request.query_params:
            return FileResponse(release.folder / name, media_type="text/html", headers={"content-security-policy": _SEEN})
        return FileResponse(release.folder / name, media_type=FILES.get(name, "text/html"), filename=name)


def _go(page: str) -> Response:
    return RedirectResponse(page, 303)


def _texts(form: Mapping[str, Any]) -> Typed:
    return {name: text.replace("\r\n", "\n").strip() for name, text in form.items() if isinstance(text, str)}


def _number_faults(typed: Typed, **wanted: str) -> Typed:
    """Return a sentence for each field that is no number as wanted."""
    faults = {}
    for name, what in wanted.items():
        try:
            number = float(typed.get(name, ""))
            is_fine = (number == int(number) >= 1) if "whole" in what else 0 < number < float("inf") if "above" in what else 0 <= number < 1
        except (ValueError, OverflowError):
            is_fine = False
        if not is_fine:
            faults[name] = f"This must be {what}, got {typed.get(name, '')!r}."
    return faults


def _field_of(sentence: str) -> str:
    """Return the field of the release that a refusal is about, or "" for the whole form."""
    if "costs epsilon" in sentence:
        return "epsilon"
    found = re.match(r"(?:Invalid value for ')?--([\w-]+)", sentence)
    name = found[1] if found else ""
    return _FIELDS.get(name, name) if name in ("epsilon", "delta", "rows", *_FIELDS) else ""


def _table(preview: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the errors that a plan expects, a line for each epsilon."""
    if preview is None:
        return None
    lines: dict[float, dict[str, Any]] = {}
    for record in preview["measures"]:
        lines.setdefault(record["epsilon"], {})[record["measure"]] = record
    return {"lines": lines, "main": preview["measures"][0]["measure"], "rows": preview["rows"], "delta": preview["measures"][0]["delta"]}
