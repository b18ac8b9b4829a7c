"""pytest's plugin of Fovea: the fixture `emu` runs CUDA kernels in the emulator, with as many schedules as the command
line asks for.

    def test_saxpy(emu):
        emu.check("saxpy.cu", "saxpy", 4, 256, np.int32(1000), np.float32(2), x, y)

    @pytest.mark.emu(schedules=200)
    def test_a_pipeline(emu): ...

It is a module of its own, so that pytest does not load Fovea for tests without it."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --emu-schedules and --emu-seed."""
    group = parser.getgroup("fovea", "CUDA kernels in Fovea's emulator")
    group.addoption(
        "--emu-schedules", type=int, metavar="N", help="Schedules per kernel, in place of what the tests ask for"
    )
    group.addoption("--emu-seed", type=int, default=0, metavar="N", help="Seed of the first schedule")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker `emu`."""
    config.addinivalue_line("markers", "emu(schedules=10, seed=0): how the kernels of the test run in Fovea's emulator")


class Emulator:
    """The functions of fovea.emu, whose defaults are the test's marker and the command line."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        import fovea.emu

        self._module = fovea.emu
        self._defaults = defaults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def run(self, *arguments: Any, **options: Any) -> Any:
        """Does what fovea.emu.run does."""
        return self._module.run(*arguments, **self._defaults | options)

    def run_launches(self, *arguments: Any, **options: Any) -> Any:
        """Does what fovea.emu.run_launches does."""
        return self._module.run_launches(*arguments, **self._defaults | options)

    def check(self, *arguments: Any, **options: Any) -> Any:
        """Does what fovea.emu.check does."""
        return self._module.check(*arguments, **self._defaults | options)

    def run_triton(self, *arguments: Any, **options: Any) -> Any:
        """Does what fovea.emu.run_triton does."""
        return self._module.run_triton(*arguments, **self._defaults | options)

    def check_triton(self, *arguments: Any, **options: Any) -> Any:
        """Does what fovea.emu.check_triton does."""
        return self._module.check_triton(*arguments, **self._defaults | options)


@pytest.fixture
def emu(request: pytest.FixtureRequest) -> Emulator:
    """Runs CUDA kernels on the CPU: emu.check(source, kernel, grid, block, *arguments)."""
    marker = request.node.get_closest_marker("emu")
    defaults = dict(marker.kwargs) if marker is not None else {}
    schedules = request.config.getoption("--emu-schedules")
    if schedules is not None:
        defaults["schedules"] = schedules
    defaults["seed"] = defaults.get("seed", 0) + request.config.getoption("--emu-seed")
    return Emulator(defaults)
