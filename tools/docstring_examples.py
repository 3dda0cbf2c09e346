"""For mkdocstrings: examples that stand at the end of a docstring are a section of it."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_EXAMPLES = re.compile(r"^>>> .*", re.MULTILINE | re.DOTALL)


class DocstringExamples(griffe.Extension):
    """Puts them below "Examples:", as the other sections are."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None and "Examples:" not in obj.docstring.value:
            obj.docstring.value = _EXAMPLES.sub(
                lambda match: "Examples:\n" + textwrap.indent(match[0], "    "), obj.docstring.value
            )
