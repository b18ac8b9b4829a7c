"""Options from the environment: only for the chosen command, shown by --help, named when something goes wrong."""

import json

import pytest


@pytest.fixture(scope="module")
def tiny(run_fovea, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_fovea("init", "--preset", "tiny", "--seed", "3", "-o", folder)
    return folder


def test_variables_set_the_options_of_commands_and_their_commands(run_fovea, tiny):
    assert json.loads(run_fovea("info", tiny, env={"FOVEA_JSON": "true"}).stdout)["layers"] > 0
    message = run_fovea("kernel", "run", "attention", code=1, env={"FOVEA_LEVEL": "fast"}).stderr
    assert "no level 'fast'" in message


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (["embed"], "FOVEA_BATCH_SIZE"),
        (["kernel", "check"], "FOVEA_GPU"),
        (["kernel", "profile"], "FOVEA_JSON"),
        (["kernel", "bench"], "FOVEA_JSON_FILE"),
    ],
)
def test_help_names_the_variable(run_fovea, command, variable):
    assert f"(Env:{variable})" in run_fovea(*command, "--help").stdout


def test_no_variable_overwrites(run_fovea, tiny):
    assert "OVERWRITE" not in run_fovea("embed", "--help").stdout
    arguments = ["init", "--preset", "tiny", "-o", tiny]
    assert "not empty" in run_fovea(*arguments, code=1, env={"FOVEA_OVERWRITE": "true"}).stderr


@pytest.mark.parametrize("variable", ["FOVEA_PRECISION=bf16", "FOVEA_BATCH_SIZE=1,2", "FOVEA_SEED=x"])
def test_variables_of_other_commands_are_left_alone(run_fovea, tiny, variable):
    run_fovea("info", tiny, env=dict([variable.split("=")]))


def test_wrong_values_are_told_with_their_variable(run_fovea, tiny):
    env = {"FOVEA_PRECISION": "bf16", "FOVEA_THREADS": "1"}
    message = run_fovea("calibrate", tiny, "photos", code=2, env=env).stderr
    assert "--precision: bf16 not in" in message
    assert "from the environment: FOVEA_PRECISION=bf16, FOVEA_THREADS=1" in message
    # The command line has priority.
    message = run_fovea("calibrate", tiny, "photos", "--precision", "fp4", code=2, env=env).stderr
    assert "FOVEA_PRECISION" not in message
    message = run_fovea("bench", "-m", tiny, code=2, env={"FOVEA_PRECISION": "fp32,fp4"}).stderr
    assert "FOVEA_PRECISION=fp32,fp4" in message


def test_failures_name_the_variables_too(run_fovea, tiny, tmp_path):
    arguments = ["embed", "-m", tiny, "-o", tmp_path / "out", "photo.jpg", "--device", "cpu"]
    message = run_fovea(*arguments, code=1, env={"FOVEA_PRECISION": "int8"}).stderr
    assert "from the environment: FOVEA_PRECISION=int8" in message
    assert "environment" not in run_fovea(*arguments, "--precision", "int8", code=1).stderr
