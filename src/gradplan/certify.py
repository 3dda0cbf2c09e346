"""The promise, verified: every plan on this machine against the reference and the golden digests.

`certify_line` runs the canonical problems (cases.py) of one function and element type. Nothing is
printed here: that is for the command (cli.py) to do.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np

from gradplan.cases import Array, Case, cases, certified
from gradplan.declaration import OPS, Descriptor, Function, Op, Role
from gradplan.engines import ENGINES, Engine
from gradplan.engines.cpu import CpuEngine, num_threads, supported_isas
from gradplan.plan import plan_class
from gradplan.vocabulary import NUMERICS_VERSION, ElementKind, Error, PlanPreference, Unsupported

THREADS = (1, 2, 3, 7)
CHECKS = ("reference", "threads", "layouts", "builds", "batch")
"""What a result is compared over; each is counted in runs."""
STANDARD, THOROUGH = "standard", "thorough"
LEVELS = (STANDARD, THOROUGH)

Results = dict[str, Array]
PlanKey = tuple[Op, Function, ElementKind]


# What is compared ----------------------------------------------------------------------------


def words(array: Array) -> Array:
    """The elements' bits as unsigned integers."""
    return array.view(f"u{array.dtype.itemsize}")


def digest(results: Mapping[str, Array]) -> str:
    """SHA-256 of results: names, shapes and bits, little-endian whatever the machine is."""
    sha = hashlib.sha256()
    for name, array in results.items():
        sha.update(f"{name}{list(array.shape)}{array.dtype.name};".encode())
        sha.update(np.ascontiguousarray(words(array)).astype(f"<u{array.dtype.itemsize}").tobytes())
    return sha.hexdigest()


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first element that is not what the reference says."""

    case: str
    """The problem."""
    variation: str
    """How it was run."""
    tensor: str
    index: tuple[int, ...]
    expected_bits: str
    found_bits: str
    expected: str
    found: str
    count: int
    """How many elements of the tensor differ."""

    def __str__(self) -> str:
        at = ", ".join(map(str, self.index))
        return (
            f"{self.tensor}[{at}]: expected bits {self.expected_bits} ({self.expected}), "
            f"found {self.found_bits} ({self.found}); {self.count} differing in all\n"
            f"  run: {self.variation}\n  problem: {self.case}"
        )


def first_difference(
    expected: Results, found: Results, *, case: str, variation: str
) -> Difference | None:
    """Compares bit for bit."""
    for name, want in expected.items():
        differs = words(want) != words(found[name])
        if differs.any():
            index = tuple(int(i) for i in np.unravel_index(int(differs.argmax()), want.shape))
            return Difference(
                case=case,
                variation=variation,
                tensor=name,
                index=index,
                expected_bits=_hex(want, index),
                found_bits=_hex(found[name], index),
                expected=repr(float(want[index])),
                found=repr(float(found[name][index])),
                count=int(differs.sum()),
            )
    return None


def _hex(array: Array, index: tuple[int, ...]) -> str:
    return f"{int(words(array)[index]):0{2 * array.itemsize}x}"


# How a problem is run ------------------------------------------------------------------------


def _copied(array: Array) -> Array:
    return array.copy()


def _transposed(array: Array) -> Array:
    return array.T.copy().T


def _backwards(array: Array) -> Array:
    flip: Any = (*[slice(None, None, -1)] * array.ndim, ...)
    turned: Array = array[flip].copy()[flip]
    return turned


def _inside(array: Array) -> Array:
    """In the middle of something larger: an offset, and strides beyond the extents."""
    larger = np.zeros([extent + 3 for extent in array.shape], array.dtype)
    middle: Any = (*[slice(2, extent + 2) for extent in array.shape], ...)
    view: Array = larger[middle]
    view[...] = array
    return view


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "transposed": _transposed,
    "negative strides": _backwards,
    "with an offset": _inside,
}


def _poison(shape: tuple[int, ...], kind: ElementKind) -> Array:
    """An output whose old content must not matter."""
    array = np.empty(shape, kind.dtype)
    array.view(f"u{kind.itemsize}")[...] = 0x7B7B7B7B7B7B7B7B & (2 ** (8 * kind.itemsize) - 1)
    return array


class _Runner:
    """Runs one case, and compares."""

    def __init__(self, case: Case, engine: Engine) -> None:
        self.case = case
        self.engine = engine
        self.operands = case.op.operands(case.descriptor)

    def run(
        self,
        engine: Engine | None = None,
        *,
        arrange: Callable[[Array], Array] = _copied,
        inplace: bool = False,
        tensors: Mapping[str, Array] | None = None,
    ) -> Results:
        engine = engine or self.engine
        given: dict[str, Any] = {}
        for o in self.operands:
            if o.role is Role.OUT:
                shared = [name for name in o.inplace if name in given]
                taken = {id(x) for name, x in given.items() if name not in self._inputs}
                own = inplace and shared and id(given[shared[0]]) not in taken
                given[o.name] = given[shared[0]] if own else arrange(_poison(o.shape, o.kinds[0]))
            elif o.name in self.case.tensors:  # an optional one may be missing
                given[o.name] = arrange((tensors or self.case.tensors)[o.name])
        engine.run_arrays(_plan(self.case.op, self.case.descriptor, engine), given)
        return {o.name: given[o.name] for o in self.operands if not o.is_input}

    @functools.cached_property
    def _inputs(self) -> set[str]:
        return {o.name for o in self.operands if o.is_input}

    @property
    def can_be_inplace(self) -> bool:
        return any(o.inplace for o in self.operands)

    def other_indices(self) -> Mapping[str, Array] | None:
        """The tensors with the other index type, or None without indices."""
        given = self.case.tensors
        indexed = {o.name: o.kinds for o in self.operands if len(o.kinds) > 1 and o.name in given}
        if not indexed:
            return None
        tensors = dict(self.case.tensors)
        for name, kinds in indexed.items():
            other = next(k for k in kinds if k.dtype != tensors[name].dtype)
            tensors[name] = tensors[name].astype(other.dtype)
        return tensors

    def variations(self) -> Iterator[tuple[str, str, Callable[[], Results]]]:
        """Everything that must not matter: the check, its name, and the run."""
        for count in THREADS if self.engine.has_threads else ():
            yield "threads", f"{count} threads", functools.partial(self._with_threads, count)
        for name, arrange in LAYOUTS.items():
            yield "layouts", name, functools.partial(self.run, arrange=arrange)
        if self.can_be_inplace:
            yield "layouts", "in place", functools.partial(self.run, inplace=True)
        tensors = self.other_indices()
        if tensors is not None:
            yield "layouts", "the other index type", functools.partial(self.run, tensors=tensors)
        if type(self.engine) is CpuEngine:
            for build in supported_isas():
                yield "builds", f"build {build}", functools.partial(self.run, CpuEngine(build))

    def _with_threads(self, count: int) -> Results:
        with num_threads(count):
            return self.run()


def _plan(op: Op, desc: Descriptor, engine: Engine) -> Any:
    """A plan of exactly this engine: not from the cache, which knows engines by name."""
    reason = engine.why_not(op, desc)
    if reason is not None:
        raise Unsupported(f"{op.plan_name}: engine {engine.name}: {reason}")
    return plan_class(op)(desc, engine, PlanPreference(engine=engine.name), engine.place)


# Lines ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Line:
    """What was found for one function and element type."""

    function: str
    op: str
    element: str
    digest: str = ""
    """Of the engine's results; empty if they differ from the reference."""
    golden: str = "missing"
    """Whether the frozen digest is the same: "equal", "differs" or "missing"."""
    checked: Counter[str] = dataclasses.field(default_factory=Counter)
    cases: dict[str, str] = dataclasses.field(default_factory=dict)
    """The digest of each problem."""
    difference: Difference | None = None
    error: str = ""
    """Why it could not be run."""

    @property
    def key(self) -> str:
        return f"{self.function}/{self.element}"

    @property
    def passed(self) -> bool:
        return not self.error and self.difference is None and self.golden == "equal"

    def __str__(self) -> str:
        if self.error:
            return f"{self.key}: {self.error}"
        if self.difference is not None:
            return f"{self.key}: {self.difference}"
        if self.golden == "equal":
            return f"{self.key}: equal"
        frozen = f"the golden digest of numerics version {NUMERICS_VERSION}"
        if self.golden == "missing":
            return f"{self.key}: {frozen} is missing: write it with tools/golden.py"
        return (
            f"{self.key}: engine and reference agree, but {frozen} is another: the reference "
            "computes other bits than it used to, on this machine or in this version"
        )


def _names(op: Op, function: Function) -> set[str]:
    """What a line is asked for by: "cumsum" also has "cumsum exclusive"."""
    return {function.name, function.name.partition(" ")[0], op.name, op.title, op.plan_name}


def plans(
    names: Iterable[str] | None = None, elements: Iterable[str] | None = None
) -> list[PlanKey]:
    """Every function with every element type, or those that are asked for.

    Names are those of functions ("cumsum") or of whole ops ("scan", "ScanPlan").
    """
    wanted = None if names is None else set(names)
    kinds = None if elements is None else {ElementKind.parse(e) for e in elements}
    return [
        (op, function, element)
        for op in OPS.values()
        for function in certified(op)
        if wanted is None or wanted & _names(op, function)
        for element in ElementKind
        if element in op.descriptor.elements and (kinds is None or element in kinds)
    ]


def expected_results(case: Case) -> Results:
    """What the reference computes for a case."""
    return _Runner(case, ENGINES["reference"]).run()


def line_digest(cases: Mapping[str, str]) -> str:
    """One digest for all problems of a line."""
    text = "".join(f"{label} {value}\n" for label, value in cases.items())
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def golden(level: str) -> Mapping[str, str]:
    """The frozen digests of this numerics version, by function and element type."""
    path = resources.files("gradplan") / "golden" / f"numerics-{NUMERICS_VERSION}.json"
    if not path.is_file():
        return {}
    digests: dict[str, str] = json.loads(path.read_text(encoding="utf-8")).get(level, {})
    return digests


def certify_line(
    op: Op, function: Function, element: ElementKind, engine: Engine, *, level: str = STANDARD
) -> Line:
    """Runs every check for one function and element type; stops at the first difference."""
    line = Line(function.name, op.name, element.value)
    try:
        for case in cases(op, function, element, thorough=level == THOROUGH):
            line.difference = _check(case, engine, line)
            if line.difference is not None:
                return line
    except Error as error:
        line.error = str(error)
        return line
    except Exception as error:  # a kernel that fails is a finding, like one that is wrong
        line.error = f"{type(error).__name__}: {error}"
        return line
    line.digest = line_digest(line.cases)
    frozen = golden(level).get(line.key)
    line.golden = "missing" if frozen is None else "equal" if frozen == line.digest else "differs"
    return line


def _check(case: Case, engine: Engine, line: Line) -> Difference | None:
    expected = expected_results(case)
    runner = _Runner(case, engine)
    found = runner.run()
    line.checked["reference"] += 1
    difference = first_difference(expected, found, case=case.label, variation="as it comes")
    if difference is not None:
        return difference
    line.cases[case.label] = digest(found)
    for check, name, run in runner.variations():
        found = run()
        line.checked[check] += 1
        difference = first_difference(expected, found, case=case.label, variation=name)
        if difference is not None:
            return difference
    for alone in case.lines():
        found = _Runner(alone, engine).run()
        line.checked["batch"] += 1
        difference = first_difference(
            case.line_of(expected, alone), found, case=alone.label, variation="a line alone"
        )
        if difference is not None:
            return difference
    return None


# Certificates --------------------------------------------------------------------------------


def certificate_digest(digests: Mapping[str, str], level: str) -> str:
    """One digest of all lines. It depends on results alone, so it is the same on every machine."""
    text = f"gradplan numerics {NUMERICS_VERSION} {level}\n"
    text += "".join(f"{key} {digests[key]}\n" for key in sorted(digests))
    return hashlib.sha256(text.encode()).hexdigest()
