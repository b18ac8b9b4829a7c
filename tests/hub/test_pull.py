"""`fovea pull` against a hub on loopback that cuts connections, lies and refuses."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from hub_server import COMMIT, Hub

WEIGHTS = "model.safetensors"
SIZE = 300_000


def make_files(weights=None):
    """A model's files. The content of the weights does not matter to the hub."""
    files = {
        "config.json": b'{"model_type": "siglip"}',
        "preprocessor_config.json": b'{"resample": 2}',
        "README.md": b"not needed",
        "tokenizer.json": b'{"model": {}}',
        "vocab.txt": b"not needed either",
    }
    files |= weights or {WEIGHTS: random.Random(0).randbytes(SIZE)}
    return files


@pytest.fixture
def hub():
    server = Hub(make_files())
    yield server
    server.close()


class Puller:
    def __init__(self, run_fovea, cache):
        self.run_fovea = run_fovea
        self.cache = cache
        self.model = cache / "models--org--name"
        self.snapshot = self.model / "snapshots" / COMMIT

    def environment(self, hub, **extra):
        return {"HF_HOME": str(self.cache.parent), "HF_ENDPOINT": hub.endpoint} | extra

    def __call__(self, hub, *arguments, code=0, env=None, **popen):
        return self.run_fovea(
            "pull",
            "org/name",
            *arguments,
            code=code,
            env=self.environment(hub, **(env or {})),
            **popen,
        )

    def blobs(self):
        return sorted(path.name for path in (self.model / "blobs").iterdir())

    def partial(self, hub, name=WEIGHTS):
        return self.model / "blobs" / (hub.etag(name) + ".incomplete")

    def check(self, hub):
        """Everything is there, and as it is on the hub."""
        needed = {n for n in hub.files if n.endswith((".safetensors", ".index.json"))}
        needed |= {"config.json", "preprocessor_config.json", "tokenizer.json"}
        assert {path.name for path in self.snapshot.iterdir()} == needed
        for name in needed:
            path = self.snapshot / name
            assert path.read_bytes() == hub.files[name]
            assert os.readlink(path) == f"../../blobs/{hub.etag(name)}"
        assert self.blobs() == sorted({hub.etag(name) for name in needed})


@pytest.fixture
def pull(run_fovea, tmp_path):
    return Puller(run_fovea, tmp_path / "hf" / "hub")


def test_layout_of_the_cache(hub, pull):
    result = pull(hub)
    assert result.stdout == f"{pull.snapshot}\n"
    pull.check(hub)
    assert (pull.model / "refs" / "main").read_text() == COMMIT
    assert not any(path.endswith(("README.md", "vocab.txt")) for _, _, path, _ in hub.requests)


def test_second_pull_downloads_nothing(hub, pull):
    pull(hub)
    hub.requests.clear()
    pull(hub)
    assert not hub.gets(WEIGHTS)
    pull.check(hub)


def test_damaged_blob_is_fetched_again(hub, pull):
    pull(hub)
    blob = pull.model / "blobs" / hub.etag(WEIGHTS)
    content = bytearray(blob.read_bytes())
    content[1000] ^= 1
    blob.write_bytes(content)
    pull(hub)
    pull.check(hub)


def test_sharded_model(pull):
    shards = {f"model-0000{i}-of-00002.safetensors": bytes([i]) * 5000 for i in (1, 2)}
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    index["weight_map"] |= dict.fromkeys("bcd", "model-00002-of-00002.safetensors")
    hub = Hub(make_files(shards | {"model.safetensors.index.json": json.dumps(index).encode()}))
    pull(hub)
    pull.check(hub)
    hub.close()


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", ".hidden", "", "absent.safetensors"])
def test_index_that_names_odd_shards(pull, name):
    index = json.dumps({"weight_map": {"a": name}}).encode()
    hub = Hub(make_files({"model.safetensors.index.json": index}))
    error = pull(hub, code=1).stderr
    assert "is not the name of a file in the same folder" in error or "the model has no absent.safetensors" in error
    hub.close()


def test_revisions(hub, pull):
    pull(hub, "--revision", "refs/pr/1")
    assert (pull.model / "refs" / "refs" / "pr" / "1").read_text() == COMMIT
    pull(hub, "--revision", COMMIT)
    assert not (pull.model / "refs" / COMMIT).exists()
    assert not (pull.model / "refs" / "main").exists()
    assert "--revision" in pull(hub, "--revision", "absent", code=1).stderr
    error = pull(hub, "--revision", "../../x", code=1).stderr
    assert "not the name of a branch" in error


def test_cut_connections_go_on_where_they_stopped(hub, pull):
    hub.cuts[WEIGHTS] = [70_000, 0, 100_000, 1]
    error = pull(hub).stderr
    pull.check(hub)
    offsets = [h.get("Range") for h in hub.gets(WEIGHTS)]
    assert offsets[0] is None
    assert "bytes=70000-" in offsets and "bytes=170000-" in offsets and "bytes=170001-" in offsets
    assert "trying again" in error


def test_retries_are_bounded_and_the_part_is_kept(hub, pull):
    hub.cuts[WEIGHTS] = [50_000] + [0] * 20
    error = pull(hub, "--retries", "2", code=1).stderr
    assert f"at 50000 of {SIZE} bytes" in error
    # One that brought something, and its two retries.
    assert [h.get("Range") for h in hub.gets(WEIGHTS)] == [None] + ["bytes=50000-"] * 2
    assert pull.partial(hub).stat().st_size == 50_000
    assert not pull.snapshot.exists()  # nothing half-done to be found
    hub.cuts.clear()
    hub.requests.clear()
    pull(hub)
    assert hub.gets(WEIGHTS)[-1]["Range"] == "bytes=50000-"
    pull.check(hub)


def test_killed_pull_goes_on(hub, pull, fovea_bin):
    hub.pauses[WEIGHTS] = threading.Event()
    env = os.environ | pull.environment(hub)
    process = subprocess.Popen([fovea_bin, "pull", "org/name"], env=env, stdout=subprocess.PIPE)
    assert hub.body_started.wait(20)
    process.send_signal(signal.SIGKILL)
    process.wait()
    hub.pauses.pop(WEIGHTS).set()
    pull(hub)
    pull.check(hub)


def test_server_that_ignores_ranges(hub, pull):
    hub.ignore_range.add(WEIGHTS)
    hub.cuts[WEIGHTS] = [70_000, 90_000]
    pull(hub)
    pull.check(hub)
    # The pull still gives up on a download that never gets further.
    shutil.rmtree(pull.model)
    hub.cuts[WEIGHTS] = [90_000] * 50
    assert "gave up" in pull(hub, "--retries", "3", code=1).stderr
    assert len(hub.cuts[WEIGHTS]) > 40


def test_leftovers_of_something_else(hub, pull):
    pull.partial(hub).parent.mkdir(parents=True)
    pull.partial(hub).write_bytes(b"x" * 1000)  # shorter, and wrong
    assert "damaged" in pull(hub).stderr
    pull.check(hub)
    shutil.rmtree(pull.model)
    pull.partial(hub).parent.mkdir(parents=True)
    pull.partial(hub).write_bytes(b"x" * (SIZE + 1))  # longer
    pull(hub)
    pull.check(hub)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_corrupted_bytes(hub, pull, name):
    hub.corrupt[name] = {"at": 10}
    error = pull(hub, code=1).stderr
    wrong = bytearray(hub.files[name])
    wrong[10] ^= 0xFF
    if name == WEIGHTS:
        got = hashlib.sha256(wrong).hexdigest()
    else:
        got = hashlib.sha1(b"blob %d\0" % len(wrong) + wrong).hexdigest()
    assert f"{hub.etag(name)}, got {got}" in error
    assert not pull.partial(hub, name).exists()
    assert not (pull.model / "blobs" / hub.etag(name)).exists()
    pull(hub)  # was a fault of the moment
    pull.check(hub)


@pytest.mark.parametrize("lie", [-1, 1, 1000])
def test_size_that_is_not_the_files(hub, pull, lie):
    hub.linked_sizes[WEIGHTS] = SIZE + lie
    error = pull(hub, code=1).stderr
    assert f"states {SIZE + lie} bytes" in error and str(SIZE) in error
    assert not (pull.model / "blobs" / hub.etag(WEIGHTS)).exists()
    assert not pull.snapshot.exists()


@pytest.mark.parametrize("extra", [b"", b"more than stated"])
def test_body_of_another_length_than_stated(hub, pull, extra):
    """Only the body itself can tell where there is no Content-Length."""
    hub.extra[WEIGHTS] = extra
    if not extra:
        hub.linked_sizes[WEIGHTS] = SIZE + 10
    error = pull(hub, "--retries", "1", code=1).stderr
    told = f"sent more than the {SIZE} bytes" if extra else "no bytes from"
    assert told in error
    assert not (pull.model / "blobs" / hub.etag(WEIGHTS)).exists()
    assert not pull.partial(hub).exists() or pull.partial(hub).stat().st_size == 0


@pytest.mark.parametrize("lie", [-1000, 1000])
def test_content_length_that_is_not_the_bodys(hub, pull, lie):
    hub.lengths[WEIGHTS] = SIZE + lie
    error = pull(hub, code=1).stderr
    assert f"the hub states {SIZE} bytes, but the server's reply makes it {SIZE + lie}" in error


def test_no_room_on_the_disk(hub, pull):
    hub.linked_sizes[WEIGHTS] = 10**18
    error = pull(hub, code=1).stderr
    assert "bytes free" in error and "HF_HUB_CACHE" in error
    assert not hub.gets(WEIGHTS)


def test_disk_that_fills_up(hub, pull):
    def limit():  # a write beyond fails with EFBIG, as a full disk does with ENOSPC
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    error = pull(hub, code=1, preexec_fn=limit).stderr
    assert ".incomplete: cannot write" in error
    assert pull.partial(hub).stat().st_size == 100_000  # kept: the next pull resumes
    pull(hub)
    assert hub.gets(WEIGHTS)[-1]["Range"] == "bytes=100000-"
    pull.check(hub)


def test_token_goes_to_the_hub_and_nowhere_else(hub, pull):
    hub.token = "hf_secret"
    pull(hub, env={"HF_TOKEN": " hf_secret\n"})
    pull.check(hub)
    hosts = set()
    for _, host, _, headers in hub.requests:
        hosts.add(host)
        expected = "Bearer hf_secret" if host == "127.0.0.1" else None
        assert headers.get("Authorization") == expected
    assert hosts == {"127.0.0.1", "localhost"}


def test_token_file(hub, pull):
    hub.token = "hf_from_file"
    pull.cache.parent.mkdir()
    (pull.cache.parent / "token").write_text("hf_from_file\n")
    pull(hub)
    pull.check(hub)


def test_gated_and_unknown_models(hub, pull, run_fovea):
    hub.token = "hf_secret"
    error = pull(hub, code=1, env={"HF_TOKEN": "hf_other"}).stderr
    assert "401" in error and "gated" in error and "HF_TOKEN" in error
    assert "hf_other" not in error
    hub.token = None
    error = run_fovea("pull", "org/absent", code=1, env=pull.environment(hub)).stderr
    assert "org/absent" in error and "does not exist" in error
    assert len(hub.requests) == 2  # neither was tried again


def test_overloaded_server(hub, pull):
    hub.statuses[""] = [503, 429]
    hub.statuses[WEIGHTS] = [500, 504]
    pull(hub)
    pull.check(hub)
    hub.statuses[""] = [503] * 9
    assert "503" in pull(hub, "--retries", "1", code=1).stderr
    assert len(hub.statuses[""]) == 7


def test_server_that_is_not_there(hub, pull):
    hub.close()
    error = pull(hub, "--retries", "1", code=1).stderr
    assert "HF_ENDPOINT" in error and str(hub.port) in error


def test_replies_that_are_no_hubs(hub, pull):
    hub.commit_header = "f" * 40
    assert "is for commit" in pull(hub, code=1).stderr
    hub.commit_header = COMMIT
    hub.etags[WEIGHTS] = "../../evil"
    assert "neither SHA-256 nor git SHA-1" in pull(hub, code=1).stderr
    hub.etags.clear()
    hub.revisions["main"] = "../.."
    assert "reply is not from a hub" in pull(hub, code=1).stderr


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", WEIGHTS])
def test_model_without_a_needed_file(pull, name):
    files = make_files()
    del files[name]
    hub = Hub(files)
    assert f"the model has no {name}" in pull(hub, code=1).stderr
    hub.close()


def test_offline(hub, pull):
    offline = {"HF_HUB_OFFLINE": "1"}
    assert "fovea pull org/name" in pull(hub, code=1, env=offline).stderr
    pull(hub)
    hub.requests.clear()
    assert pull(hub, env=offline).stdout == f"{pull.snapshot}\n"
    assert not hub.requests


def test_two_pulls_at_once_download_once(hub, pull, fovea_bin):
    hub.pauses[WEIGHTS] = threading.Event()
    env = os.environ | pull.environment(hub)

    def start():
        command = [fovea_bin, "pull", "org/name"]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    first = start()
    assert hub.body_started.wait(20)
    second = start()
    release = threading.Timer(20, hub.pauses[WEIGHTS].set)  # ends the test if nothing waits
    release.start()
    line = b""
    while b"waiting for another pull" not in line:
        line = second.stderr.readline()
        assert line and release.is_alive(), "the second pull did not wait"
    release.cancel()
    hub.pauses.pop(WEIGHTS).set()
    assert first.wait(60) == 0 and second.wait(60) == 0
    assert len(hub.gets(WEIGHTS)) == 1
    pull.check(hub)


def test_certificates(pull, tmp_path):
    pem = tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            pem,
            "-out",
            tmp_path / "cert.pem",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    with pem.open("ab") as stream:
        stream.write((tmp_path / "cert.pem").read_bytes())
    hub = Hub(make_files(), certificate=pem)
    error = pull(hub, code=1).stderr
    assert "certificate is not trusted" in error and "SSL_CERT_FILE" in error
    pull(hub, env={"SSL_CERT_FILE": str(tmp_path / "cert.pem")})
    pull.check(hub)
    hub.close()


def test_the_folder_is_all_that_stdout_gets(hub, pull):
    hub.cuts[WEIGHTS] = [70_000]
    result = pull(hub)
    assert result.stdout == f"{pull.snapshot}\n" and "trying again" in result.stderr


def test_transformers_finds_the_snapshot(pull, tmp_path):
    """A real, tiny model: pulled by Fovea, loaded by transformers without a network."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    config = transformers.SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=16,
    )
    model = transformers.SiglipVisionModel(config)
    model.save_pretrained(tmp_path / "model")
    SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "model")
    hub = Hub({path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()})
    pull(hub)
    hub.close()
    script = (
        "import sys, transformers\n"
        "model = transformers.SiglipVisionModel.from_pretrained('org/name')\n"
        "processor = transformers.AutoImageProcessor.from_pretrained('org/name')\n"
        "total = sum(parameter.double().sum().item() for parameter in model.parameters())\n"
        "print(total, processor.size['height'])\n"
    )
    env = os.environ | pull.environment(hub, HF_HUB_OFFLINE="1")
    result = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    total, height = result.stdout.split()
    expected = sum(parameter.double().sum().item() for parameter in model.parameters())
    assert float(total) == pytest.approx(expected, abs=1e-9) and height == "32"


def test_progress_while_the_hub_is_asked(pull, hub):
    hub.pauses[""] = threading.Event()
    threading.Timer(1.5, hub.pauses[""].set).start()
    told = pull(hub, "--progress", "json").stderr.splitlines()
    events = [event for event in map(json.loads, told) if event["event"] == "progress"]
    assert events[0]["stage"] == "asking the hub" and events[0]["total"] is None and events[0]["done"] == 0
