"""The textbook distribution the kernel is tested against, against transformers' own filters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.kernels.sampling_reference import Request, distribution

REQUESTS = [
    Request(temperature=0.7),
    Request(temperature=1.5, top_k=40),
    Request(temperature=1.0, top_p=0.9),
    Request(temperature=1.0, min_p=0.05),
    Request(temperature=0.8, top_k=200, top_p=0.95, min_p=0.01, repetition=1.2),
    Request(temperature=2.0, top_k=2, top_p=0.99, repetition=0.8),
]


@pytest.mark.full
@pytest.mark.parametrize("request_", REQUESTS)
def test_penalty_and_filters_are_those_of_transformers(request_: Request) -> None:
    import torch
    from transformers.generation import logits_process as hf

    V = 2000
    rng = np.random.default_rng(1)
    logits, seen = rng.normal(0, 3, V), rng.choice(V, 60, replace=False)
    chain = [
        hf.RepetitionPenaltyLogitsProcessor(request_.repetition),
        hf.TemperatureLogitsWarper(request_.temperature),
        hf.TopKLogitsWarper(request_.top_k or V),
        hf.TopPLogitsWarper(request_.top_p),
        hf.MinPLogitsWarper(request_.min_p),
    ]
    values = torch.tensor(logits)[None]
    for process in chain:
        values = process(torch.tensor(seen)[None], values)
    counts = np.minimum(np.bincount(seen, minlength=V), 1)  # all of it prompt
    expected = torch.softmax(values, -1)[0].numpy()
    np.testing.assert_allclose(distribution(logits, counts, request_), expected, atol=1e-12)
