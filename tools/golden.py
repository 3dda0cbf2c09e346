"""Writes the golden digests of this numerics version, from the reference alone.

A digest that is frozen stays: one that would change is refused, because other bits are another
NUMERICS_VERSION. New functions are added. `--check` writes nothing and fails if anything is missing
or different.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gradplan.cases import cases
from gradplan.certify import LEVELS, THOROUGH, Line, digest, expected_results, line_digest, plans
from gradplan.vocabulary import NUMERICS_VERSION

PATH = (
    Path(__file__).resolve().parent.parent
    / "src/gradplan/golden"
    / f"numerics-{NUMERICS_VERSION}.json"
)


def computed(level: str) -> dict[str, str]:
    """The digests as the reference gives them now."""
    digests = {}
    for op, function, element in plans():
        line = Line(function.name, op.name, element.value)
        for case in cases(op, function, element, thorough=level == THOROUGH):
            line.cases[case.label] = digest(expected_results(case))
        digests[line.key] = line_digest(line.cases)
    return digests


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    frozen = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    fresh = {level: computed(level) for level in LEVELS}
    changed = [
        f"{level}: {key}"
        for level in LEVELS
        for key, value in frozen.get(level, {}).items()
        if fresh[level].get(key) != value
    ]
    if changed and "--force" not in arguments:
        print("frozen digests would change (raise NUMERICS_VERSION):", *changed, sep="\n  ")
        return 1
    if check:
        if frozen != fresh:
            print(f"{PATH.name} lacks digests: run tools/golden.py")
        return int(frozen != fresh)
    PATH.write_text(json.dumps(fresh, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
