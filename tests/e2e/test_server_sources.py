"""Source files behind profiles: uploaded, mapped, linked."""

import gzip
import io
import json
import os
import tarfile
import urllib.parse

import pytest

from conftest import run_vesta


def tar_of(files, kind=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def put(server, body, status=200, method="PUT", **params):
    got, _, content = server.request(
        method, "/api/v1/sources?" + urllib.parse.urlencode(params), body=body)
    assert got == status, content
    return json.loads(content)


def source(server, file, status=200, **params):
    got, _, content = server.get(
        "/api/v1/source?" + urllib.parse.urlencode({"file": file, **params}))
    assert got == status, content
    return json.loads(content)


def test_uploaded_sources_are_found_by_commit_version_and_service(server):
    files = {"src/cart.c": b"int cart;\n", "./lib/cart.c": b"int lib;\n", "logo.png": b"\0\1",
             "../evil.c": b"x", "d/" * 60 + "deep.c": b"int deep;\n"}
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        said = put(server, gzip.compress(tar_of(files, kind)), service="shop", commit="abc")
        assert (said["stored"], said["skipped"]) == (3, 2) and said["why"]
    put(server, tar_of({"src/cart.c": b"int old;\n"}), service="shop", version="1.0")
    got = source(server, "/build/shop/src/cart.c", service="shop", commit="abc")
    assert (got["found"], got["path"], got["text"]) == ("uploaded", "src/cart.c", "int cart;\n")
    assert got["is_exact"]
    assert source(server, "/x/lib/cart.c", service="shop", commit="abc")["text"] == "int lib;\n"
    deep = source(server, "deep.c", service="shop", commit="abc")
    assert deep["text"] == "int deep;\n"
    assert source(server, "src/cart.c", service="shop", version="1.0")["text"] == "int old;\n"
    other = source(server, "src/cart.c", service="shop", version="9.9")
    assert other["found"] == "uploaded" and not other["is_exact"]
    assert source(server, "src/cart.c", service="till")["found"] == "none"
    assert source(server, "src/other.c", service="shop", commit="abc")["found"] == "none"
    put(server, b"int one;\n", service="shop", version="1.0", path="src/one.c", method="POST")
    assert source(server, "src/one.c", service="shop", version="1.0")["text"] == "int one;\n"
    sets = json.loads(server.get("/api/v1/sources")[2])["sets"]
    assert {(s["service"], s.get("commit"), s.get("version")) for s in sets} == {
        ("shop", "abc", None), ("shop", None, "1.0")}
    assert server.request("DELETE", "/api/v1/sources?service=shop&commit=abc")[0] == 200
    assert server.request("DELETE", "/api/v1/sources?service=shop&commit=abc")[0] == 404


def test_the_selection_says_whose_it_is_and_where_it_is_hosted(server):
    labels = urllib.parse.urlencode({
        "service.name": "shop", "commit": "abc123", "service.version": "1.0",
        "vcs.repository.url.full": "git@gitlab.example.com:x/shop.git"})
    assert server.post(f"/api/v1/profiles?{labels}", b"main;a 5\n")[0] == 200
    put(server, tar_of({"src/a.c": b"int a;\n"}), service="shop", commit="abc123")
    got = source(server, "/app/src/a.c", query='{service.name="shop"}', until="now+1m")
    assert (got["found"], got["commit"], got["service"]) == ("uploaded", "abc123", "shop")
    assert got["link"] == "https://gitlab.example.com/x/shop/-/blob/abc123/src/a.c"
    assert got["line_anchor"] == "#L"
    other = source(server, "/app/src/b.c", service="shop", until="now+1m", line=7)
    assert other["found"] == "none"
    assert other["link"] == "https://gitlab.example.com/x/shop/-/blob/abc123/src/b.c#L7"
    assert "link" not in source(server, "/usr/include/stdio.h", service="shop", until="now+1m")


def test_a_mapped_folder_is_read_and_never_left(new_server, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tmp_path / "secret.c").write_text("secret")
    (tree / "sub" / "a.c").write_text("int a;\n")
    (tree / "binary").write_bytes(b"\0")
    (tree / "large.c").write_bytes(b"x" * (3 << 20))
    (tree / "out.c").symlink_to(tmp_path / "secret.c")
    (tree / "away").symlink_to(tmp_path)
    os.mkfifo(tree / "pipe.c")
    server = new_server("--sources-map", f"/build={tree}", "--sources-link",
                        "https://code.example.com/{service}/{path}#{line}")
    got = source(server, "/build/sub/a.c", service="shop")
    assert (got["found"], got["text"], got["path"]) == ("map", "int a;\n", "sub/a.c")
    assert got["link"] == "https://code.example.com/shop/sub/a.c#1"
    for name in ("/build/../secret.c", "/build/sub/../../secret.c", "/build/out.c",
                 "/build/away/secret.c", "/build/binary", "/build/large.c", "/build/pipe.c",
                 "/build/sub", "/build/", "/build", "/buildx/sub/a.c", "/etc/passwd"):
        assert source(server, name)["found"] == "none", name


@pytest.mark.parametrize("body,params,why", [
    (b"no tar", {"service": "s", "version": "1"}, "tar"),
    (b"", {"service": "s", "version": "1"}, "no source file"),
    (tar_of({"a.png": b"\0"}), {"service": "s", "version": "1"}, "no source file"),
    (tar_of({"a.c": b"x" * 5000})[:3000], {"service": "s", "version": "1"}, "midway"),
    (b"x", {"version": "1", "path": "a.c"}, "service"),
    (b"x", {"service": "s", "path": "a.c"}, "version"),
    (b"x", {"service": "s", "version": "1", "path": "../a.c"}, "path"),
    (b"\0", {"service": "s", "version": "1", "path": "a.c"}, "text"),
])
def test_bad_uploads_are_refused(server, body, params, why):
    assert why in put(server, body, status=400, **params)["error"]
    assert json.loads(server.get("/api/v1/sources")[2])["sets"] == []


def test_the_limit_bites_and_is_named(new_server):
    server = new_server("--sources-limit", "1MiB")
    text = b"int a;\n" * 60000
    for version in "123":
        put(server, text, service="s", version=version, path="a.c")
    sets = json.loads(server.get("/api/v1/sources")[2])["sets"]
    assert sorted(s["version"] for s in sets) == ["2", "3"]
    many = tar_of({f"{i}.c": text for i in range(4)})
    assert "sources.limit" in put(server, many, status=413, service="s", version="4")["error"]
    assert not list(server.data.rglob(".incoming-*"))


def test_tenants_do_not_see_each_other(new_server):
    server = new_server("--tenant-trust-header")
    one = {"x-scope-orgid": "one"}
    assert server.request("PUT", "/api/v1/sources?service=s&version=1&path=a.c", body=b"x",
                          headers=one)[0] == 200
    found = {who: json.loads(server.get("/api/v1/source?file=a.c&service=s&version=1",
                                        headers={"x-scope-orgid": who})[2])["found"]
             for who in ("one", "two")}
    assert found == {"one": "uploaded", "two": "none"}


def test_the_command_line_sends_a_folder(server, tmp_path):
    tree = tmp_path / "tree"
    (tree / "src" / ".git").mkdir(parents=True)
    (tree / "src" / ".git" / "config").write_text("x")
    (tree / "src" / "a.c").write_text("int a;\n")
    (tree / ("n" * 90)).mkdir()
    (tree / ("n" * 90) / ("m" * 60 + ".c")).write_text("int long;\n")
    (tree / "b.o").write_bytes(b"\0")
    done = run_vesta("push", "--sources", tree, "--service", "shop", "--label", "version=2",
                     "--url", server.url, check=0)
    assert b"2 source files stored, 1 others left out" in done.err
    assert source(server, "src/a.c", service="shop", version="2")["text"] == "int a;\n"
    assert source(server, "m" * 60 + ".c", service="shop")["text"] == "int long;\n"
    assert run_vesta("push", "--sources", tree, "--url", server.url).code != 0
    assert run_vesta("push", "--sources", tree, "x.pb", "--url", server.url).code == 2
