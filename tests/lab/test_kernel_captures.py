"""What a GPU computed of the cards' cases, and the emulator's comparison with it; here the emulator stands in for the
GPU."""

import json
import subprocess

import pytest

pytestmark = pytest.mark.usefixtures("with_kernels")

EXACT = ("search_pick", "q3_tiles40_rank50")
APPROXIMATE = ("layer_norm", "rows3_width768")


@pytest.fixture(scope="module")
def capture(run_fovea, tmp_path_factory):
    """capture(card, case): the file of what the emulator computes of it."""

    def make(card, case, *options):
        path = tmp_path_factory.mktemp("captures") / "emulator.captures"
        told = run_fovea(
            "kernel", "capture", card, "--case", case, "--device", "emu", "-o", str(path), "--json", *options
        )
        assert json.loads(told.stdout)["kept"] >= 1
        return path

    return make


def check(run_fovea, path, card, case, *options, code=0):
    return run_fovea(
        "kernel",
        "check",
        card,
        "--case",
        case,
        "--device",
        "emu",
        "--schedules",
        "1",
        "--captures",
        str(path),
        *options,
        code=code,
    )


def altered(path, change):
    """The file, with other bytes in what it compresses."""
    packed = path.read_bytes()
    plain = bytearray(
        subprocess.run(["zstd", "-d", "-q", "-c"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    )
    change(plain)
    other = path.with_name("altered.captures")
    other.write_bytes(subprocess.run(["zstd", "-q", "-c", "--content-size", f"--stream-size={len(plain)}"], input=plain, stdout=subprocess.PIPE, check=True).stdout)  # fmt: skip
    return other


@pytest.mark.parametrize("card, case", [EXACT, APPROXIMATE])
def test_the_same_outputs_are_the_same(run_fovea, capture, card, case):
    path = capture(card, case)
    told = json.loads(check(run_fovea, path, card, case, "--json").stdout)["captures"]
    assert told["device"] == "PTX emulator of sm_90a"
    [figures] = told["cards"]
    assert figures["card"] == card and figures["compared"] >= 1
    assert [figures[name] for name in ("differing", "changed", "missing", "differing_numbers", "ulps")] == [0] * 5
    assert figures["approximate"] == (figures["compared"] if card == APPROXIMATE[0] else 0)


@pytest.mark.parametrize("card, case", [EXACT, APPROXIMATE])
@pytest.mark.parametrize("options", [[], ["--words", "100000"]])
def test_another_word_is_found(run_fovea, capture, card, case, options):
    def change(plain):
        plain[-1] ^= 0x40  # of the last word that is kept: another exponent

    path = altered(capture(card, case, *options), change)
    told = check(run_fovea, path, card, case, code=1).stdout
    assert "FAIL" in told and "different from the output of PTX emulator of sm_90a" in told


def test_exact_outputs_are_compared_with_their_hash_too(run_fovea, capture):
    path = capture(*EXACT)

    def change(plain):
        words = int.from_bytes(plain[-4 * 5 - 8 : -4 * 5], "little")
        assert words == 5
        plain[-4 * 5 - 16] ^= 1  # of the hash before

    told = check(run_fovea, altered(path, change), *EXACT, code=1).stdout
    assert "the hash differs, although the 5 recorded words agree" in told


@pytest.mark.parametrize("differs", [False, True])
def test_a_difference_fails_also_when_the_kernel_has_changed(run_fovea, capture, differs):
    """Behind the hash of the code are the error, which is empty, the number of outputs, and bytes, hash and 5 words of
    one."""
    path = capture(*EXACT)

    def change(plain):
        plain[-4 * 5 - 6 * 8] ^= 1  # of the code's hash
        plain[-1] ^= 0x40 if differs else 0

    told = check(run_fovea, altered(path, change), *EXACT, "--json", code=int(differs))
    [figures] = json.loads(told.stdout)["captures"]["cards"]
    assert figures["compared"] >= 1 and figures["differing"] == figures["changed"] == int(differs)
    assert ("PTX has changed since" in told.stdout) == differs


def test_other_inputs_are_not_compared(run_fovea, capture):
    path = capture(*EXACT)
    assert "nothing was compared" in check(run_fovea, path, *EXACT, "--seed", "2", code=1).stderr
    assert "nothing was compared" in check(run_fovea, path, *APPROXIMATE, code=1).stderr


def test_captures_are_of_the_emulator_alone(run_fovea, tmp_path):
    assert "--device emu" in run_fovea("kernel", "check", "layer_norm", "--captures", "x", code=1).stderr
    missing = check(run_fovea, tmp_path / "none", *APPROXIMATE, code=1).stderr
    assert "none" in missing
