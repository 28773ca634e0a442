"""Tokens, tenants, roles and limits of a running server."""

import base64
import http.client
import json
import shutil
import ssl
import subprocess
import time

import pytest

from conftest import wait_for

STACKS = b"main;serve;parse 30\nmain;serve;render 70\n"


def token(vesta, data, *args):
    return vesta("token", "create", "--data", data, *args, check=0).text.strip()


def bearer(text, **more):
    return {"Authorization": f"Bearer {text}", **more}


def send(server, headers=None, service="shop", body=STACKS):
    return server.post(f"/api/v1/profiles?service.name={service}", body=body, headers=headers or {})


def services(server, headers=None):
    status, _, body = server.get("/api/v1/services", headers=headers or {})
    assert status == 200, body
    return [s["service"] for s in json.loads(body)["services"]]


def admin(server, method, path, body=None, headers=None):
    status, _, text = server.request(method, "/api/v1/admin/" + path,
                                     body=None if body is None else json.dumps(body),
                                     headers={"Content-Type": "application/json", **(headers or {})})
    return status, json.loads(text)


@pytest.fixture
def guarded(new_server, vesta, tmp_path):
    """A server with an operator's token."""
    operator = token(vesta, tmp_path / "data", "--tenant=*", "--roles=admin", "--name=root")
    server = new_server()
    server.operator = bearer(operator)
    return server


def test_a_server_without_tokens_is_open_to_this_machine(server):
    assert send(server)[0] == 200
    assert services(server) == ["shop"]
    assert admin(server, "GET", "tokens") == (200, {"tokens": []})
    forwarded = {"X-Forwarded-For": "10.0.0.1"}
    status, said = admin(server, "GET", "tokens", headers=forwarded)
    assert status == 403
    assert "callers on the server's machine" in said["error"]


def test_the_first_token_closes_the_door(server, vesta):
    assert send(server)[0] == 200
    read = token(vesta, server.data, "--roles=read")
    wait_for(lambda: send(server)[0] == 401, 2.5)
    status, headers, body = send(server)
    assert headers["www-authenticate"].startswith("Bearer")
    assert json.loads(body) == {
        "error": 'a token is needed: "authorization: Bearer TOKEN"', "code": "unauthenticated"}
    assert server.get("/healthz")[0] == 200
    assert services(server, bearer(read)) == ["shop"]
    status, _, body = send(server, bearer(read))
    assert status == 403
    assert json.loads(body)["error"] == 'this token may not do that: it has not the role "ingest"'


def test_a_token_is_taken_in_all_usual_ways(guarded, vesta):
    both = token(vesta, guarded.data, "--name=agent")
    basic = base64.b64encode(f"anyone:{both}".encode()).decode()
    wait_for(lambda: send(guarded, bearer(both))[0] == 200)
    for headers in (bearer(both), {"Authorization": f"Basic {basic}"}, {"X-Api-Key": both}):
        assert services(guarded, headers) == ["shop"]


def test_tenants_do_not_see_each_other(guarded):
    made = {}
    for tenant in ("acme", "beta"):
        status, answer = admin(guarded, "POST", "tokens", headers=guarded.operator,
                               body={"tenant": tenant, "roles": ["ingest", "read"]})
        assert status == 200
        made[tenant] = bearer(answer["token"])
        assert send(guarded, made[tenant], service=f"of-{tenant}")[0] == 200
    assert services(guarded, made["acme"]) == ["of-acme"]
    assert services(guarded, made["beta"]) == ["of-beta"]
    status, _, body = guarded.get("/api/v1/services",
                                  headers={**made["acme"], "X-Scope-OrgID": "beta"})
    assert status == 403
    assert b'for the tenant \\"acme\\", not for \\"beta\\"' in body
    assert services(guarded, {**guarded.operator, "X-Scope-OrgID": "beta"}) == ["of-beta"]
    status, _, body = guarded.get("/api/v1/services",
                                  headers={**guarded.operator, "X-Scope-OrgID": "../beta"})
    assert status == 400


def test_revoking_takes_effect_at_once_through_the_server(guarded):
    _, made = admin(guarded, "POST", "tokens", {"name": "ci", "roles": "read"}, guarded.operator)
    assert guarded.get("/api/v1/services", headers=bearer(made["token"]))[0] == 200
    assert admin(guarded, "DELETE", "tokens/" + made["id"], headers=guarded.operator)[0] == 200
    status, _, body = guarded.get("/api/v1/services", headers=bearer(made["token"]))
    assert status == 401
    assert json.loads(body)["error"] == "the token was revoked"
    status, said = admin(guarded, "DELETE", "tokens/abcd", headers=guarded.operator)
    assert status == 404


def test_revoking_in_the_data_directory_takes_two_seconds_at_most(guarded, vesta):
    text = token(vesta, guarded.data)
    ask = lambda: guarded.get("/api/v1/services", headers=bearer(text))[0]
    wait_for(lambda: ask() == 200, 2.5)
    vesta("token", "revoke", text.split("_")[1], "--data", guarded.data, check=0)
    wait_for(lambda: ask() in (401, 429), 2.5)


def test_expired_tokens_are_refused(guarded):
    _, made = admin(guarded, "POST", "tokens", {"roles": "read", "expires_in": "1s"},
                    guarded.operator)
    ask = lambda: guarded.get("/api/v1/services", headers=bearer(made["token"]))
    assert ask()[0] == 200
    wait_for(lambda: ask()[0] == 401)
    assert json.loads(ask()[2])["error"] == "the token has expired"


def test_guessing_is_slowed_down(guarded):
    for _ in range(20):
        assert guarded.get("/api/v1/services", headers=bearer("guess"))[0] == 401
    status, headers, body = guarded.get("/api/v1/services", headers=bearer("guess"))
    assert status == 429
    assert headers["retry-after"] == "60"
    assert "wrong tokens came from this address" in json.loads(body)["error"]
    assert guarded.get("/api/v1/services", headers=guarded.operator)[0] == 200


def test_an_admin_of_one_tenant_stays_there(guarded):
    _, made = admin(guarded, "POST", "tokens", {"tenant": "acme", "roles": "admin"},
                    guarded.operator)
    own = bearer(made["token"])
    assert admin(guarded, "POST", "tokens", {"tenant": "beta", "roles": "read"}, own)[0] == 403
    assert admin(guarded, "POST", "tokens", {"tenant": "*", "roles": "read"}, own)[0] == 403
    assert admin(guarded, "POST", "tokens", {"roles": "read"}, own)[0] == 200
    assert {t["tenant"] for t in admin(guarded, "GET", "tokens", headers=own)[1]["tokens"]} == {"acme"}
    root = admin(guarded, "GET", "tokens", headers=guarded.operator)[1]["tokens"][0]
    assert admin(guarded, "DELETE", "tokens/" + root["id"], headers=own)[0] == 404
    assert admin(guarded, "PUT", "tenants/acme", {"queries_max": 1000}, own)[0] == 403
    events = admin(guarded, "GET", "audit", headers=own)[1]["events"]
    assert events and {e["tenant"] for e in events} == {"acme"}


def test_tenants_have_limits_of_their_own(guarded):
    status, said = admin(guarded, "PUT", "tenants/slow",
                         {"profiles_per_second": 1, "max_age": "7d", "max_bytes": "1GiB"},
                         guarded.operator)
    assert (status, said["profiles_per_second"], said["max_age"]) == (200, 1, "7d")
    slow = {**guarded.operator, "X-Scope-OrgID": "slow"}
    codes = [send(guarded, slow, service=f"s{i}")[0] for i in range(15)]
    assert codes.count(200) in (10, 11) and codes[-1] == 429
    status, headers, body = send(guarded, slow)
    assert status == 429 and int(headers["retry-after"]) >= 1
    assert "tenant.profiles_per_second" in json.loads(body)["error"]
    assert send(guarded, guarded.operator)[0] == 200
    listed = admin(guarded, "GET", "tenants", headers=guarded.operator)[1]["tenants"]
    assert next(t for t in listed if t["name"] == "slow")["max_bytes"] == 1 << 30


def test_a_tenant_has_no_more_series_than_it_may(guarded):
    admin(guarded, "PUT", "tenants/small", {"series_max": 4}, guarded.operator)
    small = {**guarded.operator, "X-Scope-OrgID": "small"}
    answers = [send(guarded, small, service=f"s{i}") for i in range(5)]
    refused = [json.loads(body) for _, _, body in answers if b"the limit is 4" in body]
    assert refused and answers[0][0] == 200, answers
    assert send(guarded, small, service="s0")[0] == 200
    assert send(guarded, guarded.operator, service="s9")[0] == 200


@pytest.mark.parametrize("method, path, body, why", [
    ("POST", "tokens", {"roles": "king"}, '"king\\" is no role'),
    ("POST", "tokens", {}, "a token without roles is of no use"),
    ("POST", "tokens", {"roles": "read", "tenant": "a b"}, "the tenant is none"),
    ("POST", "tokens", {"roles": "read", "color": "red"}, 'there is no field "color"'),
    ("POST", "tokens", {"roles": "read", "expires_in": "soon"}, "a duration such as"),
    ("PUT", "tenants/a%2Fb", {}, "the tenant is none"),
    ("PUT", "tenants/a", {"max_bytes": -1}, ""),
    ("POST", "erase", {"query": "{}"}, '"from"'),
    ("POST", "erase", {"query": "{", "from": "0"}, ""),
    ("GET", "audit?limit=x", None, "limit is a number"),
])
def test_administration_refuses_what_cannot_be(guarded, method, path, body, why):
    status, said = admin(guarded, method, path, body, guarded.operator)
    assert status == 400, said
    assert why.replace('\\"', '"').lstrip('"') in said["error"] or why in said["error"]


def test_erasing_counts_first_and_then_erases(guarded):
    for service in ("shop", "shop", "cart"):
        assert send(guarded, guarded.operator, service=service,
                    body=STACKS + service.encode() + b";x %d\n" % time.monotonic_ns())[0] == 200
    wish = {"query": '{service.name="shop"}', "from": "now-1h"}
    assert admin(guarded, "POST", "erase", wish, guarded.operator) == (
        200, {"profiles": 2, "erased": False})
    assert sorted(services(guarded, guarded.operator)) == ["cart", "shop"]
    assert admin(guarded, "POST", "erase", {**wish, "confirm": True}, guarded.operator) == (
        200, {"profiles": 2, "erased": True})
    assert admin(guarded, "POST", "erase", wish, guarded.operator)[1]["profiles"] == 0


def test_everything_an_admin_does_is_written_down(guarded, vesta):
    _, made = admin(guarded, "POST", "tokens", {"name": "ci", "roles": "read"}, guarded.operator)
    admin(guarded, "DELETE", "tokens/" + made["id"], headers=guarded.operator)
    admin(guarded, "PUT", "tenants/acme", {"queries_max": 3}, guarded.operator)
    events = admin(guarded, "GET", "audit", headers=guarded.operator)[1]["events"]
    assert [e["action"] for e in events] == [
        "tenant.put", "token.revoke", "token.create", "token.create"]
    assert events[0]["actor"] == "root" and events[0]["peer"].startswith("127.0.0.1:")
    assert events[-1]["peer"] == "command line"
    text = (guarded.data / "audit.log").read_text()
    assert made["token"].split("_")[2] not in text
    assert admin(guarded, "GET", "audit?limit=1", headers=guarded.operator)[1]["events"] == events[:1]


def test_the_data_directory_holds_no_secret(guarded):
    _, made = admin(guarded, "POST", "tokens", {"name": "ci", "roles": "read"}, guarded.operator)
    secret = made["token"].split("_")[2].encode()
    for path in guarded.data.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path


def test_the_command_line_administers_a_server(guarded, vesta):
    env = {"VESTA_TOKEN": guarded.operator["Authorization"].split()[1]}
    made = vesta("token", "create", "--url", guarded.url, "--tenant=acme", "--name=ci",
                 "--roles=read", env=env, check=0).text.strip()
    assert guarded.get("/api/v1/services", headers=bearer(made))[0] == 200
    listed = vesta("token", "list", "--url", guarded.url, env=env, check=0).text
    assert "acme" in listed and "root" in listed and made.split("_")[2] not in listed
    vesta("token", "revoke", made.split("_")[1], "--url", guarded.url, env=env, check=0)
    assert guarded.get("/api/v1/services", headers=bearer(made))[0] == 401
    done = vesta("token", "list", "--url", guarded.url, env={"VESTA_TOKEN": "wrong"})
    assert done.code == 1 and b"the token is not known" in done.err


def test_tokens_without_a_server(vesta, tmp_path):
    data = tmp_path / "fresh"
    made = token(vesta, data, "--name=laptop", "--expires=90d", "--roles=ingest")
    listed = vesta("token", "list", "--data", data, check=0).text
    assert "laptop" in listed and "good" in listed and "ingest" in listed
    vesta("token", "revoke", made.split("_")[1], "--data", data, check=0)
    assert "revoked" in vesta("token", "list", "--data", data, check=0).text
    assert vesta("token", "revoke", "nope", "--data", data).code == 1
    assert vesta("token", "create", "--data", data, "--roles=king").code == 2
    assert vesta("token", "create").code == 2
    assert vesta("token").code == 2


def test_a_check_that_cannot_be_made_keeps_the_server_from_starting(vesta, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "catalog.db").write_bytes(b"not a database" * 100)
    listen = ["--listen=127.0.0.1:0", "--listen-otlp-grpc=off", "--listen-otlp-http=off"]
    done = vesta("server", "--data", data, *listen)
    assert done.code == 1
    assert b"tokens cannot be checked without the catalog" in done.err
    done = vesta("server", "--data", tmp_path / "d2", *listen, "--admin-token-file=/nowhere")
    assert done.code == 1
    assert b"could not read admin_token_file" in done.err


def test_an_admin_token_of_the_config_opens_everything(new_server):
    server = new_server(env={"VESTA_ADMIN_TOKEN": "correct-horse-battery"})
    assert server.get("/api/v1/services")[0] == 401
    assert admin(server, "GET", "tokens", headers=bearer("correct-horse-battery"))[0] == 200


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and what it has signed for a server and for a client named agent-7; with all that Python
    3.13 wants to see in them."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed, so there are no certificates to show")
    here = tmp_path_factory.mktemp("certificates")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new, "-keyout", here / "ca.key", "-out", here / "ca.pem",
            "-subj", "/CN=test CA", "-days", 2, "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name, subject in (("server", "/CN=localhost"), ("client", "/CN=agent-7")):
        (here / "extensions").write_text("subjectAltName=IP:127.0.0.1\nsubjectKeyIdentifier=hash\n"
                                         "authorityKeyIdentifier=keyid\n")
        openssl("req", *new, "-keyout", here / f"{name}.key", "-out", here / f"{name}.csr",
                "-subj", subject)
        openssl("x509", "-req", "-in", here / f"{name}.csr", "-CA", here / "ca.pem", "-CAkey",
                here / "ca.key", "-CAcreateserial", "-out", here / f"{name}.pem", "-days", 2,
                "-extfile", here / "extensions")
    return here


def over_tls(server, certificates, path, shows=None, method="GET", body=None, headers=None):
    """The status of a request over TLS; None when the handshake is refused."""
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if shows:
        context.load_cert_chain(certificates / f"{shows}.pem", certificates / f"{shows}.key")
    connection = http.client.HTTPSConnection(*server.address, context=context, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        connection.close()


def test_a_client_certificate_is_asked_for_and_may_stand_for_a_token(new_server, certificates):
    flags = [f"--tls-cert-file={certificates}/server.pem", f"--tls-key-file={certificates}/server.key",
             f"--tls-client-ca-file={certificates}/ca.pem", "--auth=on"]
    plain = new_server(*flags, data="plain")
    roles = new_server(*flags, "--tls-client-roles=ingest", data="roles")
    send = dict(path="/api/v1/profiles?service.name=shop", method="POST", body=STACKS)
    assert over_tls(plain, certificates, "/healthz") is None
    assert over_tls(plain, certificates, "/healthz", "client") == 200
    assert over_tls(plain, certificates, shows="client", **send) == 401
    assert over_tls(roles, certificates, shows="client", **send) == 200
    assert over_tls(roles, certificates, "/api/v1/services", "client") == 401
