"""The drawing of a training run."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tools.demo_corpus.curve import loss_svg

SVG = "{http://www.w3.org/2000/svg}"


def _heights(losses: list[float]) -> list[float]:
    line = ElementTree.fromstring(loss_svg(losses)).find(f"{SVG}polyline")
    assert line is not None
    return [float(point.split(",")[1]) for point in line.attrib["points"].split()]


@pytest.mark.parametrize("steps", [1, 7, 3000])
def test_a_falling_loss_is_drawn_falling(steps: int) -> None:
    heights = _heights([3.0 - 2.0 * step / steps for step in range(steps)])
    assert heights == sorted(heights)
    assert 1 <= len(heights) <= 200


def test_what_is_too_high_is_cut_off_inside_the_drawing() -> None:
    assert min(_heights([8.0, 1.0])) >= 0


def test_the_axes_name_steps_and_nats() -> None:
    drawing = ElementTree.fromstring(loss_svg([1.0] * 2000))
    texts = {text.text for text in drawing.iter(f"{SVG}text")}
    assert {"0", "500", "2000", "4", "step", "nats per token of the assistant"} <= texts
