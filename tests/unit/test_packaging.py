"""What is shipped, declared and promised outside the code: the wheel, pyproject.toml, the Makefile, the README."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.kernels import emulator
from packaging.requirements import Requirement

from ladder.catalog import load_catalog, parse_file
from ladder.check import prove
from ladder.cli.app import app
from ladder.model import Shape
from ladder.nvrtc import compile_rung
from ladder.store import load

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def distribution(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return found[0].lower()


DECLARED = {distribution(line) for line in PROJECT["project"]["dependencies"]}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def unpacked(wheel: Path) -> Path:
    """The wheel's content, as an installation lays it out."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``ladder`` command of an environment that holds the wheel and links to its dependencies."""
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.EnvBuilder(with_pip=False).create(home)
    paths = sysconfig.get_paths("venv", vars={"base": str(home), "platbase": str(home)})
    (python,) = Path(paths["scripts"]).glob("python.exe" if os.name == "nt" else "python")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    # Only now, or pip would find them there; and without the checkout's own installation.
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        link = Path(paths["purelib"]) / package.name
        if package.suffix != ".pth" and "matmul_ladder" not in package.name and not link.exists():
            link.symlink_to(package, target_is_directory=package.is_dir())
    (command,) = Path(paths["scripts"]).glob("ladder*")
    return command


def test_the_wheel_holds_every_cuda_source_and_every_data_file(unpacked: Path) -> None:
    for source in (ROOT / "cuda_src").rglob("*.cu*"):
        assert (unpacked / "ladder" / "cuda_src" / source.relative_to(ROOT / "cuda_src")).is_file()
    for path in (ROOT / "ladder").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert (unpacked / path.relative_to(ROOT)).is_file()


def test_the_wheel_holds_nothing_else(unpacked: Path) -> None:
    top = sorted(path.name for path in unpacked.iterdir())
    assert top == ["ladder", f"matmul_ladder-{PROJECT['project']['version']}.dist-info"]


def test_the_wheel_works_without_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ladder", "run", "naive", "--backend", "emulated", "--shape", "5x6x7"]
    env = os.environ | {"PYTHONPATH": str(unpacked)}
    answer = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stderr
    where = "import ladder.catalog as c; print(c.cuda_src())"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()) == unpacked / "ladder" / "cuda_src"


def ladder(command: Path, folder: Path, *words: str) -> str:
    """What the installed command prints, called in ``folder``."""
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    answer = subprocess.run(
        [command, *words], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_an_installed_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    (python,) = installed.parent.glob("python.exe" if os.name == "nt" else "python")
    code = "import ladder, ladder.catalog as c; print(ladder.__file__); print(c.cuda_src()); print(ladder.__version__)"
    words = [python, "-c", code]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    file, sources, version = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    home = installed.parents[1]
    assert Path(file).is_relative_to(home)
    assert Path(sources).is_relative_to(home)
    assert version == PROJECT["project"]["version"]
    assert ladder(installed, tmp_path, "--version") == f"ladder {version}\n"


def test_an_installed_wheel_lists_checks_and_runs(installed: Path, tmp_path: Path) -> None:
    listed = ladder(installed, tmp_path, "list")
    names = [rung.name for rung in load_catalog()]
    assert [name for name in names if name not in listed] == []
    emulated = ("--backend", "emulated", "--engine", "numpy")  # building C for each kernel takes longer than it saves
    checked = ladder(installed, tmp_path, "check", "tiled_32", *emulated)
    assert re.search(r"tiled_32: right: \d+ products tried, none wrong", checked)
    ran = ladder(installed, tmp_path, "run", "--shape", "128x128x128", *emulated, "--json", "r.json")
    assert [name for name in names if name not in ran] == []
    runs = load(tmp_path / "r.json").runs
    assert [run.rung for run in runs] == names
    assert all(run.skipped is not None or (run.check is not None and run.check.passed) for run in runs)
    assert sum(run.skipped is None for run in runs) >= 12
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t"]
    subprocess.run([*build, "sdist", "-d", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for name in ("README.md", "LICENSE", "Makefile", "tests/conftest.py", "bench/peers.py", "docs/method.md"):
        assert (source / name).is_file()
    subprocess.run([*build, "wheel", "-d", str(tmp_path)], cwd=source, check=True, capture_output=True)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


def third_party() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "ladder").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module or "")
            for name in names:
                top = name.partition(".")[0]
                if top and top not in sys.stdlib_module_names and top != "ladder":
                    yield path, top


def test_every_import_is_a_declared_dependency() -> None:
    # cuda.core is a dependency, cuda.bindings comes with an extra: one for each major version of CUDA.
    # Pillow, which matplotlib brings, is imported as PIL.
    known = DECLARED | {"cuda"} | ({"pil"} if "pillow" in DECLARED else set())
    undeclared = {(str(path.relative_to(ROOT)), name) for path, name in third_party() if name.lower() not in known}
    assert undeclared == set()


def test_dependencies_have_lower_bounds_and_admit_what_is_installed_elsewhere() -> None:
    elsewhere = {"cuda-core": "1.2.0", "cuda-bindings": "13.3.1", "nvidia-cuda-nvrtc": "13.0.88", "numpy": "2.5.2"}
    extras = PROJECT["project"]["optional-dependencies"]
    for line in (*PROJECT["project"]["dependencies"], *extras["cu13"]):
        requirement = Requirement(line)
        assert any(part.operator == ">=" for part in requirement.specifier), line
        if requirement.name in elsewhere:
            assert requirement.specifier.contains(elsewhere[requirement.name]), line


def test_python_versions() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"


def make(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=ROOT,
        env=os.environ | changes,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_make_help_lists_the_targets() -> None:
    output = make("help").stdout
    for target in ("setup", "ladder", "test", "test-gpu", "lint", "report", "clean"):
        assert re.search(rf"^  make {target} +\S", output, re.MULTILINE)


@pytest.mark.parametrize("target", ["ladder", "test", "lint", "report", "test-gpu"])
def test_an_interpreter_that_has_the_packages_needs_no_set_up(target: str) -> None:
    plan = make("--dry-run", target, "PYTHON=python3", "VENV=")
    assert plan.returncode == 0, plan.stderr
    assert "pip" not in plan.stdout
    assert "venv" not in plan.stdout
    assert "python3 -m" in plan.stdout


@pytest.mark.parametrize("target", ["ladder", "test", "lint", "report", "test-gpu", "setup"])
def test_every_target_sets_up_what_it_needs(target: str, tmp_path: Path) -> None:
    plan = make("--dry-run", target, f"VENV={tmp_path / 'venv'}", "CUDA=12").stdout
    assert f"python3 -m venv {tmp_path / 'venv'}" in plan
    assert '--editable ".[cu12]" --group dev' in plan


def test_make_refuses_a_cuda_that_has_no_bindings() -> None:
    answer = make("setup", "CUDA=11")
    assert answer.returncode == 2
    assert "there are bindings for CUDA 12 and 13" in answer.stderr


def test_make_refuses_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9, 1)\n$2"\n', encoding="utf-8"
    )
    old.chmod(0o755)
    answer = make("setup", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert answer.returncode == 2
    assert f"needs Python 3.11 or newer and {old} is 3.9" in answer.stderr
    assert not (tmp_path / "venv").exists()


def test_make_says_when_there_is_no_python(tmp_path: Path) -> None:
    answer = make("setup", "PYTHON=no-such-python", f"VENV={tmp_path / 'venv'}")
    assert answer.returncode == 2
    assert "no no-such-python here: install Python 3.11 or newer" in answer.stderr


def test_the_readmes_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert targets
    # make ladder writes a report of this machine over the committed one, whose figures have other names.
    lost = [target for target in targets if not (ROOT / target).exists() and "docs/report/" not in target]
    assert lost == []


def test_the_readmes_commands_exist() -> None:
    commands = set(re.findall(r"^\.venv/bin/ladder (\w+)", README, re.MULTILINE))
    assert commands == {"list", "explain", "run", "count", "ceilings", "experiment", "new", "check", "report", "doctor"}
    assert commands <= {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}


def test_the_readmes_rung_is_right(tmp_path: Path) -> None:
    (source,) = re.findall(r"```cuda\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "mine.cu"
    path.write_text(source, encoding="utf-8")
    (rung,) = parse_file(path)
    backend = emulator()
    kernel = compile_rung(rung, arch=backend.device.arch)
    for shape in (Shape(m=35, n=79, k=19), Shape(m=16, n=16, k=16)):
        check = prove(backend, kernel, shape)
        assert check.passed, check.failure


def test_the_changelog_names_every_core_rung_file() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text
    for name in ("naive", "coalesced", "tiled", "tiled_conflict", "padded", "register_tile", "tile_product"):
        assert f"`{name}`" in text


def test_the_citation_states_no_version_that_could_drift() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert not re.search(r"^version:", text, re.MULTILINE)
    assert "cff-version: 1.2.0" in text
