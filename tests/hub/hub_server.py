"""A Hugging Face hub on loopback, in a thread, that serves one model and misbehaves on demand.

Large files (*.safetensors) answer with a redirect to "localhost", another host than the hub's
"127.0.0.1" as far as a client can tell; so does the real hub with its content network.
"""

import collections
import hashlib
import http.server
import json
import ssl
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """State shared with the tests. Faults are keyed by file name ("" is the API's reply)."""

    def __init__(self, files, model="org/name", certificate=None):
        self.files = dict(files)
        self.model = model
        self.requests = []  # (method, host, path, headers)
        self.token = None  # when set, the hub asks for it
        self.revisions = {"main": COMMIT, "refs/pr/1": COMMIT, "v1.0": COMMIT, COMMIT: COMMIT}
        # Each is a list of answers, of which a request consumes one.
        self.statuses = collections.defaultdict(list)  # status to answer with
        self.cuts = collections.defaultdict(list)  # bytes of body after which to hang up
        # Each in force as long as it is there.
        self.corrupt = {}  # name -> byte position to flip; {"times": n} of them
        self.linked_sizes = {}  # name -> size stated in HEAD
        self.lengths = {}  # name -> Content-Length stated in GET
        self.etags = {}  # name -> etag stated in HEAD
        self.ignore_range = set()
        self.extra = {}  # name -> bytes sent after the file, without a Content-Length
        self.commit_header = COMMIT
        self.endless = {}  # name -> status whose body never ends
        self.drips = set()  # names whose bodies come at three bytes a second
        self.api_reply = None  # bytes sent in place of the model's description
        self.error_message = None  # the header of refusals
        self.pauses = {}  # name -> threading.Event to wait for before the body
        self.body_started = threading.Event()
        self.closing = threading.Event()

        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.scheme = "http" if certificate is None else "https"
        self.endpoint = f"{self.scheme}://127.0.0.1:{self.port}"
        serve = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        serve.start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def is_large(self, name):
        return name.endswith(".safetensors")

    def etag(self, name):
        content = self.files[name]
        return hashlib.sha256(content).hexdigest() if self.is_large(name) else git_sha1(content)

    def gets(self, name):
        """Headers of the GET requests that were answered with a file's bytes."""
        path = f"/cdn/{name}" if self.is_large(name) else f"/{self.model}/resolve/{COMMIT}/{name}"
        return [h for m, _, p, h in self.requests if m == "GET" and p == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.handle_request()

    def do_GET(self):
        self.handle_request()

    def handle_request(self):
        hub = self.hub
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        host = self.headers["Host"].split(":")[0]
        hub.requests.append((self.command, host, path, dict(self.headers)))
        if self.command == "GET" and self.misbehaves("" if "/api/" in path else path.rsplit("/", 1)[1]):
            return
        if path.startswith("/cdn/"):
            self.send_file(path.rsplit("/", 1)[1])
            return
        if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self.reply(401, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "Gated."})
            return
        api = f"/api/models/{hub.model}/revision/"
        files = f"/{hub.model}/resolve/"
        if path.startswith(api):
            self.send_info(path[len(api) :])
        elif path.startswith(files):
            commit, name = path[len(files) :].split("/", 1)
            if commit != COMMIT or name not in hub.files:
                self.reply(404, headers={"X-Error-Code": "EntryNotFound"})
            elif self.command == "HEAD":
                self.send_description(name)
            elif hub.is_large(name):
                self.reply(302, headers={"Location": self.cdn_url(name)})
            else:
                self.send_file(name)
        else:
            self.reply(401, headers={"X-Error-Message": "Invalid username or password."})

    def misbehaves(self, name):
        """Sends a body that does not end, or hardly; whether it did."""
        hub = self.hub
        if name not in hub.endless and name not in hub.drips:
            return False
        status = hub.endless.get(name, 200)
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", hub.endpoint)
        if name in hub.drips:
            self.send_header("Content-Length", str(len(hub.files.get(name, b" " * 1000))))
        self.end_headers()
        self.close_connection = True
        try:
            while not hub.closing.is_set():
                self.wfile.write(b" " if name in hub.drips else b" " * 4096)
                self.wfile.flush()
                if name in hub.drips:
                    hub.closing.wait(0.33)
        except OSError:
            pass  # the client has had enough
        return True

    def cdn_url(self, name):
        hub = self.hub
        return f"{hub.scheme}://localhost:{hub.port}/cdn/{name}?Signature=secret"

    def reply(self, status, body=b"", headers=None):
        self.send_response(status)
        if self.hub.error_message is not None and status >= 400:
            headers = (headers or {}) | {"X-Error-Message": self.hub.error_message}
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_info(self, revision):
        hub = self.hub
        if hub.api_reply is not None:
            self.reply(200, hub.api_reply)
        elif hub.statuses[""]:
            self.reply(hub.statuses[""].pop(0))
        elif revision not in hub.revisions:
            self.reply(404, headers={"X-Error-Code": "RevisionNotFound"})
        else:
            siblings = [{"rfilename": name} for name in hub.files]
            body = {"id": hub.model, "sha": hub.revisions[revision], "siblings": siblings}
            self.reply(200, json.dumps(body).encode())

    def send_description(self, name):
        hub = self.hub
        etag = hub.etags.get(name, hub.etag(name))
        headers = {"X-Repo-Commit": hub.commit_header}
        size = hub.linked_sizes.get(name, len(hub.files[name]))
        if hub.is_large(name):
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(size), "ETag": '"cdn"'}
            self.reply(302, headers=headers | {"Location": self.cdn_url(name)})
            return
        self.send_response(200)
        for key, value in (headers | {"ETag": f'W/"{etag}"', "Content-Length": str(size)}).items():
            self.send_header(key, value)
        self.end_headers()

    def send_file(self, name):
        hub = self.hub
        if hub.statuses[name]:
            self.reply(hub.statuses[name].pop(0))
            return
        content = bytearray(hub.files[name])
        fault = hub.corrupt.get(name)
        if fault is not None and fault.get("times", 1) > 0:
            fault["times"] = fault.get("times", 1) - 1
            content[fault["at"]] ^= 0xFF
        start = 0
        wanted = self.headers.get("Range")
        if wanted is not None and name not in hub.ignore_range:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.reply(416, headers={"Content-Range": f"bytes */{len(content)}"})
                return
        body = bytes(content[start:]) + hub.extra.get(name, b"")
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if name in hub.extra:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(hub.lengths.get(name, len(body))))
        self.end_headers()
        cut = hub.cuts[name].pop(0) if hub.cuts[name] else len(body)
        if name in hub.pauses:
            self.wfile.write(body[:1])
            self.wfile.flush()
            hub.body_started.set()
            hub.pauses[name].wait()
            body = body[1:]
        self.wfile.write(body[:cut])
        self.wfile.flush()
        self.close_connection = cut < len(body) or name in hub.lengths or name in hub.extra
