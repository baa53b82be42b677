"""The studio's guard: who may reach it, and how much they may send."""

import asyncio
from typing import Any

import pytest
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.studio.guard import Guard, refusal
from falcon_snn.studio.state import OWN


@pytest.mark.parametrize(
    ("host", "origin", "served", "refused"),
    [
        ("127.0.0.1:8080", None, "127.0.0.1", False),
        ("localhost:8080", "http://localhost:8080", "127.0.0.1", False),
        ("[::1]:8080", "http://[::1]:8080", "::1", False),
        ("localhost:9000", "http://localhost:9000", "127.0.0.1", False),  # a forwarded port
        ("localhost:8080", "http://evil.example", "127.0.0.1", True),
        ("localhost:8080", "null", "127.0.0.1", True),
        ("localhost:8080", "http://localhost:9999", "127.0.0.1", True),
        ("evil.example:8080", "http://evil.example:8080", "127.0.0.1", True),
        ("192.168.1.5:8080", None, "127.0.0.1", True),
        ("192.168.1.5:8080", "http://192.168.1.5:8080", "0.0.0.0", False),
        ("evil.example:8080", "http://evil.example:8080", "0.0.0.0", True),
        ("", None, "127.0.0.1", True),
    ],
)
def test_foreign_hosts_and_origins(
    host: str, origin: str | None, served: str, refused: bool
) -> None:
    assert (refusal(host, origin, served) is not None) == refused


@pytest.mark.parametrize(("kind", "answer"), [("http", 413), ("websocket", 1009)])
def test_what_is_sent_has_a_limit(kind: str, answer: int) -> None:
    """A body without a length, in pieces, and a message over the socket."""
    sent: list[Any] = []

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(100):
            await receive()

    async def receive() -> dict[str, Any]:
        if kind == "http":
            return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}
        return {"type": "websocket.receive", "text": "x" * 1_000_001}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "headers": [(b"host", b"localhost:8080")]}
    asyncio.run(Guard(reader, "127.0.0.1")(scope, receive, send))
    assert sent[0].get("status", sent[0].get("code")) == answer


def test_the_command_says_who_can_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("falcon_snn.studio.page.serve", lambda *given: served.append(given))
    words = ["studio", "--no-browser", "--port", "18734"]
    said = CliRunner().invoke(app, [*words, "--host", "0.0.0.0", "--graph", "examples/mlp.toml"])
    assert "everyone who can reach port 18734 of this machine can use the" in said.output
    assert served[0][3].name == OWN
    said = CliRunner().invoke(app, [*words, "--pretrained", "embedded-tiny", "--schedule", "full"])
    assert "everyone" not in said.output
    start, sample = served[1][3:5]
    assert (set(start.delays.values()), sample is None) == ({7}, False)
    words += ["--graph", "examples/mlp.toml", "--data", "embedded"]
    assert "there are no weights to run clips with" in str(CliRunner().invoke(app, words).exception)
