"""Who may talk to the studio: its own page only, and no more than a page has to say.

A browser sends requests for any page that is open in it. So somebody else's page could reach
a server on this machine; its `Origin`, or a name that was made to point here, gives it away.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

MAX_BODY_BYTES = 2_000_000  # a dropped file and what the browser puts around it
MAX_MESSAGE_BYTES = 1_000_000  # over the socket

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class TooLargeError(Exception):
    """More was sent than the page ever sends."""


class Guard:
    """Middleware: refuses foreign hosts and origins, and bodies and messages over the limits."""

    def __init__(self, app: App, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1")
                   for name, value in scope["headers"]}  # fmt: skip
        why = refusal(headers.get("host", ""), headers.get("origin"), self.host)
        if why is not None:
            await _refuse(scope, send, 403, why)
            return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            await _refuse(scope, send, 413, f"more than {MAX_BODY_BYTES:,} bytes")
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, _limited(receive), watched_send)
        except TooLargeError:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1009})
            elif not started:
                await _refuse(scope, send, 413, f"more than {MAX_BODY_BYTES:,} bytes")


def refusal(host: str, origin: str | None, served: str) -> str | None:
    """Why a request is refused by its `Host` and `Origin`; None if it is not."""
    if not _is_here(host, served):
        return f"this studio is not served as '{host[:80]}'"
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return f"a page from '{origin[:80]}' may not talk to this studio"
    return None


def _is_here(host: str, served: str) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name in ("localhost", "127.0.0.1", "::1", served.lower()):
        return True
    if is_local(served):
        return False
    # Served to others: by this machine's address or name, not by a name made to point to it.
    return _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())


def is_local(host: str) -> bool:
    """Whether only this machine reaches what is served at `host`."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _limited(receive: Receive) -> Receive:
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        if message["type"] == "http.request":
            total += len(message.get("body", b""))
            if total > MAX_BODY_BYTES:
                raise TooLargeError
        elif message["type"] == "websocket.receive":
            sent = message.get("bytes") or (message.get("text") or "").encode()
            if len(sent) > MAX_MESSAGE_BYTES:
                raise TooLargeError
        return message

    return counted


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why[:120]})
        return
    body = f"Refused: {why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"),
               (b"content-length", str(len(body)).encode())]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
