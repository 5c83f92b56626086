"""What lies where in the buffers that the host and compiled programs share.

Engine and drafts write them, kernels and generated host functions read them, and a bundle is only
right while all of them agree: whatever is here is part of the bundle format.

Rows of ``table`` describe sequences, rows of ``tokens``, ``positions`` and ``row_seq`` the tokens
of a step, and ``step`` says how many of each there are.
"""

from __future__ import annotations

PAGE_TOKENS = 16
"""Tokens that a KV page holds."""

GROUP = 32
"""Columns of a weight, or of activations, that share one scale."""

PANEL = 16
"""Rows of a weight that lie beside each other in the ``cpu`` layout, one for each lane."""

STEP_WIDTH = 8
"""int32 fields of ``step``; those without a name are 0."""

ROWS, SEQUENCES, LOGIT_ROWS, REACH = range(4)
"""Fields of ``step``: token rows, sequences, rows whose logits are wanted, and the most tokens a
sequence can come to have in KV within the step."""

STEP_SYMBOLS = ("n", "b", "r", "t")
"""The plans' symbols for those fields, in their order."""

TABLE_HEADER = 8
"""int32 fields of a row of ``table`` before its page ids."""

KV_LEN, Q_START, Q_LEN, STOP, LIMIT, COUNT, SLOT = range(7)
"""Fields of a row of ``table``: tokens in KV, the first of its token rows and how many it has, why
it has stopped (0 while it runs), the most tokens it may have in KV, how many tokens the burst has
drawn, and its row of ``counts``."""

RING = 64
"""Columns of ``ring``: tokens that a burst can draw, at most."""

STOP_TOKENS = 16
"""Entries of ``eos``; -1 is none."""

MAX_BIASES = 320
"""Columns of ``bias_ids`` and ``bias_values``."""

SAMPLING_WIDTH = 8
"""Columns of ``sampling_f`` and ``sampling_i``; those without a name are 0."""

TEMPERATURE, TOP_P, MIN_P, REPETITION, PRESENCE, FREQUENCY = range(6)
"""Columns of ``sampling_f``."""

TOP_K, SEED_LOW, SEED_HIGH, BIASES, IGNORE_EOS, SEQUENCE = range(6)
"""Columns of ``sampling_i``."""

TOP_LOGPROBS = 20
"""The likeliest tokens whose log-probability is told."""

LOGPROBS = 1 + TOP_LOGPROBS
"""Columns of ``logprobs`` and ``logprob_ids``: the token that was drawn comes first."""

NO_TOKEN = -1
"""What stands in ``logprob_ids`` where there are not so many tokens."""
