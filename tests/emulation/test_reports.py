"""`fovea emulate`: findings as compilers print them and in SARIF, and the names that they have."""

import collections
import json
import re

import pytest

# Thread i writes element i of `tile` and reads another one's, at two lines of a source that is inlined.
SOURCE_LINES = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry _Z4sumsILi4EEvPj(.param .u64 to)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 _ZZ4sumsILi4EEvPjE4tile[512];
  .loc 1 10 3
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, _ZZ4sumsILi4EEvPjE4tile;
  add.s32 %r4, %r3, %r2;
  .loc 1 12 5
  st.shared.u32 [%r4], %r1;
  .loc 1 14 5
  ld.shared.u32 %r7, [_ZZ4sumsILi4EEvPjE4tile+508];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  .loc 1 15 5
  st.global.u32 [%rd3], %r7;
  ret;
}
.file 1 "/code/my kernels/sums.cu"
"""
LAUNCH = {
    "buffers": {"x": {"type": "u32", "shape": [8, 16], "compare": {"iota": {"start": 0}}}},
    "launch": {"kernel": "sums", "grid": 1, "block": 128, "arguments": [{"buffer": "x"}]},
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "sums.ptx").write_text(SOURCE_LINES)
    (tmp_path / "launch.json").write_text(json.dumps(LAUNCH))
    return ["emulate", "sums.ptx", "--launch", "launch.json"]


def test_findings_are_printed_as_compilers_do(run_fovea, files, tmp_path):
    done = run_fovea(*files, "--format", "gnu", code=1, cwd=tmp_path)
    lines = done.stdout.splitlines()
    errors = [line for line in lines if re.match(r"/code/my kernels/sums\.cu:1[24]: error: .*\[race\]$", line)]
    assert errors and "tile[127]" in errors[0] and "sums<4>" in errors[0]
    notes = [line for line in lines if re.match(r"/code/my kernels/sums\.cu:1[24]: note: earlier access: ", line)]
    assert len(notes) == len(errors)
    assert any(line.startswith("sums.ptx:1: error: buffer x: ") and line.endswith("[mismatch]") for line in lines)


def test_findings_are_written_as_sarif(run_fovea, files, tmp_path):
    run_fovea(*files, "--schedules", "5", "--all", "--sarif", "out.sarif", code=1, cwd=tmp_path)
    log = json.loads((tmp_path / "out.sarif").read_text())
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    results = run["results"]
    assert rules == {result["ruleId"] for result in results} >= {"race", "mismatch"}
    races = [result for result in results if result["ruleId"] == "race"]
    assert len(races) <= 2  # of the same two lines, whichever came first
    for race in races:
        (place,) = race["locations"]
        other = race["relatedLocations"][0]
        lines = {access["physicalLocation"]["region"]["startLine"] for access in (place, other)}
        assert lines == {12, 14}
        for access in (place, other):
            assert access["physicalLocation"]["artifactLocation"]["uri"] == "file:///code/my%20kernels/sums.cu"
            assert access["logicalLocations"][0]["name"] == "void sums<4>(unsigned int*)"
        assert race["level"] == "error" and race["properties"]["place"] == "tile[127]"
    # The file may be replaced, and what is clean has no results.
    run_fovea(*files, "--no-races", "--sarif", "out.sarif", code=1, cwd=tmp_path)
    launch = {**LAUNCH, "buffers": {"x": {"type": "u32", "shape": [8, 16]}}}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    run_fovea(*files, "--no-races", "--unwritten-stores", "--sarif", "out.sarif", cwd=tmp_path)
    assert json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"] == []


def test_files_below_the_current_folder_are_relative_in_sarif(run_fovea, files, tmp_path):
    (tmp_path / "sums.ptx").write_text(SOURCE_LINES.replace("/code/", f"{tmp_path}/x/../"))
    run_fovea(*files, "--sarif", "out.sarif", code=1, cwd=tmp_path)
    results = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    (place,) = next(result for result in results if result["ruleId"] == "race")["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20kernels/sums.cu"
    (tmp_path / "below").mkdir()
    above = [word.replace("sums.ptx", "../sums.ptx").replace("launch.json", "../launch.json") for word in files]
    run_fovea(*above, "--sarif", "out.sarif", code=1, cwd=tmp_path / "below")
    results = json.loads((tmp_path / "below/out.sarif").read_text())["runs"][0]["results"]
    (place,) = next(result for result in results if result["ruleId"] == "race")["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == f"file://{tmp_path}/x/../my%20kernels/sums.cu"


def test_json_has_the_names_of_places_and_kernels(emulate):
    report = emulate(SOURCE_LINES, LAUNCH, code=1)
    race = next(found for found in report["found"][0]["findings"] if found["kind"] == "race")
    assert race["place"] == "tile[127]"
    assert race["kernel"] == race["other"]["kernel"] == "void sums<4>(unsigned int*)"
    assert {race["source"], race["other"]["source"]} == {f"/code/my kernels/sums.cu:{line}" for line in (12, 14)}
    unwritten = SOURCE_LINES.replace("st.shared.u32 [%r4], %r1;", "")
    (finding,) = (each for each in emulate(unwritten, LAUNCH, code=1)["found"][0]["findings"] if "buffer" not in each)
    assert finding["kind"] == "uninitialised" and re.fullmatch(r"x\[[0246], 0\]", finding["place"])
    assert finding["count"] == 128


# The load at line 14 is in a header of the toolkit, which is inlined twice.
CHAIN = SOURCE_LINES.replace(
    "  .loc 1 14 5\n",
    """  .loc 1 30 3
  .loc 1 14 5, function_name $a, inlined_at 1 30 3
  .loc 2 219 9, function_name $b, inlined_at 1 14 5
  .loc 2 203 9, function_name $c, inlined_at 2 219 9
""",
).replace(".file 1", '.file 2 "/usr/local/cuda/include/cuda_pipeline_helpers.h"\n.file 1')


def test_the_line_outside_of_the_toolkit_leads(run_fovea, files, tmp_path):
    (tmp_path / "sums.ptx").write_text(CHAIN)
    command = (*files, "--schedules", "8", "--all")
    text = run_fovea(*command, code=1, cwd=tmp_path).stdout
    assert ", /code/my kernels/sums.cu:14 (inlined at /code/my kernels/sums.cu:30)" in text and "helpers" not in text
    gnu = run_fovea(*command, "--format", "gnu", "--sarif", "out.sarif", code=1, cwd=tmp_path).stdout
    notes = re.findall(r"^/code/my kernels/sums\.cu:14: error: .*\[race\]\n((?:.*: note: .*\n)+)", gnu, re.MULTILINE)
    assert notes and all(re.findall(r":(\d+): note: in", each) == ["30", "219", "203"] for each in notes)
    (run,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    related = [
        [place["physicalLocation"]["region"]["startLine"] for place in result["relatedLocations"]]
        for result in run["results"]
        if result["locations"][0]["physicalLocation"]["region"]["startLine"] == 14
    ]
    assert related and all(lines[:4] == [12, 30, 219, 203] for lines in related)
    for place in ("sums.cu:14", "sums.cu:30", "cuda_pipeline_helpers.h:219"):
        options = ("--ignore", f"race@{place}", "--unwritten-stores", "--json")
        report = json.loads(run_fovea(*files, *options, code=1, cwd=tmp_path).stdout)
        assert {found["kind"] for found in report["found"][0]["findings"]} == {"mismatch"}


def test_a_line_has_one_finding_and_the_json_has_all(run_fovea, emulate, files, tmp_path):
    load = "  ld.shared.u32 %r7, [_ZZ4sumsILi4EEvPjE4tile+508];\n"
    ptx = SOURCE_LINES.replace(load, 3 * load)
    options = ("--schedules", "8", "--all")
    count, lines = 0, []
    for outcome in emulate(ptx, LAUNCH, *options, code=1)["found"]:
        races = [found for found in outcome["findings"] if found["kind"] == "race"]
        count += len(races)
        counts = collections.Counter()
        for race in races:
            counts[race["source"], race["other"]["source"]] += race["count"]
        lines += counts.values()
    assert count > len(lines)
    (tmp_path / "sums.ptx").write_text(ptx)
    told = run_fovea(*files, *options, code=1, cwd=tmp_path).stdout
    told = [line for line in told.splitlines() if ": race: " in line]
    assert all("__syncthreads() (bar.sync)" in line or "__syncwarp() (bar.warp.sync)" in line for line in told)
    assert [int((re.search(r"\((\d+) times\)$", line) or [0, 1])[1]) for line in told] == lines


def test_clean_schedules_are_counted(run_fovea, emulate, files, tmp_path):
    # Every schedule has the race; several begin at a time.
    report = emulate(SOURCE_LINES, LAUNCH, "--schedules", "20", "--threads", "8", code=1)
    assert report["schedules_clean"] == 0 and len(report["found"]) == 1
    told = run_fovea(*files, "--schedules", "20", "--threads", "8", code=1, cwd=tmp_path).stdout
    assert re.match(r"0 of \d+ schedules? clean: ", told.splitlines()[-1])
    report = emulate(SOURCE_LINES, LAUNCH, "--ignore", "race", "--schedules", "20", "--all", code=1)
    assert report["schedules_clean"] + len(report["found"]) == report["schedules_run"] == 20
