"""A real HTTP server that answers what it was told to, in order, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Canned:
    """The answers still to give and the requests so far."""

    def __init__(self, url):
        self.url = url
        self.answers = deque()
        self.bodies = []
        self.headers = []
        self.paths = []

    def answer(self, status, body, **headers):
        """Queue an answer; *body* is JSON or a text."""
        text = body if isinstance(body, str) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, text, named))

    def complete(self, content, **choice):
        """Queue a chat completion."""
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        self.answer(
            200,
            {"choices": [{"message": message, "finish_reason": "stop"} | choice], "usage": usage},
        )

    def call_tool(self, arguments, name="Said"):
        """Queue a chat completion that calls a tool."""
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        self.complete(None, message=message, finish_reason="tool_calls")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        canned = self.server.canned
        body = self.rfile.read(int(self.headers["Content-Length"]))
        canned.paths.append(self.path)
        canned.headers.append(dict(self.headers))
        canned.bodies.append(json.loads(body))
        status, text, headers = canned.answers.popleft()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


@contextmanager
def canned_server():
    """Run the server for as long as this is open."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.canned = Canned(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.canned
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
