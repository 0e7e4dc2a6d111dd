"""Hostile site: a site on another port that tries to attack a server from a browser."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from onceward.http.built_pages import built_assets

#: Each attempt reports what it could read; `target` is the address of the attacked server.
ATTEMPTS = """
const body = JSON.stringify({ notes: "planted" });
const asText = { method: "POST", headers: { "content-type": "text/plain" }, body };
const asJson = { method: "POST", headers: { "content-type": "application/json" }, body };
const read = async (path, options = {}) => {
  const answer = await fetch(target + path, options);
  return `${answer.type} ${await answer.text()}`;
};
const element = (tag, path, more = {}) => new Promise((resolve) => {
  const node = Object.assign(document.createElement(tag), more, { src: target + path });
  node.onload = () => resolve(tag === "iframe" ? framed(node) : `${tag} loaded`);
  node.onerror = () => resolve("");
  document.body.append(node);
});
const framed = (node) => {
  try { return node.contentDocument.documentElement.textContent; } catch { return ""; }
};
const form = (path) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.name = `frame-${path}`;
  const shape = Object.assign(document.createElement("form"),
    { method: "post", enctype: "text/plain", action: target + path, target: frame.name });
  // The famous trick: a text/plain form whose one field is a JSON document.
  shape.append(Object.assign(document.createElement("input"),
    { name: '{"notes":"planted","tags":["', value: '"]}' }));
  document.body.append(frame, shape);
  frame.onload = () => resolve(framed(frame));
  shape.submit();
});
const listen = (path) => new Promise((resolve) => {
  const source = new EventSource(target + path);
  source.onmessage = (event) => { source.close(); resolve(event.data); };
  source.onerror = () => { source.close(); resolve(""); };
});
const attempts = {
  read: () => read("/api/config"),
  "read opaque": () => read("/api/config", { mode: "no-cors" }),
  "read with cookies": () => read("/api/feedback", { credentials: "include" }),
  "post text": () => read("/api/feedback", asText),
  "post opaque": () => read("/api/feedback", { ...asText, mode: "no-cors" }),
  "post json": () => read("/api/feedback", asJson),
  "post with a token": () => read("/api/feedback",
    { ...asJson, headers: { ...asJson.headers, "X-CM-LAB-TOKEN": "guess" } }),
  "post an import": () => read("/api/runs/import", { ...asText, body: '{"path": "/"}' }),
  beacon: async () => void navigator.sendBeacon(target + "/api/feedback", body),
  form: () => form("/api/feedback"),
  events: () => listen("/api/feedback"),
  image: () => element("img", "/assets/icon.svg"),
  script: () => element("script", "/api/config"),
  module: () => element("script", "/assets/SCRIPT", { type: "module" }),
  frame: () => element("iframe", "/lab"),
};
const said = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try { said[name] = (await attempt()) ?? ""; } catch { said[name] = ""; }
}
return said;
"""
#: A script that the Lab's page loads.
SCRIPT = next(
    (name for name in built_assets() if name.startswith("lab-") and name.endswith(".js")), "lab.js"
)
ALL = f"async (target) => {{ {ATTEMPTS.replace('SCRIPT', SCRIPT)} }}"
WILLING = {"content-type": "text/javascript", "access-control-allow-credentials": "true"}


class _Site(BaseHTTPRequestHandler):
    """Answers everything, to everybody."""

    def do_GET(self) -> None:
        is_stream = "text/event-stream" in self.headers.get("accept", "")
        kind = {"content-type": "text/event-stream"} if is_stream else {}
        if self.path == "/":
            kind = {"content-type": "text/html"}
        if self.path.endswith(".svg"):
            kind = {"content-type": "image/svg+xml"}
        self._answer(b"data: 1\n\n" if is_stream else self._body(), {**WILLING, **kind})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(b"1", WILLING)

    def do_OPTIONS(self) -> None:
        self._answer(
            b"", {**WILLING, "access-control-allow-headers": "content-type, x-cm-lab-token"}
        )

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.path.endswith(".svg"):
            return b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
        return b"<!doctype html><title>Win</title>" if self.path == "/" else b"1"

    def _answer(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        origin = {"access-control-allow-origin": self.headers.get("origin", "*")}
        for name, value in {**headers, **origin}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def site() -> Iterator[int]:
    """Serve a hostile site; yield its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
