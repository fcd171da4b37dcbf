"""Bad input: a clear line on the error output, the right exit code, no traceback, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest
from helpers.command import Answer, command, environment, ladder, rows
from helpers.cu import plain, tiled, write
from helpers.kernels import MUTANTS

EMULATED = ("--backend", "emulated")
SMALL = (*EMULATED, "--shape", "33x17x9")

NO_NVRTC = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("cuda.bindings"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
"""Makes the bindings of a fresh interpreter unfindable, as on a machine without them."""


def refused(answer: Answer, code: int = 2) -> str:
    """The error output of a command that was refused; no traceback, nothing on standard output but notes."""
    assert answer.returncode == code, answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr
    return answer.stderr


COMMANDS = ["run", "check", "count"]


@pytest.mark.parametrize("name", [*COMMANDS, "list"])
def test_unknown_rung(name: str) -> None:
    errors = refused(ladder(name, "tiled_23"))
    assert "tiled_23" in errors
    assert "tiled_32" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("256", "'256' is not MxNxK; write for example 1000x512x77"),
        ("1x2x3x4", "is not MxNxK"),
        ("axbxc", "is not MxNxK"),
        ("1.5x2x3", "is not MxNxK"),
        ("", "is not MxNxK"),
        ("-1x2x3", "M is -1; sizes are 0 or more"),
        ("1x2x-3", "K is -3; sizes are 0 or more"),
    ],
)
def test_malformed_shape(name: str, shape: str, words: str) -> None:
    errors = refused(ladder(name, *EMULATED, "--shape", shape))
    assert words in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--backend", "gpu"), "'gpu'"),
        (("--profile", "h20"), "h200"),
        (("--profile", "no/such.toml"), "cannot read profile no/such.toml"),
        (("--timeout", "0"), "--timeout 0: give seconds, more than 0"),
        (("--timeout", "nan"), "--timeout nan: give seconds"),
        (("--timeout", "inf"), "--timeout inf: give seconds"),
        (("--timeout", "soon"), "--timeout"),
        (("--jobs", "0"), "--jobs 0: give 1 to 256"),
        (("--jobs", "1.5"), "--jobs"),
        (("--colour",), "--colour"),
        (("--shape",), "--shape"),
    ],
)
def test_options_are_validated(options: tuple[str, ...], words: str) -> None:
    backend = () if "--backend" in options else EMULATED
    assert words in refused(ladder("run", "naive", *backend, *options))


def test_check_options_are_validated() -> None:
    assert "--budget 0: give seconds" in refused(ladder("check", "naive", *EMULATED, "--budget", "0"))
    assert "--examples" in refused(ladder("check", "naive", *EMULATED, "--examples", "0"))


def test_unknown_command() -> None:
    assert "climb" in refused(ladder("climb"))


def test_no_such_file() -> None:
    errors = refused(ladder("run", "no/such.cu", *SMALL))
    assert "no/such.cu" in errors
    assert errors.count("\n") == 1


def test_a_folder_is_no_rung(tmp_path: Path) -> None:
    (tmp_path / "folder.cu").mkdir()
    assert "folder.cu" in refused(ladder("run", tmp_path / "folder.cu", *SMALL))


def test_malformed_declaration_names_file_line_and_key(tmp_path: Path) -> None:
    path = tiled(tmp_path, min_cc='"new"')
    line = 1 + path.read_text(encoding="utf-8").splitlines().index('// min_cc = "new"')
    errors = refused(ladder("run", path, *SMALL))
    assert f"{path}:{line}" in errors
    assert "min_cc" in errors


def test_a_kernel_that_does_not_compile_fails_alone_with_the_compilers_log(tmp_path: Path) -> None:
    path = plain(
        tmp_path,
        "broken.cu",
        kernel_text="__global__ void plain(const float* A, const float* B, float* C, "
        "int M, int N, int K) {\n  C[0] = undeclared;\n}\n",
    )
    out = tmp_path / "r.json"
    answer = ladder("run", "naive", path, "padded", *SMALL, "--json", out)
    errors = refused(answer, 1)
    assert 'identifier "undeclared" is undefined' in errors
    assert "broken.cu(" in errors
    found = rows(out)
    assert "undeclared" in found["broken"]["error"]
    assert found["broken"]["check"] is None
    assert found["naive"]["check"]["passed"]
    assert found["padded"]["check"]["passed"]


def test_a_wrong_rung_fails_alone_and_has_its_check_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    answer = ladder("run", "naive", MUTANTS / "last_k_missing.cu", *SMALL, "--json", out)
    errors = refused(answer, 1)
    assert "last_k_missing at 33x17x9 is WRONG: " in errors
    assert "C[row 0, column " in errors
    row = rows(out)["last_k_missing"]
    assert row["check"]["passed"] is False
    assert (row["traffic"], row["time_s"], row["placement"]) == (None, None, None)
    assert rows(out)["naive"]["check"]["passed"]


def test_a_kernel_fault_fails_alone(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    refused(ladder("run", MUTANTS / "store_unguarded.cu", "naive", *SMALL, "--json", out), 1)
    row = rows(out)["store_unguarded"]
    assert row["check"]["passed"] is False
    assert "store_unguarded.cu:" in row["check"]["failure"]
    assert rows(out)["naive"]["check"]["passed"]


def test_a_rung_that_never_ends_is_stopped_and_the_others_report(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    answer = ladder(
        "run", MUTANTS / "endless.cu", "naive", "padded", *SMALL, "--engine", "numpy", "--timeout", "4", "--json", out
    )
    errors = refused(answer, 1)
    found = rows(out)
    assert "no end after 4 s" in found["endless"]["error"]
    assert "no end after 4 s" in errors
    assert found["naive"]["check"]["passed"]
    assert found["padded"]["check"]["passed"]


def test_an_unsupported_shape_is_skipped_with_the_reason(tmp_path: Path) -> None:
    picky = tiled(tmp_path, "picky.cu", multiple="{ M = 1, N = 4, K = 1 }")
    out = tmp_path / "r.json"
    answer = ladder("run", picky, "naive", *SMALL, "--json", out)
    assert answer.returncode == 0
    reason = "rung picky needs N % 4 == 0; got N=17 (shape 33x17x9). Pad N to 20"
    assert reason in answer.stdout
    assert reason in rows(out)["picky"]["skipped"]


@pytest.mark.parametrize("name", ["run", "count"])
def test_when_every_rung_is_skipped_nothing_ran(name: str, tmp_path: Path) -> None:
    picky = tiled(tmp_path, "picky.cu", multiple="{ M = 1, N = 4, K = 1 }")
    assert "nothing ran: every rung was skipped" in refused(ladder(name, picky, *SMALL))


def test_a_rung_that_needs_a_newer_gpu_is_skipped(tmp_path: Path) -> None:
    new = tiled(tmp_path, "new.cu", min_cc="90")
    answer = ladder("run", new, "naive", *SMALL, "--profile", "t4")
    assert answer.returncode == 0
    assert "new 33x17x9: skipped: needs compute capability 9.0" in answer.stdout
    answer = ladder("check", new, *EMULATED, "--profile", "t4")
    assert "nothing was checked" in refused(answer)


@pytest.mark.parametrize("where", ["under_a_file", "a_folder"])
def test_an_unwritable_output_is_refused_before_any_rung_runs(where: str, tmp_path: Path) -> None:
    write(tmp_path / "file", "not a folder")
    out = tmp_path / "file" / "r.json" if where == "under_a_file" else tmp_path
    answer = ladder("run", "naive", *SMALL, "--json", out)
    errors = refused(answer)
    assert str(out) in errors
    assert "--json" in errors
    assert answer.stdout == ""
    assert (tmp_path / "file").read_text(encoding="utf-8") == "not a folder"


def test_an_unwritable_report_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "file", "not a folder")
    ladder("run", "naive", *SMALL, "--json", tmp_path / "r.json")
    errors = refused(ladder("report", tmp_path / "r.json", "--out", tmp_path / "file" / "report"))
    assert str(tmp_path / "file" / "report") in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [("nonsense", "is not JSON"), ("{}", "is not schema ladder/1"), ('{"schema": "ladder/1"}', "damaged")],
)
def test_a_file_that_is_no_result_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", text)
    errors = refused(ladder("report", path, "--out", tmp_path / "report"))
    assert words in errors
    assert not (tmp_path / "report").exists()


def test_a_report_of_nothing_says_how_to_make_results(tmp_path: Path) -> None:
    errors = refused(ladder("report", cwd=tmp_path))
    assert "ladder run --json docs/report/results.json" in errors


@pytest.mark.parametrize("name", COMMANDS)
def test_no_nvrtc(name: str, tmp_path: Path) -> None:
    write(tmp_path / "sitecustomize.py", NO_NVRTC)
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"
    errors = refused(ladder(name, "naive", *SMALL, env=env))
    assert "pip install" in errors
    assert errors.count("\n") == 1


def test_doctor_without_nvrtc_gives_the_fix(tmp_path: Path) -> None:
    write(tmp_path / "sitecustomize.py", NO_NVRTC)
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"
    answer = ladder("doctor", env=env)
    refused(answer, 1)
    assert "missing NVRTC: not found\n        fix: " in answer.stdout
    assert "pip install" in answer.stdout


@pytest.mark.parametrize("name", ["run", "check"])
def test_no_driver_with_the_cuda_backend(name: str) -> None:
    # An empty list of devices is how a machine with a GPU looks like one without.
    errors = refused(ladder(name, "naive", "--backend", "cuda", env=environment(CUDA_VISIBLE_DEVICES="")))
    assert "--backend emulated" in errors
    assert errors.count("\n") == 1


def test_counts_of_a_gpu_need_a_gpu() -> None:
    errors = refused(ladder("count", "naive", "--backend", "cuda", env=environment(CUDA_VISIBLE_DEVICES="")))
    assert "--backend emulated" in errors


def wait_for(stream: IO[str], words: str) -> str:
    """The first line that holds ``words``."""
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"the output ended without {words!r}")


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_keeps_the_finished_rungs(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    words = command(
        "run", "naive", MUTANTS / "endless.cu", "padded", *SMALL, "--engine", "numpy", "--jobs", "1", "--json", out
    )
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "naive 33x17x9: right")
        time.sleep(0.5)
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - began < 10
    assert errors == f"ladder: interrupted: 1 of 3 rungs had finished; their rows are in {out}\n"
    assert list(rows(out)) == ["naive"]
    assert rows(out)["naive"]["check"]["passed"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_rung_whose_process_is_killed_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    words = command(
        "run", MUTANTS / "endless.cu", "naive", "padded", *SMALL, "--engine", "numpy", "--jobs", "1", "--json", out
    )
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "Emulating")
        victim = worker_of(process.pid)
        time.sleep(2)
        os.kill(victim, signal.SIGSEGV)
        process.communicate(timeout=120)
    assert process.returncode == 1
    found = rows(out)
    assert found["endless"]["error"] == "crashed: its process was killed by SIGSEGV"
    assert found["naive"]["check"]["passed"]
    assert found["padded"]["check"]["passed"]


def worker_of(parent: int) -> int:
    """The process id of ``parent``'s worker, once it is there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        time.sleep(0.05)
    raise AssertionError("no worker was started")


def test_rows_are_on_disk_before_the_next_rung_ends(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    words = command(
        "run",
        "naive",
        MUTANTS / "endless.cu",
        *SMALL,
        "--engine",
        "numpy",
        "--jobs",
        "1",
        "--timeout",
        "5",
        "--json",
        out,
    )
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "[1/2]")
        assert list(rows(out)) == ["naive"]
        process.communicate(timeout=60)
    assert list(rows(out)) == ["naive", "endless"]


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_while_it_starts_is_one_line() -> None:
    code = "import ladder.cli.session as s, os, signal; s.prepare = lambda **_: os.kill(os.getpid(), signal.SIGINT)\n"
    code += "import time\nfrom ladder.cli import main\nraise SystemExit(main(['run', 'naive']))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment(), timeout=60
    )
    assert answer.returncode == 130
    assert "Traceback" not in answer.stderr


def test_an_earlier_file_survives_a_run_that_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    ladder("run", "naive", *SMALL, "--json", out)
    before = json.loads(out.read_text(encoding="utf-8"))
    refused(ladder("run", "no_such_rung", *SMALL, "--json", out))
    assert json.loads(out.read_text(encoding="utf-8")) == before
