"""Guard of the form: who may ask for a page, and what a page may do."""

import hmac
from contextlib import suppress
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; frame-src 'self'; "
_POLICY += "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
_HEADERS = {
    "cache-control": "no-store",  # the browser keeps no page on the disk
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer a browser would send no Origin either
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}


class Guard:
    """Passes on requests that know the token, name this host, and come from its own pages.

    A page of another site that a browser sends here, by a name that leads to 127.0.0.1 or by a form of its own, has another Host or
    Origin.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        answer: ASGIApp = self._app
        if refusal := self._refusal(request):
            answer = PlainTextResponse(refusal, HTTPStatus.FORBIDDEN)
        path = "/" + scope["path"].removeprefix("/").partition("/")[2]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in known]
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        with suppress(Exception):  # an answer was sent before, and what logs an error would quote it
            await answer({**scope, "path": path, "raw_path": path.encode()}, receive, send_with_headers)

    def _refusal(self, request: Request) -> str:
        token = request.scope["path"].removeprefix("/").partition("/")[0].encode()
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            return "This form is on this machine alone: open the address that skdpsynth ui has printed."
        if not hmac.compare_digest(token, self._token):
            return "The address must hold the token that skdpsynth ui has printed: open it from there."
        is_foreign = origin != f"http://{host}" if request.method not in ("GET", "HEAD") else origin not in (None, f"http://{host}")
        if is_foreign:
            return "This request comes from another site: open the address that skdpsynth ui has printed."
        return ""
