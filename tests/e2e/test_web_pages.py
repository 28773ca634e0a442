"""The web UI as the server hands it out, and the viewer in a single file."""

import base64
import gzip
import json
import re
import socket
import struct
import subprocess

import pytest

import browser
from conftest import BUILD

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
          "connect-src 'self'; worker-src 'self'; font-src 'none'; frame-ancestors 'none'; "
          "base-uri 'self'; form-action 'none'")
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
BUNDLE = BUILD / "web" / "web_assets.c.d" / "vesta_web_out"

# What people wait for: the scripts of the first page with all that Explore shows at first (its marks:
# classes of the timeline and of the flame graph), and each part that comes later.
FIRST_MAX, LATER_MAX = 60_000, 25_000
FIRST_SHOWN = "timeline-surface", "flame-canvas"

pytestmark = pytest.mark.skipif(not BUNDLE.exists(), reason="a build without the web UI")


def boot(page):
    return json.loads(re.search(rb'id="boot">(.*?)</script>', page)[1])


def assets(page):
    return ["/" + name for name in re.findall(r'"\./([^"]+\.\w+)"', page.decode())]


def raw(server, target, method="GET"):
    """The status of a request whose target no client would send."""
    with socket.create_connection(server.address, timeout=10) as s:
        s.sendall(f"{method} {target} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\n"
                  "connection: close\r\n\r\n".encode())
        answer = b""
        while part := s.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1])


def test_the_page_and_its_files(server):
    status, headers, page = server.get("/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"] == POLICY
    assert headers["cache-control"] == "no-cache" and headers["vary"] == "accept-encoding"
    assert headers["x-content-type-options"] == "nosniff"
    assert b'<base href="/">' in page and boot(page)["needs_token"] is False
    assert boot(page)["version"] and "grpc_port" not in boot(page)
    files = assets(page)
    assert any(name.endswith(".js") for name in files) and "/icon.svg" in files
    for name in files:
        status, headers, body = server.get(name)
        assert status == 200 and body, name
        assert headers["content-security-policy"] == POLICY
        kept = name.startswith("/assets/")
        assert headers["cache-control"] == ("public, max-age=31536000, immutable" if kept
                                            else "no-cache")
        kind = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
                ".svg": "image/svg+xml"}[name[name.rindex("."):]]
        assert headers["content-type"] == kind


def test_ports_of_otlp_are_told(new_server):
    server = new_server(otlp=True)
    told = boot(server.get("/")[2])
    assert [told["grpc_port"], told["http_port"]] == [int(u.rsplit(":", 1)[1])
                                                      for u in server.urls[1:]]


def unpacked(headers, body):
    coding = headers.get("content-encoding")
    if coding == "gzip":
        return gzip.decompress(body)
    if coding == "br":
        done = subprocess.run(
            ["node", "-e", "process.stdout.write(require('zlib').brotliDecompressSync("
             "require('fs').readFileSync(0)))"],
            input=body, capture_output=True, check=True)
        return done.stdout
    assert coding is None
    return body


def test_encodings_and_tags(server):
    script = next(name for name in assets(server.get("/")[2]) if name.endswith(".js"))
    plain = server.get(script)[2]
    tags = set()
    for accepted, coding in (("gzip, deflate, br, zstd", "br"), ("gzip", "gzip"), ("zstd", None),
                             ("br;q=0, gzip;q=0", None), ("identity", None)):
        status, headers, body = server.get(script, headers={"accept-encoding": accepted})
        assert status == 200 and headers.get("content-encoding") == coding, accepted
        assert headers["vary"] == "accept-encoding"
        assert unpacked(headers, body) == plain
        assert not coding or len(body) < len(plain) / 2
        tags.add(headers["etag"])
        for known in (headers["etag"], f'"x", W/{headers["etag"]}', "*"):
            status, again, body = server.get(
                script, headers={"accept-encoding": accepted, "if-none-match": known})
            assert (status, body, again["etag"]) == (304, b"", headers["etag"])
            assert again["cache-control"] == headers["cache-control"]
    assert len(tags) == 3
    assert server.get(script, headers={"if-none-match": '"x"'})[0] == 200


def test_the_page_is_packed_and_tagged(server):
    for accepted in ("", "gzip, br"):
        status, headers, page = server.get("/", headers={"accept-encoding": accepted})
        assert b'id="boot"' in unpacked(headers, page)
        assert server.get("/", headers={"accept-encoding": accepted,
                                        "if-none-match": headers["etag"]})[0] == 304


def test_places_within_the_page(server):
    page = server.get("/")[2]
    for place in ("/explore", "/compare", "/function", "/some/day/there/is/one",
                  "/explore?query=cpu%7B%7D&from=now-1h"):
        assert server.get(place, headers=HTML)[2] == page
        status, headers, body = server.get(place, headers={"accept": "application/json"})
        assert status == 404 and json.loads(body)["code"] == "not_found"
    for nothing in ("/api/v1/nothing", "/assets/nothing.js", "/assets/", "/favicon.ico",
                    "/index.php", "/v1/nothing"):
        status, headers, body = server.get(nothing, headers=HTML)
        assert status == 404 and json.loads(body)["code"] == "not_found", nothing
    assert server.post("/explore", headers=HTML)[0] == 404
    assert server.post("/")[0] == 405


def test_head(server):
    for name in ("/", "/explore", *assets(server.get("/")[2])):
        status, headers, body = server.get(name, headers=HTML)
        assert server.request("HEAD", name, headers=HTML)[0::2] == (status, b"")
        head = server.request("HEAD", name, headers=HTML)[1]
        head.pop("date"), headers.pop("date")
        assert head == headers


@pytest.mark.parametrize("path", [
    "/assets/../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd.txt", "/assets/..%2f..%2fx.js",
    "/assets/%00.js", "//assets/x.js", "/assets//etc/x.js", "/assets/%c0%ae%c0%ae/x.js",
    "/assets/x.js%0d%0aset-cookie:a=b", "/..", "/assets/" + "a" * 8000 + ".js", "/icon.svg/",
    "/./icon.svg", "/%69con.svg", "/assets/index-*.js"])
def test_hostile_paths_find_no_file(server, path):
    status = raw(server, path)
    # The last part of some has no dot: these are places within the page.
    assert status in (404, 400) or (status == 200 and "." not in path.rsplit("/", 1)[1])


def test_under_a_path_of_a_proxy(new_server):
    server = new_server("--external-url", "https://example.com/tools/vesta")
    page = server.get("/")[2]
    assert b'<base href="/tools/vesta/">' in page
    assert boot(page)["external_url"] == "https://example.com/tools/vesta"
    assert not re.findall(rb'(?:src|href)="/(?!tools/vesta/)', page)


def test_text_cannot_leave_its_place(new_server):
    url = 'https://example.com/a"><script>alert(1)</script><!--'
    server = new_server("--external-url", url)
    page = server.get("/")[2]
    assert boot(page)["external_url"] == url
    assert b"<script>alert" not in page and b"<!--" not in page and b'a">' not in page


def test_who_needs_a_token_is_told_and_gets_the_page(new_server):
    server = new_server("--auth", "on")
    page = server.get("/")[2]
    assert boot(page)["needs_token"] is True
    assert all(server.get(name)[0] == 200 for name in assets(page))
    assert server.get("/api/v1/services")[0] == 401


def test_browsers_of_this_machine_may_load_it(server):
    """As Chromium asks for the page, its modules and its styles."""
    host = f"localhost:{server.address[1]}"
    page = server.get("/", headers={**HTML, "host": host, "sec-fetch-site": "none",
                                    "sec-fetch-mode": "navigate"})
    assert page[0] == 200
    for name in assets(page[2]):
        for mode in ("cors", "no-cors"):
            asked = {"host": host, "sec-fetch-site": "same-origin", "sec-fetch-mode": mode,
                     "origin": f"http://{host}"}
            assert server.get(name, headers=asked)[0] == 200
            assert server.get(name, headers={**asked, "origin": "https://evil.example"})[0] == 403


def test_it_runs_in_a_browser(server):
    browser.need_chromium()
    for place in ("/", "/explore"):
        dom = browser.dom(server.url + place)
        assert re.search(r'<div id="app">\s*<', dom), dom[:2000]


# ---- Sizes


def imports(name, found):
    """What a script needs at once, itself first."""
    if name in found:
        return found
    found.append(name)
    text = (BUNDLE / "assets" / name).read_text()
    for other in re.findall(r'(?:from|import)\s*"\./([^"]+\.js)"', text):
        imports(other, found)
    return found


def packed(name):
    return len(gzip.compress((BUNDLE / "assets" / name).read_bytes(), 9))


def test_scripts_are_small():
    page = (BUNDLE / "index.html").read_text()
    first = []
    for name in re.findall(r'(?:src|href)="\./assets/([^"]+\.js)"', page):
        imports(name, first)
    assert first
    for mark in FIRST_SHOWN:
        holders = [path.name for path in (BUNDLE / "assets").glob("*.js")
                   if mark in path.read_text()]
        assert len(holders) == 1, f"{mark} is in {holders}"
        imports(holders[0], first)
    sizes = {name: packed(name) for name in first}
    assert sum(sizes.values()) <= FIRST_MAX, f"the first page has {sum(sizes.values())}: {sizes}"
    later = {path.name: packed(path.name) for path in (BUNDLE / "assets").glob("*.js")
             if path.name not in first}
    too_large = {name: size for name, size in later.items() if size > LATER_MAX}
    assert not too_large, f"parts over {LATER_MAX} bytes: {too_large}"


# ---- The viewer in a single file


def embedded(page):
    """What is told of it, the header of its tree, and the tree."""
    about = json.loads(re.search(r'id="about">(.*?)</script>', page)[1])
    packed_tree = re.search(r'id="profile">(.*?)</script>', page)[1]
    tree = gzip.decompress(base64.b64decode(packed_tree, validate=True))
    magic, version, length = struct.unpack_from("<8sII", tree)
    assert (magic, version) == (b"VESTATRE", 1)
    return about, json.loads(tree[16:16 + length]), tree


def check_page(page):
    """Nothing from elsewhere, and nothing that ends an element early."""
    assert page.count("<script") == page.count("</script") == 3
    policy = re.search(r'content-security-policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r'<(?:script|link|img)[^>]*(?:src|href)=', page)


def test_a_profile_in_one_file(vesta, corpus, tmp_path):
    source = corpus / "pprof" / "series" / "cpu-00.pb.gz"
    vesta("flame", source, "-o", tmp_path / "x.html", "--title", "a <b> & </script>", check=0)
    page = (tmp_path / "x.html").read_text()
    about, head, tree = embedded(page)
    total = vesta("info", "--json", source, check=0).json["sample_types"]
    assert about["title"] == "a <b> & </script>" and about["selection"] == source.name
    assert {about["type"]: about["total"]}.items() <= {t["type"]: t["total"] for t in total}.items()
    assert head["total"] == about["total"] and head["cut_nodes"] == 0
    assert str(tmp_path) not in page and str(corpus) not in page
    check_page(page)
    assert vesta("flame", source, "--format", "html", check=0).text.startswith("<!doctype html>")
    assert vesta("flame", source, check=0).text.startswith("<?xml")
    assert b"svg or html" in vesta("flame", source, "--format", "png", check=2).err


def test_a_difference_in_one_file(vesta, corpus, tmp_path):
    before, after = (corpus / "pprof" / "series" / f"cpu-0{i}.pb.gz" for i in range(2))
    vesta("diff", before, after, "-o", tmp_path / "a.html", check=0)
    vesta("flame", "-diff_base", before, after, "-o", tmp_path / "b.html", check=0)
    a, b = (embedded((tmp_path / name).read_text()) for name in ("a.html", "b.html"))
    assert a[2] == b[2] and {s["name"] for s in a[1]["sections"]} >= {"self", "before"}
    changes = vesta("diff", "--json", before, after, check=0).json
    assert a[1]["before"]["total"] == changes["total_before"]
    assert a[1]["after"]["total"] == changes["total_after"]
    vesta("diff", before, after, "-o", tmp_path / "a.svg", check=0)
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_the_server_makes_the_same_file(server, vesta, corpus, tmp_path):
    source = corpus / "pprof" / "series" / "cpu-00.pb.gz"
    vesta("push", "--url", server.url, "--service", "shop", source, check=0)
    query = "/api/v1/flame.html?query=cpu%7Bservice.name%3D%22shop%22%7D&from=0&until=now"
    status, headers, body = server.get(query)
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert 'filename="flame.html"' in headers["content-disposition"]
    assert "sandbox" in headers["content-security-policy"]
    about, head, tree = embedded(body.decode())
    check_page(body.decode())
    assert about["selection"].startswith('cpu{service.name="shop"}')
    vesta("flame", "-sample_index=cpu", source, "-o", tmp_path / "x.html", check=0)
    assert head["total"] == embedded((tmp_path / "x.html").read_text())[1]["total"]
    status, headers, body = server.post("/api/v1/file/flame.html?type=cpu", source.read_bytes())
    assert status == 200 and embedded(body.decode())[1]["total"] == head["total"]
    vesta("get", "--url", server.url, 'cpu{service.name="shop"}', "--from", "0",
          "-o", tmp_path / "y.html", check=0)
    assert embedded((tmp_path / "y.html").read_text())[1]["total"] == head["total"]


def test_it_opens_offline(vesta, corpus, tmp_path):
    """Chromium runs its script under its own policy, without a server, and shows what it is of."""
    browser.need_chromium()
    before, after = (corpus / "pprof" / "series" / f"cpu-0{i}.pb.gz" for i in range(2))
    vesta("flame", before, "-o", tmp_path / "a.html", "--title", "One side", check=0)
    vesta("diff", before, after, "-o", tmp_path / "b.html", check=0)
    for name, title in (("a.html", "One side"), ("b.html", "What changed")):
        dom = browser.dom(f"file://{tmp_path}/{name}")
        shown = dom[dom.index('id="app"'):dom.index("<noscript")]
        assert title in shown and "<canvas" in shown and 'role="tab"' in shown, shown[:2000]


def section(head, tree, name):
    """A section's bytes; offsets count from the start of the data."""
    length = struct.unpack_from("<I", tree, 12)[0]
    found = next(s for s in head["sections"] if s["name"] == name)
    return tree[16 + length + found["offset"]:][:found["bytes"]]


def test_the_server_compares_in_one_file(server, vesta, corpus, tmp_path):
    before, after = (corpus / "pprof" / "series" / f"cpu-0{i}.pb.gz" for i in range(2))
    for version, source in enumerate((before, after)):
        vesta("push", "--url", server.url, "--service", "shop", "--label",
              f"service.version={version}", source, check=0)
    side = "query=cpu%7Bservice.version%3D%22{}%22%7D"
    status, headers, body = server.get(
        f"/api/v1/diff.html?before_{side.format(0)}&after_{side.format(1)}&from=0&until=now")
    assert status == 200 and 'filename="diff.html"' in headers["content-disposition"]
    about, head, tree = embedded(body.decode())
    check_page(body.decode())
    assert about["type"] == "cpu" and "compared with" in about["selection"]
    sizes = f"before_bytes={before.stat().st_size}&after_bytes={after.stat().st_size}"
    status, headers, body = server.post(f"/api/v1/file/diff.html?type=cpu&{sizes}",
                                        before.read_bytes() + after.read_bytes())
    assert status == 200
    vesta("diff", "-sample_index=cpu", before, after, "-o", tmp_path / "x.html", check=0)
    for other in (body.decode(), (tmp_path / "x.html").read_text()):
        _, its_head, its_tree = embedded(other)
        assert its_head["before"]["total"] == head["before"]["total"]
        assert its_head["after"]["total"] == head["after"]["total"]
        assert its_head["has_statistics"] is True
        assert section(its_head, its_tree, "sure") == section(head, tree, "sure")


def test_names_are_never_markup(vesta, tmp_path):
    browser.need_chromium()
    hostile = '</script><img src=x onerror="document.title=1">;<!--<script>;main'
    (tmp_path / "x.folded").write_text(f"{hostile} 7\n")
    vesta("flame", tmp_path / "x.folded", "-o", tmp_path / "x.html", "--title", hostile, check=0)
    page = (tmp_path / "x.html").read_text()
    check_page(page)
    dom = browser.dom(f"file://{tmp_path}/x.html")
    assert "<img" not in re.sub(r"<script.*?</script>", "", dom, flags=re.S)
