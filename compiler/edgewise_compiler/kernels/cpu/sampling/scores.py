"""Scores (logits after penalties, biases, mask) of a block, the best of them, their weights."""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.cpu.sampling.scratch import (
    BEST,
    BLOCK,
    CUT,
    DRAW,
    FILTERED,
    FLOOR,
    GREEDY,
    HI,
    HI_COUNT,
    HI_MASS,
    INFINITY,
    KEPT,
    KIND,
    LO,
    LO_COUNT,
    LO_MASS,
    LOWEST,
    MINUS_INFINITY,
    PEAK,
    PHASE,
    RUNNING,
    SCALE,
    SETTLED,
    TIE_WEIGHT,
    TIES,
    TOTAL,
    Work,
    count_of,
    float32,
    int64,
    key,
    mass_of,
    weighed,
    when,
)
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    bits,
    cast,
    exp2,
    fma,
    lane_max,
    lane_sum,
    lanes_of,
    let,
    load,
    splat,
    store,
)
from edgewise_compiler.kernels.numbers import FLOAT_MAX, LOG2E, WEIGHT_BITS
from edgewise_compiler.kernels.sampling import penalized
from edgewise_runtime.format.abi import (
    BIAS_IDS,
    BIAS_VALUES,
    BIASES,
    FREQUENCY,
    MASK_BITS,
    MASKED,
    MAX_BIASES,
    NOT_FINITE,
    PRESENCE,
    REPETITION,
    SLOT,
    STOP,
    TEMPERATURE,
)

# Temperatures outside are brought inside: weights could not tell, and no product overflows.
_TEMPERATURES = (1e-6, 1e6)
# Scores so many powers of two below the best have weight 0, whatever was rounded on the way.
_OCTAVES = 64.0


def start(w: Work, row: Expr) -> None:
    """Decides what becomes of a row. A temperature that is not above 0 (NaN too) is greedy."""
    running = T.EQ(w.table[row, STOP], 0)
    warm = w.sampling_f[row, TEMPERATURE] > float32(0.0)
    w.put(row, RUNNING, T.Select(running, 1, 0))
    w.put(row, KIND, T.Select(tirx.all(running, warm), DRAW, GREEDY))
    w.put(row, PHASE, SETTLED)
    # Everything is kept until something is filtered.
    store(w.levels, float32(MINUS_INFINITY), row, CUT)
    for field, value in ((TIES, 0), (TIE_WEIGHT, 0), (FLOOR, 1), (FILTERED, 0)):
        w.put(row, field, value)


def score_block(w: Work, row: Expr, block: Expr) -> None:
    """Writes the scores of a block and the best of them.

    Scores are never NaN or -0 (+0), so that order and ties mean what they say. +inf stands where
    the logit was NaN or +inf, and nothing takes it away: it is then the best one of the row.
    """
    first = T.bind(block * BLOCK)
    count = T.bind(T.min(w.V - first, BLOCK))
    with T.If(penalized(w.sampling_f, row)):
        with T.Then():
            _write_scores(w, row, first, count, penalties=True)
        with T.Else():
            _write_scores(w, row, first, count, penalties=False)
    _add_biases(w, row, first, count)
    with when(T.NE(w.sampling_i[row, MASKED], 0)):
        _mask(w, row, block)
    best = T.sblock_alloc_buffer((2, LANES), "float32")
    for half in range(2):
        store(best, splat(MINUS_INFINITY), half, 0)
    with T.serial(0, T.floordiv(w.width(block), 2 * LANES)) as i:
        for half in range(2):
            score = load(w.scores, row, first + (2 * i + half) * LANES)
            store(best, T.max(load(best, half, 0), score), half, 0)
    top = lane_max(T.max(load(best, 0, 0), load(best, 1, 0)))
    store(w.partial, int64(bits(top, "int32")), row, block, BEST)


def _write_scores(w: Work, row: Expr, first: Expr, count: Expr, *, penalties: bool) -> None:
    slot = let(w.table[row, SLOT])

    def write(at: Expr, lanes: int) -> None:
        logit = let(load(w.logits, row, at, lanes=lanes))
        score = logit
        if penalties:
            seen = let(load(w.counts, slot, at, lanes=lanes))
            score = T.min(_penalize(w, row, logit, seen), splat(FLOAT_MAX, lanes))
        store(w.scores, _marked(logit, score), row, at)

    whole = T.bind(T.floordiv(count, LANES))
    with T.serial(0, whole) as i:
        write(T.bind(first + i * LANES), LANES)
    # What is left of the vocabulary, then what pads it to the width of the logits.
    with T.serial(0, count - whole * LANES) as i:
        write(T.bind(first + whole * LANES + i), 1)
    with T.serial(0, T.min(w.VP - first, BLOCK) - count) as i:
        store(w.scores, float32(MINUS_INFINITY), row, first + count + i)


def _penalize(w: Work, row: Expr, score: Expr, seen: Expr) -> Expr:
    """Repetition as transformers does it, then OpenAI's presence and frequency penalties.

    ``seen`` is twice the times the token was sampled, plus 1 if it is in the prompt: repetition
    looks at both, the other two at what was sampled only.
    """
    lanes = lanes_of(score)
    zero = splat(0, lanes, "int32")
    sampled = let(seen >> splat(1, lanes, "int32"))

    def minus(field: int) -> Expr:
        return splat(w.sampling_f[row, field] * float32(-1.0), lanes)

    repetition = splat(w.sampling_f[row, REPETITION], lanes)
    amount = fma(minus(FREQUENCY), cast(sampled, "float32"), minus(PRESENCE), w.isa)
    shift = let(T.Select(sampled > zero, amount, splat(0.0, lanes)))
    weaker = T.Select(
        score > splat(0.0, lanes), score / repetition + shift, fma(score, repetition, shift, w.isa)
    )
    return T.Select(seen > zero, weaker, score)


def _marked(logit: Expr, score: Expr) -> Expr:
    """``score``, -0 as 0; +inf where its logit is NaN or +inf."""
    lanes = lanes_of(logit)
    zero = splat(0.0, lanes)
    score = let(T.Select(logit <= splat(FLOAT_MAX, lanes), score, splat(INFINITY, lanes)))
    return T.Select(T.EQ(score, zero), zero, score)


def clean(score: Expr) -> Expr:
    """A score that orders as it should: NaN as -inf, +inf as the largest number, -0 as 0."""
    lanes = lanes_of(score)
    zero, lowest = splat(0.0, lanes), splat(MINUS_INFINITY, lanes)
    score = let(T.Select(score > lowest, score, lowest))
    score = let(T.min(score, splat(FLOAT_MAX, lanes)))
    return T.Select(T.EQ(score, zero), zero, score)


def _add_biases(w: Work, row: Expr, first: Expr, count: Expr) -> None:
    biases = let(T.min(w.sampling_i[row, BIASES], MAX_BIASES))
    with T.serial(0, biases) as i:
        token = let(w.biases[row, BIAS_IDS, i])
        with when(tirx.all(token >= first, token < first + count)):
            score = let(w.scores[row, token])
            with when(score < float32(INFINITY)):
                bias = bits(w.biases[row, BIAS_VALUES, i], "float32")
                store(w.scores, clean(let(score + bias)), row, token)


def _mask(w: Work, row: Expr, block: Expr) -> None:
    """Bans the tokens of a block whose bit is 0, but for what marks a logit that is not finite."""
    one, lowest, marked = splat(1, LANES, "int32"), splat(MINUS_INFINITY), splat(INFINITY)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i:
        at = T.bind(block * BLOCK + i * LANES)
        word = let(w.grammar_mask[row, T.floordiv(at, MASK_BITS)])
        lanes = T.ramp(T.floormod(at, MASK_BITS), 1, LANES)
        allowed = T.EQ((splat(word, LANES, "int32") >> lanes) & one, one)
        score = let(load(w.scores, row, at))
        kept = T.Select(allowed, score, lowest)
        store(w.scores, T.Select(T.EQ(score, marked), score, kept), row, at)


def conclude_scores(w: Work, row: Expr) -> None:
    """Finds the best score of a row; a greedy row is done with that, and so is one that nothing can
    be drawn of: where a logit was NaN or +inf, or no score is above -inf."""
    best = T.sblock_alloc_buffer((1,), "float32")
    where = T.sblock_alloc_buffer((1,), "int32")
    store(best, float32(MINUS_INFINITY), 0)
    store(where, tirx.const(0, "int32"), 0)
    with T.serial(0, w.blocks) as block:
        score = let(bits(cast(w.partial[row, block, BEST], "int32"), "float32"))
        with when(score > best[0]):
            store(best, score, 0)
            store(where, block, 0)
    with T.If(T.EQ(T.abs(best[0]), float32(INFINITY))):
        with T.Then():
            store(w.sampled, tirx.const(NOT_FINITE, "int32"), row)
            w.put(row, KIND, GREEDY)
        with T.Else(), T.If(w.has(row, KIND, GREEDY)):
            with T.Then():
                store(w.sampled, _first_equal(w, row, let(where[0]), best[0]), row)
            with T.Else():
                _scale(w, row, best[0])


def _first_equal(w: Work, row: Expr, block: Expr, score: Expr) -> Expr:
    """The lowest token of a block with this score."""
    none = splat(-(2**31), LANES, "int32")
    nearest = T.sblock_alloc_buffer((LANES,), "int32")
    store(nearest, none, 0)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i:
        at = T.bind(block * BLOCK + i * LANES)
        equal = T.EQ(load(w.scores, row, at), splat(score))
        found = T.Select(equal, T.ramp(0 - at, -1, LANES), none)
        store(nearest, T.max(load(nearest, 0), found), 0)
    return 0 - lane_max(load(nearest, 0))


def _scale(w: Work, row: Expr, peak: Expr) -> None:
    low, high = (float32(bound) for bound in _TEMPERATURES)
    temperature = T.min(T.max(w.sampling_f[row, TEMPERATURE], low), high)
    scale = let(float32(LOG2E) / temperature)
    store(w.levels, peak, row, PEAK)
    store(w.levels, scale, row, SCALE)
    lowest = T.max(peak - float32(_OCTAVES) / scale, float32(-FLOAT_MAX))
    store(w.levels, lowest, row, LOWEST)


def weigh_block(w: Work, row: Expr, block: Expr) -> None:
    """Writes the weights of a block, and their number and sum from LOWEST on."""
    peak, scale = let(splat(w.levels[row, PEAK])), let(splat(w.levels[row, SCALE]))
    lowest = let(splat(w.levels[row, LOWEST]))
    kept = T.sblock_alloc_buffer((LANES,), "int64")
    store(kept, splat(0, LANES, "int64"), 0)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i:
        at = T.bind(block * BLOCK + i * LANES)
        score = let(load(w.scores, row, at))
        # The clamp inside exp2 stands between this product and any sum; the other product is exact,
        # so fusing it with the sum changes nothing.
        likeness = exp2((score - peak) * scale, w.isa)
        weight = let(cast(likeness * splat(2.0**WEIGHT_BITS) + splat(0.5), "int32"))
        store(w.weights, weight, row, at)
        store(kept, load(kept, 0) + weighed(score >= lowest, weight), 0)
    store(w.partial, lane_sum(load(kept, 0)), row, block, KEPT)


def conclude_weights(w: Work, row: Expr) -> None:
    """Adds up the blocks of a row: between LOWEST and the best score lies all there is to draw."""
    for field in (LO_COUNT, LO_MASS, HI_COUNT, HI_MASS):
        w.put(row, field, 0)
    with T.serial(0, w.blocks) as block:
        kept = let(w.partial[row, block, KEPT])
        w.put(row, LO_COUNT, w.state[row, LO_COUNT] + count_of(kept))
        w.put(row, LO_MASS, w.state[row, LO_MASS] + mass_of(kept))
    w.put(row, LO, key(w.levels[row, LOWEST]))
    w.put(row, HI, key(w.levels[row, PEAK]) + 1)
    w.copy(row, TOTAL, LO_MASS)
