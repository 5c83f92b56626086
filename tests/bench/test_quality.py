"""docs/quality.md tells what docs/quality.json says, and its drawings show every point."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scoring.page import MOST_BITS, drawing, filled, reference
from scoring.plot import Axes, Box, Dot, labels, quality_svg
from scoring.points import OURS, PEERS, POINTS

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
DATA: Mapping[str, Mapping[str, Any]] = json.loads((DOCS / "quality.json").read_text("utf-8"))


def test_the_page_has_the_figures() -> None:
    text = (DOCS / "quality.md").read_text("utf-8")
    assert filled(text, DATA) == text


@pytest.mark.parametrize("key", DATA)
def test_the_drawing_is_of_the_figures(key: str) -> None:
    assert drawing(key, DATA[key]) == (DOCS / f"quality-{key}.svg").read_text("utf-8")


@pytest.mark.parametrize("key", DATA)
def test_the_drawing_shows_every_point_where_it_is(key: str) -> None:
    root = ElementTree.parse(DOCS / f"quality-{key}.svg").getroot()
    titles = [title.text for title in root.iter(f"{SVG}title")]
    small = {n: f for n, f in DATA[key].items() if f["bits_per_weight"] <= MOST_BITS}
    assert titles
    assert sorted(str(title).split(":")[0] for title in titles) == sorted(small)
    for name, found in small.items():
        mib, nats = found["weight_bytes"] / 2**20, found["kl"]["mean"]
        assert f"{name}: {mib:.1f} MiB, KL {nats:.4g}" in titles
    marks = len(list(root.iter(f"{SVG}circle"))), sum(found["ours"] for found in small.values())
    assert marks[0] == marks[1] + 1  # and the legend's


@pytest.mark.parametrize("key", DATA)
def test_points_are_told_that_there_are_and_how_each_was_measured(key: str) -> None:
    for name, found in DATA[key].items():
        assert found["ours"] == (name in OURS) == (name not in PEERS)
        assert found["command"] == f"python bench/quality.py --model {key} --only {name}"
        assert 0 <= found["kl"]["median"] <= found["kl"]["p999"]
        assert 0 < found["same_top1"] <= 1


def test_points_that_were_compared_with_something_else_are_not_told_together() -> None:
    (name, found), *_ = DATA["demo"].items()
    other = {**found, "reference": {**found["reference"], "windows": 1}}
    with pytest.raises(ValueError, match="compared with"):
        reference({name: found, "other": other})


def test_a_page_without_a_place_for_a_model_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the figures of demo"):
        filled("<!-- figures of smollm2 -->\n<!-- end -->\n", {"demo": DATA["demo"]})


def test_every_preset_of_ours_is_a_point_and_calibrated_where_that_chooses_something() -> None:
    assert {"q8", "q4", "q4+calibrate"} <= OURS.keys()
    assert not {"f32", "f16+calibrate"} & OURS.keys()
    assert all(POINTS[name].name == name for name in POINTS)


CROWD = [Dot(f"point {i}", 70 + i % 5, 0.1 * 1.02**i, ours=i % 2 == 0) for i in range(14)]


def test_names_of_a_crowd_overlap_neither_each_other_nor_a_mark() -> None:
    axes = Axes.around(CROWD)
    places = labels(CROWD, axes)
    centres = [(axes.x(dot.mib), axes.y(dot.kl)) for dot in CROWD]
    marks = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in centres]
    assert not [pair for pair in combinations(places, 2) if pair[0].overlaps(pair[1])]
    assert not [(p, m) for p in places for m in marks if p.overlaps(m)]


def test_more_names_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="no room for the name"):
        labels(CROWD * 9, Axes.around(CROWD))


def test_smaller_is_left_and_better_is_below() -> None:
    dots = [Dot("a < b", 70, 0.3, ours=True), Dot("c & d", 100, 0.004, ours=False)]
    root = ElementTree.fromstring(quality_svg("KL & size", dots))
    disc = next(c for c in root.iter(f"{SVG}circle") if float(c.attrib["cy"]) > 30)
    diamond = next(
        p for p in root.iter(f"{SVG}path") if p.attrib["d"].endswith("z") and not _on_top(p)
    )
    x, y = map(float, re.findall(r"[\d.]+", diamond.attrib["d"])[:2])
    assert float(disc.attrib["cx"]) < x
    assert float(disc.attrib["cy"]) < y
    assert {t.text for t in root.iter(f"{SVG}text")} >= {"a < b", "c & d", "KL & size", "0.1"}


def _on_top(path: ElementTree.Element) -> bool:
    return float(path.attrib["d"].split()[1].split("l")[0]) < 30


def test_a_decade_is_as_high_as_another() -> None:
    axes = Axes.around([Dot("a", 1, 0.002, True), Dot("b", 2, 0.5, True)])
    steps = [axes.y(10.0**-k) for k in range(4)]
    assert steps == sorted(steps)
    assert math.isclose(steps[1] - steps[0], steps[3] - steps[2])
