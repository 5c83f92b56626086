"""What `import edgewise` offers."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import edgewise
from edgewise_runtime import errors


def test_it_tells_its_version() -> None:
    assert edgewise.__version__ == version("edgewise")


def test_all_that_it_names_is_there_and_documented() -> None:
    assert sorted(edgewise.__all__) == edgewise.__all__
    offered = {name: getattr(edgewise, name) for name in edgewise.__all__}
    assert all(inspect.getdoc(what) for what in offered.values())


def test_every_error_can_be_caught_by_its_name() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.EdgewiseError)
    }
    assert len(kinds) > 10
    assert kinds.items() <= vars(edgewise).items()
