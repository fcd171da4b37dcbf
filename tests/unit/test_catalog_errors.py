"""Every way to get a declaration wrong: refused with file, line, key, what is wrong and how to fix it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers import cu

from ladder.catalog import KEYS, parse_file
from ladder.errors import CatalogError

A = cu.ARGUMENTS


def refusal(path: Path) -> str:
    with pytest.raises(CatalogError) as caught:
        parse_file(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


# In `cu.tiled` the fence is line 1, title 2, kernel 3, params 4; a further key is line 5.
@pytest.mark.parametrize(
    ("keys", "line", "key", "what"),
    [
        ({"title": None}, 1, "title", "missing"),
        ({"kernel": None}, 1, "kernel", "missing"),
        ({"title": "3"}, 2, "title", "3 is not text"),
        ({"title": '" "'}, 2, "title", "is not text"),
        ({"title": '"tile {Q}"'}, 2, "title", "{Q} is no parameter"),
        ({"kernel": "[]"}, 3, "kernel", "is not text"),
        ({"kernel": '"tild"'}, 3, "kernel", "no __global__ function 'tild' in this file (found: tiled)"),
        ({"params": "3"}, 4, "params", "3 is not a table"),
        ({"params": "{ T = 16.0, NUM_THREADS = 256 }"}, 4, "params.T", "16.0 is not a 32-bit integer"),
        ({"params": "{ T = true, NUM_THREADS = 256 }"}, 4, "params.T", "True is not a 32-bit integer"),
        ({"params": "{ T = 4294967296, NUM_THREADS = 256 }"}, 4, "params.T", "4294967296 is not a 32-bit integer"),
        ({"params": "{ T = 0, NUM_THREADS = 256 }"}, 4, "params.T", "0 sets the launch"),
        ({"params": "{ T = 16 }"}, 4, "params", "NUM_THREADS not set (template <T, NUM_THREADS>)"),
        ({"params": None}, 1, "params", "T, NUM_THREADS not set"),
        ({"params": "{ T = 16, NUM_THREADS = 256, BK = 8 }"}, 4, "params.BK", "no such template parameter"),
        ({"params": "{ T = 16, NUM_THREADS = 2048 }"}, 4, "params", "2048 threads a block"),
        ({"sweep": "{ T = [16] }"}, 5, "sweep.T", "params sets it too"),
        ({"sweep": "{ BK = [16] }"}, 5, "sweep.BK", "no such template parameter"),
        ({"sweep": "[16]"}, 5, "sweep", "is not a table"),
        ({"sweep": "{}"}, 5, "sweep", "no parameter to sweep"),
        ({"sweep": "{ T = 16 }"}, 5, "sweep.T", "16 is not a list of integers"),
        ({"sweep": "{ T = [] }"}, 5, "sweep.T", "[] is not a list of integers"),
        ({"sweep": '{ T = ["a"] }'}, 5, "sweep.T", "is not a list of integers"),
        ({"sweep": "{ T = [16, 16] }"}, 5, "sweep.T", "[16, 16] repeats a value"),
        ({"params": None, "sweep": "{ T = [1, 2], NUM_THREADS = [32] }"}, 4, "sweep", "its lists have [1, 2] values"),
        ({"params": None, "sweep": "{ T = [16, -1], NUM_THREADS = [32, 32] }"}, 4, "sweep.T", "-1 sets the launch"),
        ({"params": None, "sweep": "{ T = [16], NUM_THREADS = [2048] }"}, 4, "sweep", "2048 threads a block"),
        ({"multiple": "4"}, 5, "multiple", "4 is not a table"),
        ({"multiple": "{ M = 0 }"}, 5, "multiple.M", "0 for M"),
        ({"multiple": "{ Q = 1 }"}, 5, "multiple.Q", "1 for Q"),
        ({"multiple": '{ M = "4" }'}, 5, "multiple.M", "'4' is not a 32-bit integer"),
        ({"min_cc": "7.5"}, 5, "min_cc", "7.5 is not an integer from 50 to 999"),
        ({"min_cc": "9"}, 5, "min_cc", "9 is not an integer from 50 to 999"),
        ({"block": "256"}, 5, "block", "256 is not a list of positive integers"),
        ({"block": "[]"}, 5, "block", "[] is not a list of positive integers"),
        ({"block": "[16, 0]"}, 5, "block", "[16, 0] is not a list of positive integers"),
        ({"block": "[1, 1, 1, 1]"}, 5, "block", "is not a list of positive integers"),
        ({"block": "[16, 8]"}, 5, "block", "[16, 8] is 128 threads but NUM_THREADS is 256"),
        ({"block": "[1, 1, 256]"}, 5, "block", "at most 1024, and 64 along z"),
        ({"tile": "[16]"}, 5, "tile", "[16] is not a list of positive integers"),
        ({"tile": "[32, 32]"}, 5, "tile", "[32, 32] contradicts the parameters' 16 x 16"),
        ({"blocks_per_sm": "33"}, 5, "blocks_per_sm", "33 is not an integer from 0 to 32"),
        ({"smem_bytes": '"48K"'}, 5, "smem_bytes", "'48K' is not arithmetic on integers and parameters"),
        ({"smem_bytes": '"4 * S"'}, 5, "smem_bytes", "S is no parameter (there are T, NUM_THREADS)"),
        ({"smem_bytes": '"T / 3"'}, 5, "smem_bytes", "`T / 3` is 16 / 3, which is no integer"),
        ({"smem_bytes": '"T / (T - 16)"'}, 5, "smem_bytes", "is 16 / 0, which is no integer"),
        ({"smem_bytes": '"T ** 2"'}, 5, "smem_bytes", "`T ** 2` uses something else than + - * /"),
        ({"smem_bytes": '"max(T, 4)"'}, 5, "smem_bytes", "`max(T, 4)` is neither an integer, nor a parameter"),
        ({"smem_bytes": '"4.0 * T"'}, 5, "smem_bytes", "`4.0` is neither an integer, nor a parameter"),
        ({"smem_bytes": '""'}, 5, "smem_bytes", "'' is not arithmetic"),
        ({"smem_bytes": '"-T"'}, 5, "smem_bytes", "'-T', which is -16, is not an integer from 0 to 232448"),
        ({"smem_bytes": '"T * 2000 * T"'}, 5, "smem_bytes", "which is 512000, is not an integer from 0 to 232448"),
        ({"smem_bytes": "[4]"}, 5, "smem_bytes", "[4] is not an integer from 0 to 232448"),
        ({"smem_bytes": "232449"}, 5, "smem_bytes", "232449 is not an integer"),
        ({"smem_bytes": "-1"}, 5, "smem_bytes", "-1 is not an integer"),
        ({"grid_z": "16"}, 5, "grid_z", "16 is not K over a parameter"),
        ({"grid_z": '"K/BK"'}, 5, "grid_z", "'K/BK' is not K over a parameter; write \"K/T\""),
        ({"grid_z": '"K/T"'}, 5, "grid_z", "blocks along z add to the same elements of C; add c_init"),
        ({"grid_z": '"M/T"'}, 5, "grid_z", "'M/T' is not K over a parameter"),
        ({"c_init": '"nan"'}, 5, "c_init", '\'nan\' is unknown; write "poison" or "zero"'),
        ({"ordered": "1"}, 5, "ordered", "1 is not a truth value"),
        ({"repeats": "false"}, 5, "repeats", "false contradicts ordered = true; remove one of the two"),
        ({"law": '"T/6"'}, 5, "law", '\'T/6\' is unknown; write "tile_product" or "c_stationary"'),
        ({"unit_roundoff": "0"}, 5, "unit_roundoff", "0 is not a number between 0 and 1"),
        ({"unit_roundoff": "true"}, 5, "unit_roundoff", "True is not a number"),
        ({"unit_roundoff": "nan"}, 5, "unit_roundoff", "nan is not a number between 0 and 1"),
        ({"cluster": "2"}, 5, "cluster", "unknown key; the keys are title, kernel"),
        ({"precision": '"bf16"'}, 5, "precision", '\'bf16\' is unknown; write "fp32" or "fp32_split" or "tf32"'),
        ({"arch": "90"}, 5, "arch", '90 is no architecture; write for example arch = "sm_90a"'),
        ({"arch": '"compute_90"'}, 5, "arch", "'compute_90' is no architecture"),
        ({"min_cc": "80", "arch": '"sm_90a"'}, 5, "min_cc", "80 contradicts arch = 'sm_90a'; remove one of the two"),
        ({"align_bytes": "12"}, 5, "align_bytes", "12 is no alignment; write one of 4, 8, 16, 32, 64, 128, 256"),
        ({"align_bytes": "true"}, 5, "align_bytes", "True is no alignment"),
        ({"align_bytes": "16.0"}, 5, "align_bytes", "16.0 is no alignment"),
        ({"tune": "{ Q = [1, 2] }"}, 5, "tune.Q", "no such template parameter (template <T, NUM_THREADS>)"),
        ({"tune": "{ T = [16, 0] }"}, 5, "tune.T", "[16, 0] is no choice; give distinct positive integers"),
        ({"tune": "{ T = [16, 16] }"}, 5, "tune.T", "[16, 16] is no choice"),
        ({"tune": "{ T = 16 }"}, 5, "tune.T", "16 is not a list of integers"),
        ({"tune": "[16]"}, 5, "tune", "is not a table"),
        ({"tma": '[{ of = "A", box = [16, 16] }]'}, 3, "kernel", "int K, const __grid_constant__ TensorMap map0), in"),
        ({"pack": "{}"}, 3, "kernel", "int K, const float* packed), in this order"),
        ({"grid": '"whole"'}, 5, "grid", "'whole' is unknown; write \"persistent\""),
        (
            {"grid": '"persistent"', "grid_z": '"K/T"', "c_init": '"zero"'},
            5,
            "grid",
            "a persistent grid has no z; remove one of",
        ),
        ({"Title": '"x"'}, 5, "Title", "unknown key"),
    ],
)
def test_a_bad_key_is_refused_with_its_line(
    tmp_path: Path, keys: dict[str, str | None], line: int, key: str, what: str
) -> None:
    path = cu.tiled(tmp_path, **keys)
    message = refusal(path)
    assert message.startswith(f"{path}:{line}: key '{key}': "), message
    assert what in message
    assert re.search(r"; \S", message), "says how to fix it"


@pytest.mark.parametrize(
    ("key", "what"), [("tile", "the C tile of a block is not known"), ("block", "the block size is not known")]
)
def test_a_launch_that_cannot_be_derived_is_refused(tmp_path: Path, key: str, what: str) -> None:
    path = cu.plain(tmp_path, **{key: None})
    assert refusal(path).startswith(f"{path}:1: key '{key}': {what}; add `{key} = ")


def test_params_without_a_template_are_refused(tmp_path: Path) -> None:
    assert "key 'params.T': the kernel has no such template parameter (no template)" in refusal(
        cu.plain(tmp_path, params="{ T = 16 }")
    )


def test_a_parameter_table_is_blamed_on_the_line_of_the_parameter(tmp_path: Path) -> None:
    text = '// /// rung\n// title = "x"\n// kernel = "tiled"\n// [params]\n// T = 16\n// NUM_THREADS = "many"\n// ///\n'
    path = cu.write(tmp_path / "x.cu", text + cu.TILED)
    assert refusal(path).startswith(f"{path}:6: key 'params.NUM_THREADS': 'many'")


@pytest.mark.parametrize(
    "template", ["typename F", "class F", "float F", "int... F", "int", "template <class> class F", "bool F"]
)
def test_a_template_parameter_that_is_no_integer_is_refused(tmp_path: Path, template: str) -> None:
    kernel = f"template <{template}>\n__global__ void tiled({A}) {{}}\n"
    message = refusal(cu.tiled(tmp_path, kernel_text=kernel, params="{ F = 1 }"))
    assert f"key 'kernel': template parameter `{template}` of tiled (line 7) is not a named integer" in message


@pytest.mark.parametrize(
    "arguments",
    [
        "const float* A, const float* B, float* C, int M, int N",
        "int M, int N, int K, const float* A, const float* B, float* C",
        "const float* A, const float* B, float* C, size_t M, size_t N, size_t K",
        "const double* A, const double* B, double* C, int M, int N, int K",
        "const float A, const float B, float C, int M, int N, int K",
        "const float** A, const float* B, float* C, int M, int N, int K",
        "int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C",
        "",
    ],
)
def test_a_kernel_with_other_arguments_is_refused(tmp_path: Path, arguments: str) -> None:
    message = refusal(cu.plain(tmp_path, kernel_text=f"__global__ void plain({arguments}) {{}}\n"))
    assert f"key 'kernel': plain (line 7) takes ({arguments}); a rung's kernel takes (const float* A" in message


@pytest.mark.parametrize(
    "arguments",
    [
        "float const *__restrict__ A, float const *__restrict__ B, float *__restrict__ C, int M, int N, int K",
        "const float* A, const float* B, float* C, const int M, const unsigned int N, uint32_t K",
    ],
)
def test_other_spellings_of_the_arguments_are_taken(tmp_path: Path, arguments: str) -> None:
    assert parse_file(cu.plain(tmp_path, kernel_text=f"__global__ void plain({arguments}) {{}}\n"))


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("__global__ void k() {}\n", ":1: ", "no declaration; add comment lines that start with `// /// rung`"),
        ('// /// rung\n// title = "x"\n', ":1: ", "the declaration does not end; close it with `// ///`"),
        ('\n// /// rung\n// title = "x"\nint x;\n// ///\n', ":4: ", "the declaration opened on line 2 has not ended"),
        ("// /// rung\n// ///\n// /// rung\n// ///\n", ":3: ", "a second declaration"),
        ('// /// rung\n// title = "x\n// ///\n', ":2: key 'title': ", "not TOML"),
        ("// /// rung\n// kernel = \n// ///\n", ":2: key 'kernel': ", "not TOML"),
        ('// /// rung\n//\n// title "x"\n// ///\n', ":3: declaration: ", "not TOML"),
        ('// /// rung\n// title = "x"\n// title = "y"\n// ///\n', ":3: key 'title': ", "not TOML"),
        ("// /// rung\n// block = [32,\n//   32\n// ///\n", ":3: declaration: ", "not TOML"),
    ],
)
def test_a_bad_block_is_refused_with_its_line(tmp_path: Path, text: str, place: str, what: str) -> None:
    path = cu.write(tmp_path / "x.cu", text)
    message = refusal(path)
    assert message.startswith(f"{path}{place}"), message
    assert what in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "none.cu: cannot be read: No such file or directory; check the path" in refusal(tmp_path / "none.cu")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.cu"
    path.write_bytes(b"// one\n// \xe9t\xe9\n")
    assert refusal(path).startswith(f"{path}:2: not UTF-8")


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = cu.plain(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert parse_file(path)[0].name == "plain"


def test_the_unknown_key_message_lists_every_key(tmp_path: Path) -> None:
    message = refusal(cu.plain(tmp_path, colour='"red"'))
    assert all(key in message for key in KEYS)
