"""For mkdocstrings: examples at the end of a docstring, and stubs that are overloads alone."""

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


class OverloadsAlone(griffe.Extension):
    """A function whose stub has overloads and nothing else is there, with the text of the first."""

    def on_module_members(self, *, mod: Any, **_: Any) -> None:
        for name, overloads in list(mod.overloads.items()):
            if name not in mod.members:
                first, *others = overloads
                first.overloads = others
                mod.set_member(name, first)
