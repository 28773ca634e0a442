"""A server with everything going on at once: senders of every kind, questions, malformed requests
and clients that leave. The test runner runs this file three times: with the ordinary build, with
AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer (VESTA_BUILD says which).
"""

import http.client
import random
import socket
import threading
import time
import urllib.parse

import otlp_wire

SENDERS, ASKERS, SECONDS = 6, 4, 6
FOLDED = "main;serve;render {}\nmain;serve;query {}\nmain;idle {}\n"


class Load:
    def __init__(self, server):
        self.server = server
        self.end = time.monotonic() + SECONDS
        self.lock = threading.Lock()
        self.acknowledged = 0
        self.answers = {}
        self.trouble = []

    def count(self, kind, status):
        with self.lock:
            self.answers[kind, status] = self.answers.get((kind, status), 0) + 1

    def run(self, work):
        """Until time is over, each thread with a connection of its own and a fixed seed."""
        def go(seed):
            rng = random.Random(seed)
            connection = http.client.HTTPConnection(*self.server.address, timeout=60)
            try:
                while time.monotonic() < self.end:
                    work(rng, connection)
            except Exception as e:  # pylint: disable=broad-except
                self.trouble.append(repr(e))
            connection.close()
        return go

    def request(self, connection, kind, method, path, body=None, headers=None):
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        answer.read()
        self.count(kind, answer.status)
        return answer.status


def test_everything_at_once_loses_nothing_and_breaks_nothing(new_server):
    server = new_server("--limits-queue", "64")
    load = Load(server)

    def send(rng, connection):
        kind = rng.choice(["folded", "otlp", "traces"])
        if kind == "folded":
            body = FOLDED.format(rng.randrange(1, 99), rng.randrange(1, 99), time.time_ns() % 1000)
            query = urllib.parse.urlencode({
                "name": f"shop{{pod=p{rng.randrange(4)}}}", "from": time.time_ns(),
                "until": time.time_ns() + 10, "sampleRate": 100})
            status = load.request(connection, kind, "POST", f"/ingest?{query}", body)
            with load.lock:
                load.acknowledged += status == 200
        elif kind == "otlp":
            load.request(connection, kind, "POST", "/v1development/profiles",
                         otlp_wire.profiles([{"service.name": f"svc{rng.randrange(3)}"}]),
                         {"content-type": "application/x-protobuf"})
        else:
            load.request(connection, kind, "POST", "/v1/traces",
                         otlp_wire.traces("shop", ["GET /cart"]),
                         {"content-type": "application/x-protobuf"})

    def ask(rng, connection):
        path = rng.choice([
            "/api/v1/flame?query=cpu&from=now-1h", "/api/v1/top?query=cpu&from=now-5m",
            "/api/v1/timeline?query=cpu&by=service.name&from=now-10m", "/api/v1/labels",
            "/api/v1/profiles?format=ndjson&limit=50", "/api/v1/profile.pb.gz?query=cpu",
            "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds{}&from=now-1h",
            "/metrics", "/api/v1/services"])
        load.request(connection, "ask", "GET", path,
                     headers={"accept-encoding": rng.choice(["gzip", "zstd", "identity"])})

    def disturb(rng, connection):
        what = rng.randrange(4)
        if what == 0:
            load.request(connection, "bad", "POST", "/v1/pprof?service.name=x",
                         bytes(rng.randrange(256) for _ in range(200)))
        elif what == 1:
            load.request(connection, "bad", "POST", "/v1development/profiles", b"\xff" * 50,
                         {"content-type": "application/x-protobuf"})
        elif what == 2:  # leaves in the middle of a body
            with socket.create_connection(server.address) as s:
                s.sendall(b"POST /v1/pprof HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nabc")
        else:  # leaves before its answer
            with socket.create_connection(server.address) as s:
                s.sendall(b"GET /api/v1/flame?query=cpu HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(0.02)

    works = [send] * SENDERS + [ask] * ASKERS + [disturb] * 2
    threads = [threading.Thread(target=load.run(w), args=(i,)) for i, w in enumerate(works)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    assert not load.trouble, load.trouble
    wrong = {k: n for k, n in load.answers.items()
             if k[1] >= 500 or (k[0] == "bad") != (400 <= k[1] < 429)}
    assert not {k for k in wrong if k[1] not in (429, 404)}, load.answers
    assert load.acknowledged > 20, load.answers
    stored = server.metric('vesta_ingest_profiles_total{format="pyroscope-groups"}') + server.metric(
        'vesta_ingest_duplicates_total{format="pyroscope-groups"}')
    assert stored == load.acknowledged, (stored, load.answers)
    assert server.stop(timeout=60) == 0, server.log_text()
    for line in server.log_text().splitlines():
        assert "Sanitizer" not in line and "runtime error" not in line, line
