"""What messages say to somebody who made a mistake: the value that came, and what was meant."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

_SHOWN = 100
"""Characters of a value in a message."""
_SYNONYMS = {"dim": "axis", "axis": "dim"}
"""Words that do not look alike and mean the same, in NumPy and in PyTorch."""


def shown(value: object) -> str:
    """`repr(value)`, of a length that fits in a message.

    >>> shown("first"), len(shown(10**10000))
    ("'first'", 100)
    """
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of that many digits
        text = hex(value) if isinstance(value, int) else object.__repr__(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """The end of a message about an unknown word; empty if no choice looks like it.

    >>> did_you_mean("firts", ["first", "last"])
    "; did you mean 'first'?"
    >>> did_you_mean("dim", ["x", "axis"]), did_you_mean("all", ["first", "last"])
    ("; did you mean 'axis'?", '')
    """
    if not isinstance(value, str):
        return ""
    known = list(choices)
    synonym = _SYNONYMS.get(value)
    if synonym in known:
        return f"; did you mean {synonym!r}?"
    lower = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(value.lower(), lower, n=1)
    within = [choice for choice in known if len(value) > 2 and value in choice]
    found = [lower[word] for word in close] or within
    return f"; did you mean {found[0]!r}?" if found else ""


def unexpected(function: str, name: str, known: Iterable[str]) -> TypeError:
    """What Python raises for a keyword that a function does not take, with a hint."""
    names = list(known)
    hint = did_you_mean(name, names) or f"; it takes {', '.join(names)}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def suggest_fields(cls: type[Any]) -> None:
    """Lets a dataclass say which of its fields may have been meant."""
    set_fields = cls.__init__
    known = [field.name for field in dataclasses.fields(cls)]

    @functools.wraps(set_fields)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        for name in fields:
            if name not in known:
                raise unexpected(cls.__name__, name, known)
        set_fields(self, *args, **fields)

    cls.__init__ = __init__


# Functions that are made from declarations take every keyword, and MISSING for what must be given,
# so that they can say what is wrong; nobody sees it in their signatures.


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""The default of an argument that must be given."""


def show_signature(function: Callable[..., Any]) -> None:
    """Gives a function the signature that its callers should see."""
    signature = inspect.signature(function)
    shown = [
        p.replace(default=p.empty) if p.default is MISSING else p
        for p in signature.parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    function.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]


def refuse_unknown(function: Callable[..., Any], unknown: Iterable[str]) -> NoReturn:
    """Raises for keywords that a function does not take."""
    names = inspect.signature(function).parameters
    raise unexpected(function.__name__, next(iter(unknown)), names)


def check_given(function: str, values: Mapping[str, Any]) -> None:
    """Raises if one of the values, by the arguments' names, is missing."""
    missing = [name for name, value in values.items() if value is MISSING]
    if missing:
        names = " and ".join(repr(name) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(f"{function}() missing {len(missing)} required argument{plural}: {names}")
