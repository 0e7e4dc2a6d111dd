"""App loading: import the app that `module:name` names."""

from __future__ import annotations

import os
import shlex
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from onceward.errors import InvalidArgument, OncewardError

if TYPE_CHECKING:
    from onceward.workers import App


def load_app(target: str) -> App:
    """Import and return the app of `module:name`."""
    from onceward.workers import App

    module_name, _, name = target.partition(":")
    fix = "pass it as shop:app, where shop.py contains `app = App()`"
    if not module_name or not name:
        message = f"{target!r} is not of the form module:name"
        raise InvalidArgument(message, fix=fix, field="target")
    # As `python -m` would find it.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds text
    try:
        module = import_module(module_name)
    except OncewardError:
        raise
    except Exception as exc:
        if _is_missing(module_name, exc):
            message = f"module {module_name!r} is neither in this directory nor installed"
            raise InvalidArgument(message, fix=fix, field="target") from exc
        message = f"{module_name!r} cannot be imported: {type(exc).__name__}: {exc}"
        fix = f"find the cause with: {shlex.join([sys.executable, '-c', f'import {module_name}'])}"
        raise InvalidArgument(message, fix=fix, field="target") from exc
    found = getattr(module, name, None)
    if not isinstance(found, App):
        message = f"{name!r} in {module_name!r} is not an App"
        raise InvalidArgument(message, fix=fix, field="target")
    if not found.consumers:
        message = f"{target} has no consumers"
        raise InvalidArgument(message, fix="declare one with @app.consumer(…)", field="target")
    return found


def _is_missing(module_name: str, error: Exception) -> bool:
    """Return whether the module itself is missing, rather than one that it imports."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return name is not None and f"{module_name}.".startswith(f"{name}.")
