"""Opens pages in headless Chromium: serves a folder on loopback, loads a page, returns its DOM."""

import contextlib
import functools
import http.server
import shutil
import subprocess
import tempfile
import threading

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-quic",
         "--hide-scrollbars"]


def need_chromium():
    if not CHROMIUM:
        pytest.skip("no chromium here")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve(folder):
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def chromium(*args, size="1280,800", timeout=60):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={size}", *args],
            capture_output=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.decode("utf-8", "replace")


def dom(url, **kwargs):
    """The page's DOM once its scripts have settled."""
    return chromium("--virtual-time-budget=5000", "--dump-dom", url, **kwargs)


def screenshot(url, path, **kwargs):
    chromium("--virtual-time-budget=5000", f"--screenshot={path}", url, **kwargs)
