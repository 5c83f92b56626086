"""The cases of this folder as Python's tests read them."""

from __future__ import annotations

import copy
import json
from typing import Any

from edgewise_runtime.format.seal import MANIFEST, unseal
from tests.format.make_goldens import FOLDER, GOLDENS

Case = dict[str, Any]


def cases(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_bytes())


def golden(file: str) -> Any:
    """A golden's value; a manifest's without its digest."""
    data = (GOLDENS / file).read_bytes()
    return unseal(data) if file == MANIFEST else json.loads(data)


def what(case: Case) -> str:
    return str(case["what"])


def edited(case: Case) -> Any:
    """The golden a case names after its edits.

    An edit is a path and a new value, or a path alone to remove what is there; "-" as the last key
    appends to a list.
    """
    value = copy.deepcopy(golden(case["file"]))
    for (*parents, last), *new in case["edits"]:
        at = value
        for key in parents:
            at = at[key]
        if not new:
            del at[last]
        elif last == "-":
            at.append(new[0])
        else:
            at[last] = new[0]
    return value
