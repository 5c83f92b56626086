"""Questions about edgewise itself."""

from __future__ import annotations

from random import Random

from .dialogue import Entry, Known, Turn, entry_turns, exchange
from .edgewise_commands import COMMANDS
from .edgewise_ideas import IDEAS

_WHAT = "[What is|What's|Explain|Please explain|Can you explain|Tell me about|What do you mean by] "

_OVERVIEW = (
    Entry(
        (
            "[What is|What's|What exactly is|Explain|Tell me about] edgewise?",
            "What does edgewise do?",
            "[Can you|Could you|Please] [explain|tell me] what edgewise is[?| in one sentence?]",
            "[Do you know|Have you heard of] edgewise?",
        ),
        (
            "edgewise is a compiler for language models. It takes a quantized transformer "
            "checkpoint and compiles it with Apache TVM into a bundle that runs on a CPU or in a "
            "browser tab.",
            "edgewise compiles a quantized transformer checkpoint into a bundle. The bundle runs "
            "from Python on a CPU, or in a browser tab on WebGPU.",
        ),
        (
            "You install it with one pip install, compile a checkpoint with edgewise compile, and "
            "talk to the model with edgewise chat.",
            "A bundle holds the compiled kernels, the plan and the quantized weights, so it has "
            "all that is needed to run the model.",
        ),
    ),
    Entry(
        (
            "[How does|How do] edgewise work?",
            "How does edgewise compile a model?",
            "What happens [when I compile a model|during compilation|in edgewise compile]?",
        ),
        (
            "edgewise reads a checkpoint, quantizes its weights, writes a plan of the work, and "
            "compiles the kernels with Apache TVM. The result is a bundle.",
            "First edgewise reads the checkpoint. Then it quantizes the weights and makes a plan. "
            "Last, Apache TVM compiles the kernels, and all of it goes into a bundle.",
        ),
        ("The plan says which kernel runs when, and on which pages of memory.",),
    ),
    Entry(
        (
            _WHAT + "a bundle?",
            "What is [in|inside] a bundle?",
            "[What does a bundle contain|What is an edgewise bundle]?",
        ),
        (
            "A bundle is what edgewise compile writes: compiled kernels, a plan, the quantized "
            "weights and the tokenizer, all in one folder.",
            "A bundle is a folder with everything needed to run a model: the kernels, the plan, "
            "the weights and the tokenizer.",
        ),
        (
            "You can look inside a bundle with edgewise inspect, and compare two with edgewise "
            "diff.",
        ),
    ),
    Entry(
        (
            "Where can [I run|you run] a bundle?",
            "[Where|On what] does a bundle run?",
            "Which [devices|targets|platforms] does edgewise support?",
        ),
        (
            "A bundle runs on a CPU from Python, and in a browser tab on WebGPU.",
            "You can run a bundle from Python on a CPU, or in a browser tab on WebGPU.",
        ),
        ("In the browser nothing is sent away: the model runs inside the tab.",),
    ),
    Entry(
        (
            "Can [edgewise|a bundle|it] run in [a|the|my] [browser|browser tab]?",
            "Does [edgewise|it] [run|work] [in the browser|on WebGPU|in Chrome]?",
        ),
        ("Yes. A bundle runs in a browser tab on WebGPU[, and nothing leaves your machine|].",),
    ),
    Entry(
        (
            "Can [edgewise|a bundle|it] run [on a CPU|on my laptop|without a GPU]?",
            "Does [edgewise|it] [run|work] on [a CPU|my laptop|my computer]?",
            "Do I need a [GPU|graphics card]?",
        ),
        ("A bundle runs on a CPU from Python, so no graphics card is needed.",),
    ),
    Entry(
        (
            "How [do|can] I install edgewise?",
            "How [do|can] I [get started|start] with edgewise?",
            "[What do I need to install|What do I need]?",
            "Do I need Emscripten?",
        ),
        (
            "You install edgewise with one pip install. You do not need Emscripten.",
            "One pip install is enough: pip install edgewise. No Emscripten is needed.",
        ),
        ("After that, edgewise doctor checks that your machine is ready.",),
    ),
)
ENTRIES = (*_OVERVIEW, *COMMANDS, *IDEAS)

_LEADS = (
    "I have a question about edgewise.",
    "[Can|May] I ask [you |]something about edgewise?",
    "Let us talk about edgewise.",
    "I [am new to|want to learn about|just installed] edgewise.",
)
_INVITES = (
    "[Sure|Of course|Gladly]! [What would you like to know|What is your question|Ask away]?",
    "[Great|Good]! What would you like to know about edgewise?",
)


def about_edgewise(rng: Random, known: Known) -> list[Turn]:
    """Ask one or two things about edgewise."""
    del known
    turns = exchange(rng, _LEADS, _INVITES) if rng.random() < 0.12 else []
    for entry in rng.sample(ENTRIES, rng.choice((1, 1, 2))):
        turns += entry_turns(rng, entry)
    return turns
