"""`fovea emulate`: what it prints as the name of a kernel finds that kernel when it is given to --kernel."""

import json
import re

import pytest

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def nested(depth):
    """The mangled name of a tree of templates: Pair<Pair<..., Shape<1, 2>>, Shape<2, 3>>."""
    leaves = "".join(f"S2_IJLi{i}ELi{i + 1}EEEE" for i in range(depth))
    return "4Pair" + "IS1_" * (depth - 1) + "I5ShapeIJLi0EEE" + leaves


HIDDEN = "_ZN29_GLOBAL__N__fa7b15d6_4_a_cu_f"
# Symbols, by the name without template arguments: long and short, with lambdas, unnamed namespaces, overloads, and
# names in C that are types in C++'s mangling.
SYMBOLS = {
    f"_ZN7cutlass13device_kernelI{nested(120)}EEvT_Pf": "cutlass::device_kernel",
    f"_ZN7cutlass13device_kernelI{nested(121)}EEvT_Pf": "cutlass::device_kernel",
    f"_ZN7cutlass13device_kernelI{nested(30)}EEvT_Pf": "cutlass::device_kernel",
    f"_ZN7cutlass13device_kernelI{nested(3)}EEvT_Pf": "cutlass::device_kernel",
    f"{HIDDEN}5applyI{nested(60)}Z2goPfEUliE_EEvT0_S2_": "(anonymous namespace)::apply",
    f"{HIDDEN}5applyINS_3TagEZ2goPfEUliE_EEvT0_S2_": "(anonymous namespace)::apply",
    f"{HIDDEN}6hiddenEPf": "(anonymous namespace)::hidden",
    "_ZL3staI" + "9LongWords" * 130 + "EvT_": "sta",
    f"_Z5plain{nested(80)}": "plain",
    "_Z4workPf": "work",
    "_Z4workPi": "work",
    "f": "f",
    "i": "i",
    "C" * 1500: "C" * 1500,
    "_Z" + "0" * 1500: "_Z" + "0" * 1500,
}


@pytest.fixture
def several(run_fovea, tmp_path):
    """several(*options): runs `fovea emulate` on kernels of all the names, each of which traps."""
    kernels = "".join(f".visible .entry {symbol}() {{ trap; ret; }}\n" for symbol in SYMBOLS)
    (tmp_path / "kernels.ptx").write_text(HEAD + kernels)
    (tmp_path / "launch.json").write_text('{"launch": {"grid": 1, "block": 1}}')

    def run(*options, code=0):
        return run_fovea("emulate", tmp_path / "kernels.ptx", *options, code=code)

    def launch(name, code=1):
        return run("--launch", tmp_path / "launch.json", "--json", "--kernel", name, code=code)

    return run, launch


def line_of(symbol):
    return HEAD.count("\n") + 1 + list(SYMBOLS).index(symbol)


def test_every_listed_name_finds_its_kernel(several):
    run, launch = several
    listed = run().stdout.splitlines()
    assert len(listed) == len(SYMBOLS)
    for symbol, name in zip(SYMBOLS, listed, strict=True):
        (found,) = json.loads(launch(name).stdout)["found"]
        (finding,) = found["findings"]
        assert (finding["line"], finding["kernel"]) == (line_of(symbol), name)
        assert len(name) < 600


def test_templates_may_be_left_out(several):
    _, launch = several
    for symbol, name in SYMBOLS.items():
        namesakes = list(SYMBOLS.values()).count(name)
        done = launch(name, code=1 if namesakes == 1 else 2)
        if namesakes == 1:
            assert json.loads(done.stdout)["found"][0]["findings"][0]["line"] == line_of(symbol)
        else:
            assert f"{namesakes} kernels called {name}; choose one of " in done.stderr


def test_every_name_of_a_choice_finds_one_kernel(several):
    _, launch = several
    message = launch("cutlass::device_kernel", code=2).stderr
    names = re.findall("cutlass::device_kernel<#[0-9a-f]{8}>", message)
    lines = [json.loads(launch(name).stdout)["found"][0]["findings"][0]["line"] for name in names]
    assert lines == [line_of(symbol) for symbol in list(SYMBOLS)[:3]]
    assert "2 kernels called work; choose one of work(float*), work(int*)" in launch("work", code=2).stderr


def test_a_name_of_the_whole_source_finds_a_kernel_that_is_shown_in_short(several):
    run, launch = several
    listed = run().stdout.splitlines()
    symbols = list(SYMBOLS)
    assert listed[0].startswith("cutlass::device_kernel<#") and listed[0] != listed[1]
    pairs = "Pair<" * 30 + "Shape<0>" + "".join(f", Shape<{i}, {i + 1}> >" for i in range(30))
    done = launch(f"void cutlass::device_kernel<{pairs} >({pairs}, float*)")
    assert json.loads(done.stdout)["found"][0]["findings"][0]["line"] == line_of(symbols[2])


def test_places_in_shared_memory_of_a_long_kernel_have_short_names(emulate):
    symbol = f"_ZN7cutlass13device_kernelI{nested(120)}EEvT_Pf"
    variable = f"_ZZ{symbol[2:]}E4tile"
    ptx = HEAD + (
        f".visible .entry {symbol}() {{ .reg .b32 %r<3>; .shared .align 4 .b8 {variable}[512];\n"
        f"mov.u32 %r1, %tid.x; st.shared.u32 [{variable}+16], %r1; ret; }}\n"
    )
    report = emulate(ptx, {"launch": {"grid": 1, "block": 64}}, code=1)
    finding = next(f for found in report["found"] for f in found["findings"] if f.get("other"))
    assert finding["place"] == "tile[4]"
