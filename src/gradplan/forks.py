"""What a child needs that was forked while another thread was anywhere in here.

Of the parent's threads only the forking one goes on in the child: a lock that another one held
stays locked, and what it was doing stays half done. The threads of kernels are made anew in a
child (csrc/memory/thread_pool.cc).
"""

from __future__ import annotations

import functools
import os
import sys
import threading

LOCK = threading.RLock()
"""Held while libraries are imported, loaded or told something. A fork waits for it."""


def _unlock_properties() -> None:
    """Before Python 3.12 each cached property has a lock."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __package__:
            for value in list(vars(module).values()):
                for member in vars(value).values() if isinstance(value, type) else ():
                    if isinstance(member, functools.cached_property):
                        vars(member)["lock"] = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )
    if sys.version_info < (3, 12):
        os.register_at_fork(after_in_child=_unlock_properties)
