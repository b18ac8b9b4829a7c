"""A hub on loopback that answers with bodies without end, in drips, deep, long, or with escapes."""

from __future__ import annotations

import http.server
import json
import threading
import time
from random import Random

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "org/name"
PATHS = (
    "info",
    "config.json",
    "preprocessor_config.json",
    "model.safetensors.index.json",
    "model.safetensors",
)
_ESCAPE = "\x1b]0;owned\x07\u202e"


class Hub:
    """Answers well, but for the path `where` of PATHS, in `how` way of WAYS, with the status `status`."""

    WAYS = (
        "endless",
        "drip",
        "deep",
        "long",
        "headers",
        "header",
        "escapes",
        "cut",
        "silent",
        "redirect",
        "garbage",
    )

    def __init__(self, files: dict[str, bytes], where: str, how: str, status: int) -> None:
        self.files, self.where, self.how, self.status = files, where, how, status
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        name = "info" if self.path.startswith("/api/") else self.path.rpartition("/")[2]
        try:
            if name == self.hub.where:
                self.attack(name)
            else:
                self.answer_well(name)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def head(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()

    def answer_well(self, name: str) -> None:
        hub = self.hub
        if name == "info":
            siblings = [{"rfilename": file} for file in hub.files]
            body = json.dumps({"id": NAME, "sha": COMMIT, "siblings": siblings}).encode()
        elif name in hub.files:
            body = hub.files[name]
        else:
            self.head(404, ("Content-Length", "0"), ("X-Error-Code", "EntryNotFound"))
            return
        self.head(
            200,
            ("Content-Length", str(len(body))),
            ("X-Repo-Commit", COMMIT),
            ("ETag", '"%040x"' % (hash(name) & 0xFFFF)),
        )
        if self.command == "GET":
            self.wfile.write(body)

    def attack(self, name: str) -> None:
        hub, status = self.hub, self.hub.status
        head = getattr(self, "_" + hub.how, None)
        self.close_connection = True
        about = [("X-Repo-Commit", COMMIT), ("ETag", f'"{7:040x}"')]
        if self.command == "HEAD" and status == 200 and hub.how in ("endless", "drip", "cut", "deep", "long", "silent"):
            self.head(200, *about, ("Content-Length", "100000000"))
        elif head is not None:
            head(status, about)

    def pour(self, block: bytes, pause: float = 0.0) -> None:
        while not self.hub.closing.is_set():
            self.wfile.write(block)
            self.wfile.flush()
            time.sleep(pause)

    def _endless(self, status, about) -> None:
        self.head(status, *about, ("Connection", "close"), ("Location", "/elsewhere"))
        self.pour(b" " * 65536)

    def _drip(self, status, about) -> None:
        self.head(status, *about, ("Content-Length", "100000000"))
        self.pour(b" ", 0.3)

    def _silent(self, status, about) -> None:
        self.hub.closing.wait(600)

    def _deep(self, status, about) -> None:
        body = b"[" * (31 << 20)
        self.head(status, *about, ("Content-Length", str(len(body))))
        self.wfile.write(body)

    def _long(self, status, about) -> None:
        entry = b'{"rfilename":"a.safetensors"},' if self.hub.where == "info" else b'"a.b.c.d":"model-1.safetensors",'
        start = b'{"siblings":[' if self.hub.where == "info" else b'{"weight_map":{'
        self.head(status, *about, ("Content-Length", str(len(start) + len(entry) * 6_000_000)))
        self.wfile.write(start)
        for _ in range(600):
            self.wfile.write(entry * 10_000)

    def _headers(self, status, about) -> None:
        self.send_response(status)
        for number in range(100_000):
            self.send_header(f"X-{number}", "x" * 50)
        self.end_headers()

    def _header(self, status, about) -> None:
        self.head(status, ("ETag", "x" * (1 << 20)), ("X-Error-Message", "x" * (1 << 20)), ("Content-Length", "0"))

    def _escapes(self, status, about) -> None:
        text = _ESCAPE.encode().decode("latin-1")
        self.head(
            status if status != 200 else 403,
            ("X-Error-Message", text),
            ("X-Error-Code", text),
            ("Location", "/" + text),
            ("Content-Length", "0"),
        )

    def _cut(self, status, about) -> None:
        self.head(status, *about, ("Content-Length", "100000000"))
        self.wfile.write(b"x" * 1000)

    def _redirect(self, status, about) -> None:
        self.head(302, *about, ("Location", self.path), ("Content-Length", "0"))

    def _garbage(self, status, about) -> None:
        self.wfile.write(b"\x1b]0;x\x07" * 1000)


def situations(random: Random) -> list[tuple[str, str, int]]:
    """(where, how, status), in random order."""
    every = [(where, how, status) for where in PATHS for how in Hub.WAYS for status in (200, 404, 302, 500)]
    random.shuffle(every)
    return every
