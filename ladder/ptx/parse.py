"""PTX text -> functions of instructions. Nothing is interpreted here.

The grammar is the subset that NVRTC prints and inline ``asm`` may add: one statement a line or several, nested
``{ }`` scopes with their own registers, vector operands, predicates and ``.loc`` line marks (PTX ISA, chapters 4, 5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ladder.errors import UnsupportedPtxError
from ladder.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Param,
    Register,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["parse"]

TYPE_BYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/', re.S)
_TARGET = re.compile(r"\.target\s+sm_(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*\(([^)]*)\)([^{;]*)\{", re.S)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\S*\s+(?:\.\w+\s+)*(?:\d+\s+)?)?([\w$.]+)(?:\[(\d+)\])?"
)
_STATEMENT = re.compile(
    r"\s*(?:(?P<label>[\w$.%]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<text>[^;{}]*(?:\{[^}]*\}[^;{}]*)*);)", re.S
)
_REG = re.compile(r"\.reg\s*\.(\w+)\s+(.*)", re.S)
_VARIABLE = re.compile(r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(.*)", re.S)
_DECLARATOR = re.compile(r"([\w$.]+)\s*((?:\[\s*\d+\s*\]\s*)*)")
_EXTERN = re.compile(r"\.extern\s+\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$.]+)\s*\[\s*\]\s*;")
_MODULE_SHARED = re.compile(r"^\s*(?:\.(?:visible|weak|common)\s+)?(\.shared\s+[^;]*);", re.M)
_GUARD = re.compile(r"@(!?)([\w$.%]+)\s+")
_USED_BYTES = re.compile(r'"used_bytes_mask\s+(\w+)"')
_SPLIT = re.compile(r",(?![^{\[]*[}\]])")
_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]+)")
_INT = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9]\d*))U?")


def parse(text: str) -> dict[str, Function]:
    """Every ``.entry`` of a PTX module, by (mangled) name.

    Raises:
        UnsupportedPtxError: a construct outside the subset, with its text.
    """
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    target = _TARGET.search(text)
    files = {int(number): name for number, name in _FILE.findall(text)}
    entries = [(match, _closing_brace(text, match.end())) for match in _ENTRY.finditer(text)]
    between = zip([0, *(end for _, end in entries)], [*(match.start() for match, _ in entries), len(text)], strict=True)
    outside = "\n".join(text[start:end] for start, end in between)
    module_level = [v for match in _MODULE_SHARED.finditer(outside) for v in _variables(match[1])]
    module_level += [Variable(m[3], "shared", int(m[1] or 1), 0) for m in _EXTERN.finditer(outside)]
    functions = {}
    for match, end in entries:
        function = Function(
            name=match[1], target=int(target[1]) if target else 0, params=_params(match[2]), files=files
        )
        variables = list(module_level)
        _Body(function, variables).read(text[match.end() : end])
        # Like ptxas: a variable that the function does not mention takes no room.
        used = {name for i in function.instructions for o in i.operands for name in _symbols_of(o)}
        function.variables = tuple(v for v in variables if v.name in used)
        functions[function.name] = function
    return functions


def _symbols_of(operand: Operand) -> tuple[str, ...]:
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return (operand.base.name,)
    return (operand.name,) if isinstance(operand, Symbol) else ()


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise UnsupportedPtxError("PTX ends inside a function body")


def _params(text: str) -> tuple[Param, ...]:
    params = []
    offset = 0
    for align, kind, name, count in _PARAM.findall(text):
        if kind not in TYPE_BYTES:
            raise UnsupportedPtxError(f"PTX parameter type .{kind} ({name})")
        size = TYPE_BYTES[kind] * int(count or 1)
        step = int(align or TYPE_BYTES[kind])
        offset = -(-offset // step) * step
        params.append(Param(name, kind, offset, size))
        offset += size
    return tuple(params)


def _variables(text: str) -> Iterator[Variable]:
    match = _VARIABLE.fullmatch(text.strip())
    if match is None or match[3] not in TYPE_BYTES:
        raise UnsupportedPtxError(f"PTX variable `{text.strip()[:60]}`")
    space, align, kind, names = match.groups()
    for raw in names.split(","):
        declarator = _DECLARATOR.fullmatch(raw.strip())
        if declarator is None:
            raise UnsupportedPtxError(f"PTX variable `{text.strip()[:60]}`")
        size = TYPE_BYTES[kind] * math.prod(int(count) for count in re.findall(r"\d+", declarator[2]))
        yield Variable(declarator[1], space, int(align or TYPE_BYTES[kind]), size)


class _Body:
    """Reads a function's body, keeping the scopes of nested ``{ }`` apart."""

    def __init__(self, function: Function, variables: list[Variable]) -> None:
        self.function = function
        self.variables = variables
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_ids = [0]
        self.opened = 0
        self.branches: list[tuple[int, list[int]]] = []
        self.line = (0, 0)
        self.used_bytes: int | None = None

    def read(self, text: str) -> None:
        position = 0
        marks = [(m.start(), m.end(), (int(m[1]), int(m[2]))) for m in _LOC.finditer(text)]
        for start, end, line in [*marks, (len(text), len(text), (0, 0))]:
            self._statements(re.sub(r"^\s*,[^\n]*", "", text[position:start]))
            position = end
            # Compiler-made code carries line 0; the last real line says more about it than nothing.
            self.line = line if line[1] or not self.line[1] else self.line
        for index, scopes in self.branches:
            self._bind(index, scopes)

    def _statements(self, text: str) -> None:
        position = 0
        while True:
            match = _STATEMENT.match(text, position)
            if match is None:
                rest = text[position:].strip()
                if rest:
                    raise UnsupportedPtxError(f"cannot read PTX: {rest[:80]!r}")
                return
            position = match.end()
            if match["label"]:
                self._label(match["label"])
            elif match["open"]:
                self.opened += 1
                self.scopes.append({})
                self.scope_ids.append(self.opened)
            elif match["close"]:
                self.scopes.pop()
                self.scope_ids.pop()
            else:
                self._statement(match["text"].strip())

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            self._registers(text)
        elif text.startswith((".shared", ".local")):
            self.variables.extend(_variables(text))
        elif not text:
            return
        elif text.startswith(".pragma"):
            if match := _USED_BYTES.search(text):
                self.used_bytes = int(match[1], 0)
        elif text.startswith("."):
            why = ": functions that stay calls (printf, assert) are not emulated" if text.startswith(".param") else ""
            raise UnsupportedPtxError(f"{self.function.place(self.line)}: PTX directive `{text[:60]}`{why}")
        else:
            self._instruction(text)

    def _label(self, name: str) -> None:
        unique = self._unique(name, self.scope_ids[-1])
        if unique in self.function.labels:
            raise UnsupportedPtxError(f"{self.function.name}: label `{name}` twice in one scope")
        self.function.labels[unique] = len(self.function.instructions)

    def _bind(self, index: int, scopes: list[int]) -> None:
        """Let a branch name the label of its innermost scope that has one: inline asm repeats labels."""
        branch = self.function.instructions[index]
        label = branch.operands[0] if branch.operands else None
        if isinstance(label, Symbol):
            names = (self._unique(label.name, scope) for scope in reversed(scopes))
            found = next((name for name in names if name in self.function.labels), label.name)
            self.function.instructions[index] = branch._replace(operands=(Symbol(found),))

    @staticmethod
    def _unique(name: str, scope: int) -> str:
        """A name of a nested scope, apart from the same name in the next expansion of the inline asm."""
        return f"{name}#{scope}" if scope else name

    def _registers(self, text: str) -> None:
        match = _REG.fullmatch(text)
        if match is None or match[1] not in TYPE_BYTES:
            raise UnsupportedPtxError(f"PTX registers `{text[:60]}`")
        for raw in match[2].split(","):
            name = raw.strip()
            family = re.fullmatch(r"([\w$%]+)<(\d+)>", name)
            if family:
                for i in range(int(family[2])):
                    self._declare(f"{family[1]}{i}", match[1])
            else:
                self._declare(name, match[1])

    def _declare(self, name: str, kind: str) -> None:
        unique = self._unique(name, self.scope_ids[-1])
        self.scopes[-1][name] = unique
        self.function.registers[unique] = kind

    def _resolve(self, name: str) -> str | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def _instruction(self, text: str) -> None:
        guard = None
        match = _GUARD.match(text)
        if match:
            guard = (self._resolve(match[2]) or match[2], match[1] == "!")
            text = text[match.end() :]
        op, *rest = text.split(None, 1)
        operands = tuple(self._operand(part.strip()) for part in _SPLIT.split(rest[0] if rest else "") if part.strip())
        if op.split(".")[0] == "bra":
            self.branches.append((len(self.function.instructions), list(self.scope_ids)))
        self.function.instructions.append(Instruction(op, operands, guard, self.line, self.used_bytes))
        self.used_bytes = None

    def _operand(self, text: str) -> Operand:
        if text.startswith("{"):
            return Vector(tuple(self._scalar(part.strip()) for part in text[1:-1].split(",")))
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if "|" in text:
            return Vector(tuple(self._scalar(part.strip()) for part in text.split("|")))
        return self._scalar(text)

    def _scalar(self, text: str) -> Register | Immediate | Symbol:
        resolved = self._resolve(text.lstrip("!"))
        if resolved is not None:
            # A negated predicate operand keeps its mark; the two instructions that take one look for it.
            return Symbol("!" + resolved) if text.startswith("!") else Register(resolved)
        match = _FLOAT.fullmatch(text)
        if match:
            return Immediate(int(match[2], 16), 32 if match[1] in "fF" else 64)
        match = _INT.fullmatch(text)
        if match:
            digits = zip(match.groups()[1:], (16, 2, 8, 10), strict=True)
            value = next(int(found, base) for found, base in digits if found)
            return Immediate(-value if match[1] else value)
        if text == "WARP_SZ":
            return Immediate(32)
        if text.startswith("%"):
            return Register(text)
        return Symbol(text)

    def _address(self, text: str) -> Address:
        base_text, sign, offset_text = text.partition("+")
        offset = int(offset_text.strip(), 0) if sign else 0
        base = self._scalar(base_text.strip())
        if isinstance(base, Immediate):
            return Address(None, base.value + offset)
        return Address(base, offset)
