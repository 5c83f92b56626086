"""The comparison of two recordings tells what moved."""

from __future__ import annotations

from tools.artifacts import compare


def test_recordings_of_the_same_artifacts_do_not_differ() -> None:
    assert compare({"kernel a": "1"}, {"kernel a": "1"}) == []


def test_what_is_gone_new_or_changed_is_named() -> None:
    before = {"kernel a": "1", "kernel b": "2", "tensor c": "3"}
    after = {"kernel b": "4", "tensor c": "3", "tensor d": "5"}
    assert compare(before, after) == ["gone: kernel a", "changed: kernel b", "new: tensor d"]
