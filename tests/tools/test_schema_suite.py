"""What a suite of schemas is counted as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.schema_suite import DRAWN, count, reason


def group(schema: Any, **values: Any) -> dict[str, Any]:
    tests = [{"valid": name.startswith("valid"), "data": data} for name, data in values.items()]
    return {"description": "some", "schema": schema, "tests": tests}


def test_schemas_are_accepted_or_refused_and_values_taken_or_not(tmp_path: Path) -> None:
    folder = tmp_path / "draft7"
    folder.mkdir()
    groups = [
        group({"maximum": 3}, valid=2, valid_too="x", invalid=4),
        group({"not": True}, invalid=1),
    ]
    (folder / "some.json").write_text(json.dumps(groups))
    (folder / "more.json").write_text(json.dumps(group({"type": "text"})))
    counts = count(tmp_path)
    assert counts.schemas == {"accepted": 1, "refused": 1, "no schema": 1}
    assert counts.values["valid, taken"] == 1
    assert counts.values["valid, not taken"] == 1
    assert counts.values["invalid, not taken"] == 1
    assert counts.values["drawn, valid"] == DRAWN
    assert counts.wrong == []


def test_an_invalid_value_that_is_taken_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text(json.dumps([group({"type": "integer"}, invalid=4)]))
    assert count(tmp_path).wrong == ["some.json: some:  4"]


def test_reasons_are_counted_without_what_differs() -> None:
    assert reason("The schema at #/a: the reference 'x' is not supported.") == "the reference …"
    assert reason("The schema at #: minItems 1,000 is no count.") == "minItems  … is no count."
