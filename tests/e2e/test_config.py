"""vesta config: checked, printed, explained; and what a server makes of it."""

import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def config(vesta, tmp_path):
    """config(verb, *flags, file=TEXT, env={}) runs `vesta config` where no file lies about."""

    def run(*args, file=None, env=None, check=0):
        if file is not None:
            path = tmp_path / "given.yaml"
            path.write_text(file)
            args = (*args, "--config", path)
        return vesta("config", *args, env={"VESTA_DATA": "/tmp/x", **(env or {})}, check=check)

    return run


def test_a_sound_file_is_called_sound(config, tmp_path):
    done = config("check", file="listen: ['127.0.0.1:0']\ntls:\n")
    assert done.text == f"sound: {tmp_path}/given.yaml\n"


@pytest.mark.parametrize("text, why", [
    ("lisen: [a]\n", 'line 1: there is no key "lisen"; did you mean "listen"?'),
    ("auth: on\ntls:\n  cert_fil: x\n",
     'line 3: there is no key "tls.cert_fil"; did you mean "tls.cert_file"?'),
    ("threads: many\n", 'line 1: threads is "many", where a whole number is expected'),
    ("retention: {profiles: 10s}\n", "line 1: retention.profiles is 10s, less than the least, 1m"),
    ("data: &b c\n", "line 1: anchors and aliases are not allowed here"),
    ("x: " + "[" * 3000 + "]" * 3000 + "\n", 'there is no key "x"'),
    ("limits:\n\tbody: 1MiB\n", "line 2, column 1: found character that cannot start any token (tabs"),
    ("mask: {rules: ['labels: /(/x/']}\n", 'mask rule "labels: /(/x/": bad regular expression "("'),
    ("#" * 300000, "is larger than the limit of 256 KiB"),
], ids=lambda text: text[:40])  # programs are told in their environment which test this is
def test_what_is_wrong_in_a_file_is_said_with_its_line(config, text, why):
    done = config("check", file=text, check=1)
    assert why in done.err.decode()
    assert done.out == b""


def test_what_cannot_work_is_refused_before_a_server_starts(config, vesta):
    for verb in (("config", "check"), ("config", "print"), ("server",)):
        done = vesta(*verb, "--tls-cert-file=a", env={"VESTA_DATA": "/tmp/x"})
        assert done.code != 0
        assert b"tls.cert_file is set without tls.key_file" in done.err


def test_usage_errors_have_their_own_exit_code(vesta):
    assert vesta("config").code == 2
    assert vesta("config", "frobnicate").code == 2
    assert b"check, print or doc" in vesta("config").err


def test_values_are_printed_with_where_they_come_from(config):
    done = config("print", "--threads", "3", file="threads: 1\nlog: {level: warn}\n",
                  env={"VESTA_LOG_FORMAT": "json", "OTEL_SERVICE_NAME": "me", "VESTA_THREADS": "2"})
    lines = {line.split(":")[0].strip(): line for line in done.text.splitlines()}
    assert lines["threads"].split("#")[1].strip() == "flag"
    assert "threads: 3" in lines["threads"]
    assert lines["level"].split("#")[1].strip() == "file, line 2"
    assert lines["format"].split("#")[1].strip() == "variable VESTA_LOG_FORMAT"
    assert lines["self_profile_service"].split("#")[1].strip() == "variable OTEL_SERVICE_NAME"
    assert lines["drain_timeout"].split("#")[1].strip() == "default"


def test_secrets_are_not_printed(config):
    done = config("print", "--debuginfo-urls=https://me:hunter2@example.com",
                  env={"VESTA_ADMIN_TOKEN": "hunter2-hunter2-hunter2"})
    assert "hunter2" not in done.text
    assert "# admin_token: (set, not shown)" in done.text


def test_what_is_printed_can_be_read_again(config):
    first = config("print", "--listen=:1", "--mask-rules=labels: /a,b/c/").text
    again = config("print", file=first).text
    strip = lambda text: [line.split(" #")[0].rstrip() for line in text.splitlines()[1:]]
    assert strip(first) == strip(again)


def test_a_file_is_looked_for_where_it_usually_lies(tmp_path):
    (tmp_path / "vesta.yaml").write_text("threads: 5\n")
    (tmp_path / "other.yaml").write_text("threads: 6\n")

    def printed(*args, **env):
        done = subprocess.run([BUILD / "vesta", "config", "print", *args], cwd=tmp_path,
                              env={"PATH": "/usr/bin", **env}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert printed().startswith("# file: vesta.yaml\n") and "threads: 5 " in printed()
    assert "threads: 6 " in printed(VESTA_CONFIG="other.yaml")
    assert "threads: 5 " in printed("--config", "vesta.yaml", VESTA_CONFIG="other.yaml")
    (tmp_path / "vesta.yaml").unlink()
    assert "threads: 0 " in printed()


def test_a_variable_with_a_typo_is_doubted(config):
    done = config("check", env={"VESTA_TLS_CERTFILE": "x"})
    assert b"VESTA_TLS_CERTFILE is not known; did you mean VESTA_TLS_CERT_FILE?" in done.err


def test_the_reference_page_is_what_the_program_says(vesta):
    assert vesta("config", "doc", check=0).text == (ROOT / "docs" / "config.md").read_text()


def test_help_lists_the_flags(vesta):
    text = vesta("config", "--help", check=0).text
    assert "--tls-cert-file" in text and "--config" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_server_reads_its_file_again_when_told(new_server, tmp_path):
    path = tmp_path / "vesta.yaml"
    path.write_text("tenant: {queries_max: 5}\n")
    server = new_server("--config", path)
    path.write_text("tenant: {queries_max: 6}\nlog: {level: oops}\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "log.level is \"oops\"" in server.log_text())
    assert "error the configuration stays as it is: " in server.log_text()
    path.write_text("tenant: {queries_max: 6}\nthreads: 1\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the configuration was read again" in server.log_text())
    assert "threads changes with a restart only" in server.log_text()
    assert "tenant.queries_max changes" not in server.log_text()
    assert server.get("/healthz")[0] == 200
