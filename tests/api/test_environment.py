"""Options from the environment: only for the chosen command, shown by --help, named when something goes wrong."""

import json
import re

import pytest


def test_variables_set_the_options_of_commands_and_their_commands(run_fovea, model):
    assert json.loads(run_fovea("info", model, env={"FOVEA_JSON": "true"}).stdout)["layers"] > 0
    message = run_fovea("kernel", "run", "attention", code=2, env={"FOVEA_LEVEL": "fast"}).stderr
    assert "no level 'fast'" in message


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (["embed"], "FOVEA_BATCH_SIZE"),
        (["kernel", "check"], "FOVEA_GPU"),
        (["kernel", "profile"], "FOVEA_JSON"),
    ],
)
def test_help_names_the_variable(run_fovea, command, variable):
    assert re.search(rf"{variable}\b", run_fovea(*command, "--help").stdout)


def test_no_variable_overwrites(run_fovea, model):
    assert "OVERWRITE" not in run_fovea("embed", "--help").stdout
    arguments = ["init", "--preset", "tiny", "-o", model]
    assert "not empty" in run_fovea(*arguments, code=1, env={"FOVEA_OVERWRITE": "true"}).stderr


@pytest.mark.parametrize("variable", ["FOVEA_PRECISION=bf16", "FOVEA_BATCH_SIZE=1,2", "FOVEA_SEED=x"])
def test_variables_of_other_commands_are_left_alone(run_fovea, model, variable):
    run_fovea("info", model, env=dict([variable.split("=")]))


def test_wrong_values_are_told_with_their_variable(run_fovea, model):
    env = {"FOVEA_PRECISION": "fp4", "FOVEA_THREADS": "1"}
    message = run_fovea("embed", model, "photos", "-o", "out", code=2, env=env).stderr
    assert "--precision: 'fp4' is not one of" in message
    assert "from the environment: FOVEA_THREADS=1, FOVEA_PRECISION=fp4" in message
    # The command line has priority.
    message = run_fovea("embed", model, "photos", "-o", "out", "--precision", "fp5", code=2, env=env).stderr
    assert "'fp5'" in message and "FOVEA_PRECISION" not in message


def test_a_variable_has_one_meaning(run_fovea, model, tmp_path):
    """Lists of what to measure, outputs and types that differ from command to command are not taken."""
    env = {
        "FOVEA_PRECISION": "auto",
        "FOVEA_DTYPE": "f16",
        "FOVEA_BATCH_SIZE": "3",
        "FOVEA_OUTPUT": str(tmp_path / "no"),
    }
    bench = ["bench", model, "--seconds", "0.01", "--device", "cpu", "--json"]
    assert {figure["batch_size"] for figure in json.loads(run_fovea(*bench, env=env).stdout)["figures"]} == {1, 8, 32}
    assert "--output is required" in run_fovea("init", "--preset", "tiny", code=2, env=env).stderr
    assert "--output is required" in run_fovea("preprocess", model, "photos", code=2, env=env).stderr
    run_fovea("init", "--preset", "tiny", "-o", tmp_path / "model", env=env | {"FOVEA_DTYPE": "bf16"})
    assert json.loads(run_fovea("info", tmp_path / "model", "--json").stdout)["dtypes"] == ["F32"]


def test_misspelt_variables_are_told(run_fovea, model):
    message = run_fovea("info", model, env={"FOVEA_BATCHSIZE": "1", "FOVEA_OVERWRITE": "1", "FOVEA_CPU_ISA": ""}).stderr
    assert "FOVEA_BATCHSIZE is not a variable that Fovea knows; did you mean FOVEA_BATCH_SIZE?" in message
    assert "FOVEA_OVERWRITE in the environment is ignored" in message
    assert message.count("FOVEA_") == 3


def test_failures_name_the_variables_too(run_fovea, model, tmp_path):
    arguments = ["embed", "-m", model, "-o", tmp_path / "out", "photo.jpg", "--device", "cpu"]
    message = run_fovea(*arguments, code=1, env={"FOVEA_PRECISION": "int8"}).stderr
    assert "from the environment: FOVEA_PRECISION=int8" in message
    assert "environment" not in run_fovea(*arguments, "--precision", "int8", code=1).stderr
