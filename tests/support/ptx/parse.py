"""From the text of PTX to instructions; nothing is skipped that is not known to mean nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from .errors import Unsupported

_HEADER = re.compile(
    r"\s*\.version \d+\.\d+\s+\.target sm_\d+\s+\.address_size 64\s+"
    r"(?P<shared>\.extern \.shared \.align 16 \.b8 global_smem\[\];\s+)?"
    r"\.visible \.entry (?P<entry>\w+)\((?P<parameters>[^)]*)\)\s*"
    r"\.reqntid (?P<threads>\d+)(?:, 1, 1)?\s*"
    r"(?:\.(?:maxntid|minnctapersm|maxnreg) [\d, ]+\s*)*"
    r"(?=\{)"
)
_PARAMETER = re.compile(
    r"\s*\.param \.(?P<kind>[usbf]\d+)(?: \.ptr \.global \.align \d+)? (?P<name>\w+)\s*"
)
_INSTRUCTION = re.compile(r"(?:@(?P<negated>!?)(?P<guard>%?\w+)\s+)?(?P<opcode>[a-z][\w.:]*)\s*")
SHARED_SYMBOL = "global_smem"


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    kind: str
    """As in ".param .u64": "u64"."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    opcode: str
    operands: tuple[str, ...]
    guard: str | None
    """The predicate of "@%p1"."""
    negated: bool
    text: str

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """What follows the name: the last is mostly a type."""
        return tuple(self.opcode.split(".")[1:])


@dataclasses.dataclass(frozen=True)
class Module:
    """One kernel."""

    entry: str
    parameters: tuple[Parameter, ...]
    threads: int
    uses_shared: bool
    registers: dict[str, str]
    """Types by name; "%r" stands for "%r0", "%r1" and so on."""
    code: tuple[Instruction, ...]
    labels: dict[str, int]
    """Which instruction a label stands before."""


def parse(text: str) -> Module:
    text = re.sub(r"//[^\n]*", "", text)
    head = _HEADER.match(text)
    if head is None:
        raise Unsupported(f"the head of a module: {text[:200]!r}")
    parameters = []
    for line in filter(str.strip, head["parameters"].split(",")):
        parameter = _PARAMETER.fullmatch(line)
        if parameter is None:
            raise Unsupported(f"a parameter: {line!r}")
        parameters.append(Parameter(parameter["name"], parameter["kind"]))
    body = _Body()
    for statement in _statements(text[head.end() :]):
        body.add(statement)
    if body.scopes:
        raise Unsupported("a body that does not end")
    return Module(
        entry=head["entry"],
        parameters=tuple(parameters),
        threads=int(head["threads"]),
        uses_shared=head["shared"] is not None,
        registers=body.registers,
        code=tuple(body.code),
        labels=body.labels,
    )


def _statements(text: str) -> Iterator[str]:
    """ "{", "}", "label:" and what ends in a semicolon."""
    token = re.compile(r"\s*(?:([{}])|([$\w]+:)(?!:)|([^;]+);)")
    at = 0
    while text[at:].strip():
        match = token.match(text, at)
        if match is None:
            raise Unsupported(f"a statement: {text[at : at + 80]!r}")
        yield (match[1] or match[2] or match[3]).strip()
        at = match.end()


class _Body:
    """Statements one after the other; registers of an inner block are its own."""

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.scopes: list[dict[str, str]] = []
        self.blocks = 0

    def add(self, statement: str) -> None:
        if statement == "{":
            self.scopes.append({})
            self.blocks += 1
        elif not self.scopes:
            raise Unsupported(f"behind the body: {statement}")
        elif statement == "}":
            self.scopes.pop()
        elif statement.endswith(":"):
            self.labels[statement[:-1]] = len(self.code)
        elif statement.startswith(".reg "):
            self._declare(statement)
        elif statement.startswith("."):
            if not statement.startswith(".pragma "):
                raise Unsupported(f"a directive: {statement}")
        else:
            self.code.append(self._instruction(statement))

    def _declare(self, statement: str) -> None:
        match = re.fullmatch(r"\.reg \.(\w+)\s+(.+)", statement, re.S)
        if match is None:
            raise Unsupported(f"a declaration: {statement}")
        for name in match[2].split(","):
            name = re.sub(r"<\d+>$", "", name.strip())
            unique = name
            if len(self.scopes) > 1:
                unique = f"{name}@{self.blocks}"
                self.scopes[-1][name] = unique
            if self.registers.setdefault(unique, match[1]) != match[1]:
                raise Unsupported(f"a register of two types: {statement}")

    def _instruction(self, statement: str) -> Instruction:
        match = _INSTRUCTION.match(statement)
        if match is None:
            raise Unsupported(f"an instruction: {statement}")
        operands = re.split(r",(?![^{\[]*[}\]])", statement[match.end() :])
        local = {name: unique for scope in self.scopes for name, unique in scope.items()}

        def rename(word: str) -> str:
            return re.sub(r"%?[A-Za-z_]\w*", lambda m: local.get(m[0], m[0]), word)

        named = [rename(o) if local else o for o in (o.strip() for o in operands) if o]
        guard = match["guard"]
        return Instruction(
            opcode=match["opcode"],
            operands=tuple(named),
            guard=local.get(guard, guard) if guard else None,
            negated=match["negated"] == "!",
            text=statement,
        )
