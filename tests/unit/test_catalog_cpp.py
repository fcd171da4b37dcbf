"""Finding kernels in C++ text."""

from __future__ import annotations

import pytest

from ladder.catalog._cpp import find_kernels

ARGUMENTS = "const float* A, float* C"


@pytest.mark.parametrize(
    ("head", "template"),
    [
        ("__global__ void k", ()),
        ("__global__ void __launch_bounds__(256) k", ()),
        ("__global__ __launch_bounds__(256, 2) void k", ()),
        ("__launch_bounds__(256) __global__ void k", ()),
        ('extern "C" __global__ void k', ()),
        ("static __global__ void\nk", ()),
        ("template <int BM, int BN>\n__global__ void k", ("int BM", "int BN")),
        ("template<int BM,int BN=(3>2)>__global__ void k", ("int BM", "int BN=(3>2)")),
        ("template <int BM /* rows, of C */, // and\n int BN>\n__global__ void k", ("int BM", "int BN")),
        ("template <int X> struct S {};\ntemplate <int BM>\n__global__ void k", ("int BM",)),
        ("template <int X> int f() { return X; }\n__global__ void k", ()),
        ("template <int BM>\n__global__ void __launch_bounds__(BM * (BM + 1)) k", ("int BM",)),
        ("#include <x.cuh>\n#pragma unroll\ntemplate <int BM>\n__global__ void k", ("int BM",)),
    ],
)
def test_a_kernel_is_found_with_its_template(head: str, template: tuple[str, ...]) -> None:
    (kernel,) = find_kernels(f"{head}({ARGUMENTS}) {{ C[0] = A[0]; }}")
    assert (kernel.name, kernel.template) == ("k", template)
    assert kernel.arguments == ("const float* A", "float* C")


@pytest.mark.parametrize(
    "text",
    [
        "// __global__ void k(int M) {}",
        "/* __global__ void k(int M) {} */",
        'const char* s = "__global__ void k(int M)";',
        'const char* s = R"cu(__global__ void k(int M))cu";',
        "__global__ void k;",
        "__global__",
        "template <> __global__ void k<3>(int M) {}",
        "int my__global__x(int M);",
    ],
)
def test_what_only_looks_like_a_kernel_is_not_one(text: str) -> None:
    assert find_kernels(text) == ()


def test_several_kernels_keep_their_lines() -> None:
    text = (
        "// one\n__global__ void a(int M) {}\n\nconstexpr char c = '\\'';\n"
        "template <int T>\n__global__ void b(int M) {}\n"
    )
    assert [(kernel.name, kernel.line, kernel.template) for kernel in find_kernels(text)] == [
        ("a", 2, ()),
        ("b", 6, ("int T",)),
    ]


def test_digit_separators_are_not_characters() -> None:
    text = "constexpr int BIG = 1'000'000;\n__global__ void k(int M) {}\n"
    assert [kernel.name for kernel in find_kernels(text)] == ["k"]


def test_an_argument_list_without_an_end_takes_the_rest() -> None:
    (kernel,) = find_kernels("__global__ void k(int M, int N")
    assert kernel.arguments == ("int M", "int N")
