"""Answers that do not end within the limit of a call: of one request, or of all."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import BaseModel

from gralkord.config import Models
from gralkord.errors import AnswerTimeout, ModelOutage
from gralkord.providers.base import ChatMessage
from gralkord.providers.build import build_model
from gralkord.turns.retry import decide

TIMEOUT_SECONDS = 0.3


class Said(BaseModel):
    text: str


@contextmanager
def endless(words: bytes):
    """Run a server whose answers to what holds *words* never end."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if words in body:
                over.wait()
            message = {"role": "assistant", "content": '{"text": "Rome"}'}
            text = json.dumps(
                {
                    "choices": [{"message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
                }
            ).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
            except OSError:  # nobody waits for it any more
                self.close_connection = True

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"openai-compatible:m@http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


async def ask(spec, words):
    """Return what a model says to *words*, and what it has used."""
    model = build_model(Models(llm=spec, timeout_seconds=TIMEOUT_SECONDS), {})
    try:
        return await model.complete([ChatMessage("user", words)], Said)
    finally:
        await model.close()


async def test_one_answer_without_an_end_is_no_outage():
    """A model that answers other questions is not out: the item uses an attempt, and can end."""
    with endless(b"Where") as spec:
        with pytest.raises(AnswerTimeout, match="answers others") as caught:
            await ask(spec, "Where does Ann live?")
        assert decide(caught.value, 0).verdict == "count"
        assert await ask(spec, "Who lives in Rome?") == {"text": "Rome"}


async def test_a_model_that_answers_nothing_is_out():
    """A server that finishes no answer at all is an outage, which costs no attempt."""
    with endless(b"messages") as spec:
        with pytest.raises(ModelOutage, match=f"within {TIMEOUT_SECONDS:g} s") as caught:
            await ask(spec, "Where does Ann live?")
        assert decide(caught.value, 0).verdict == "wait"
