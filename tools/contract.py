"""Writes the constants of the bit contract into C++ and into the contract, from the reference.

python tools/contract.py            write them
python tools/contract.py --check    exit with 1 if they are not those of gradplan.reference

The lengths of orders are in `reference/order.py`, the numbers of exp and log in
`reference/elementary.py`; kernels for GPUs import both. Only numbers are replaced:
csrc/lanes/order.h and exp_log.h say what they are called there, docs/numerics.md has them in its
table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from gradplan.reference import order
from gradplan.reference.elementary import CONSTANTS, LOG_LEAST, Constants

ROOT = Path(__file__).resolve().parents[1]
LENGTHS = {
    "kLanes": order.LANES,
    "kGroup": order.FAN,
    "kBlock": order.BLOCK,
    "kChunk": order.BLOCK * order.FAN,
}
TYPES = {"float": (np.float32, "f"), "double": (np.float64, "")}
_NUMBER = r"-?(?:0x[\da-f]+(?:\.[\da-f]+)?p[+-]\d+|\d+(?:\.\d+)?)f?"


def shown(value: float, *, plain: bool = False) -> str:
    """In hexadecimal, without zeros at the end.

    >>> shown(0.75), shown(-104.0, plain=True)
    ('0x1.8p-1', '-104.0')
    """
    return str(float(value)) if plain else re.sub(r"\.?0*p", "p", float(value).hex())


def replaced(text: str, name: str, values: Sequence[str]) -> str:
    """With other numbers in the definition of a C++ constant."""
    found = re.search(rf"\b{name}(?:\[\])? = ([^;]*);", text)
    if found is None or len(re.findall(_NUMBER, found[1])) != len(values):
        raise ValueError(f"{name}: expected a definition with {len(values)} numbers")
    new = iter(values)
    numbers = re.sub(_NUMBER, lambda _: next(new), found[1])
    return text[: found.start(1)] + numbers + text[found.end(1) :]


def lengths(text: str) -> str:
    for name, value in LENGTHS.items():
        text = replaced(text, name, [str(value)])
    return text


def _in_cpp(c: Constants, suffix: str) -> dict[str, list[str]]:
    hexadecimal = {
        "kLog2e": [c.log2e],
        "kLn2High": [c.ln2_high],
        "kLn2Low": [c.ln2_low],
        "kExp": c.exp_terms,
        "kLog": c.log_terms,
    }
    return {
        "kMantissaBits": [str(c.mantissa_bits)],
        "kBias": [str(c.bias)],
        "kExpZero": [shown(float(c.exp_zero), plain=True) + suffix],
        "kExpInf": [shown(float(c.exp_inf), plain=True) + suffix],
        **{name: [shown(float(v)) + suffix for v in each] for name, each in hexadecimal.items()},
    }


def elementary(text: str) -> str:
    """Each struct Elementary<T>, and what they share."""
    text = replaced(text, "kLogLeast", [shown(LOG_LEAST)])
    for name, (dtype, suffix) in TYPES.items():
        before, start, rest = text.partition(f"struct Elementary<{name}> {{")
        body, end, behind = rest.partition("\n};")
        for constant, values in _in_cpp(CONSTANTS[np.dtype(dtype)], suffix).items():
            body = replaced(body, constant, values)
        text = before + start + body + end + behind
    return text


def _rows() -> Iterator[str]:
    both = [CONSTANTS[np.dtype(dtype)] for dtype, _ in TYPES.values()]
    for name in ("log2e", "ln2_high", "ln2_low"):
        yield f"| {name} | {' | '.join(shown(float(getattr(c, name))) for c in both)} |"
    for name in ("exp", "log"):
        terms = [getattr(c, f"{name}_terms") for c in both]
        for i in range(max(map(len, terms))):
            cells = (shown(float(each[i])) if i < len(each) else "" for each in terms)
            yield re.sub(" +", " ", f"| {name} c{i} | {' | '.join(cells)} |")


def table(text: str) -> str:
    """The table of constants in the contract."""
    head = "### Constants\n\n| | f32 | f64 |\n|---|---|---|\n"
    before, start, rest = text.partition(head)
    if not start:
        raise ValueError("docs/numerics.md: there is no table of constants")
    behind = rest.partition("\n\n")[2]
    return before + start + "\n".join(_rows()) + "\n\n" + behind


FILES: dict[str, Callable[[str], str]] = {
    "csrc/lanes/order.h": lengths,
    "csrc/lanes/exp_log.h": elementary,
    "docs/numerics.md": table,
}


def main() -> None:
    for name, renew in FILES.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        new = renew(text)
        if "--check" in sys.argv:
            if new != text:
                sys.exit(f"{name} does not have the reference's constants: run make stubs")
        elif new != text:
            path.write_text(new, encoding="utf-8")
            print("wrote", name)


if __name__ == "__main__":
    main()
