"""Questions about edgewise itself."""

from __future__ import annotations

from random import Random

from .asking import about, does, how
from .dialogue import Entry, Known, Turn, entry_turns, exchange
from .edgewise_commands import COMMANDS
from .edgewise_ideas import IDEAS
from .edgewise_use import USE

_IS = (
    "edgewise is a compiler for language models. It turns a model checkpoint into a bundle that "
    "runs on a CPU[| or in a browser tab|, and later on WebGPU].",
    "edgewise compiles language models. It reads a checkpoint, makes its weights small, and "
    "writes a bundle that a small runtime runs.",
    "edgewise is a compiler: a language model goes in as a checkpoint, and a bundle for the CPU "
    "or WebGPU comes out.",
)

_OVERVIEW = (
    Entry(
        (
            *about("edgewise", "edgewise", "this edgewise", "this project", "this tool"),
            *about("edgewise"),
            "[What does|What will|What can] [edgewise|this program|this software|this tool] do[| "
            "for me| exactly]?",
            "[Have you heard of|Are you familiar with|Can you introduce|Describe] edgewise[?|, "
            "please.| to a friend.]",
            "[I am|I'm] [new|a beginner] here[.|,] [what is this|what's edgewise|where am I]?",
            "[I just found|I have never used|I never heard of|I just installed] edgewise[.|. What "
            "is it?|. What does it do?]",
        ),
        _IS,
        (
            "You install it with pip, compile a checkpoint with edgewise compile, and talk to the "
            "model with edgewise chat.",
            "A bundle holds the compiled kernels, the plan and the weights, so it has all that is "
            "needed to run the model.",
        ),
    ),
    Entry(
        (
            "[Why|What for] [is|was] edgewise [made|built|useful|there|needed|good]?",
            "Why [should|would|do] [I|people|anyone|you] use edgewise?",
            "[What is|What's] [the point|the goal|the aim|the use|the purpose|special|good] "
            "[of|about|with] edgewise?",
            "[Who|For whom] is edgewise [for|made for]?",
            "What [need|use|purpose] does edgewise [serve|have|meet]?",
        ),
        (
            "edgewise makes language models small and easy to run on your own machine: it "
            "compiles a checkpoint into a bundle, and a small runtime runs the bundle.",
            "With edgewise a language model runs on your own machine. Everything is compiled "
            "before, so the runtime stays small and starts quickly.",
        ),
    ),
    Entry(
        (
            *does("train models", "train a model", "fine-tune a model", "teach a model", "learn"),
            "Is edgewise [for training|a training tool|a training framework|a model|a chatbot|an "
            "app|a neural network|a programming language|a website]?",
            "[Can I|How do I] [train|fine-tune] [a model|models|my own model] with [edgewise|it]?",
        ),
        (
            "No, edgewise does not train. It is a compiler: it makes trained models ready to run.",
            "No. edgewise is a compiler for models that are trained already.",
        ),
    ),
    Entry(
        (
            "How does [edgewise|it|this|edgewise compile|the compiler|all of this] work[| inside| "
            "under the hood]?",
            "[What happens|What goes on] [when I compile a model|during compilation|inside|when a "
            "model is compiled|under the hood]?",
            "[Explain|Describe] [how it works|the steps|how edgewise works|the whole process].",
        ),
        (
            "edgewise reads a checkpoint, quantizes its weights, writes a plan of the work, and "
            "compiles the kernels with Apache TVM. The result is a bundle.",
            "First edgewise reads the checkpoint. Then it quantizes the weights and makes a plan. "
            "Last, Apache TVM compiles the kernels, and all of it goes into a bundle.",
        ),
        ("The plan says which kernel runs when, and on which memory.",),
    ),
    Entry(
        (
            *about("a bundle", "a bundle", "an edgewise bundle", "the bundle", "bundles"),
            "What [is|are|sits|goes|do I find|will I find|comes] [in|inside|into] [a|the|my] "
            "bundle?",
            "What does [a|the|each] bundle [contain|hold|consist of|have inside]?",
            "[Which|What] [things|parts|pieces] are [in|part of] a bundle?",
            "[What is|What's] the [output|result] of [edgewise compile|compiling|the compiler]?",
        ),
        (
            "A bundle is a folder with everything needed to run a model: the kernels, the plans, "
            "the weights and the tokenizer.",
            "A bundle is what edgewise compile writes: one folder that holds compiled kernels, "
            "plans, packed weights and the tokenizer.",
        ),
        (
            "You can look inside a bundle with edgewise inspect, and compare two with edgewise "
            "diff.",
        ),
    ),
    Entry(
        (
            "[Where|On what|On which machines] [can|does|will] [I run a bundle|a bundle run|it run|"
            "edgewise run|a model run]?",
            "[Which|What] [devices|targets|platforms|hardware|machines|computers|chips] "
            "[does edgewise support|are supported|can I use|work|are there|will do|can run it|"
            "does it run on]?",
            "[List|Name|Tell me|What are] the [targets|devices|supported devices|platforms].",
            *about("a target", "the targets"),
            "[CPU or GPU|CPU or browser|Is it CPU only]?",
        ),
        (
            "The targets are the CPU and WebGPU: a bundle runs from Python on a CPU, and WebGPU is "
            "for the browser.",
            "A bundle runs on a CPU from Python. The other target is WebGPU, in a browser tab.",
        ),
        ("In the browser nothing is sent away: the model runs inside the tab.",),
    ),
    Entry(
        (
            *does(
                "run in the browser",
                "run in a browser tab",
                "work in Chrome",
                "run inside a website",
                "work on a web page",
                "run on the web",
                "use WebGPU",
            ),
            *how(
                "run a model in the browser",
                "use it in a browser",
                "put a chatbot on my website",
                "show a model on a page",
            ),
            "[Is there|Do you have] [a browser version|browser support|WebGPU support|a web demo]?",
            "[How does|What makes] [the browser version|the browser part|a browser tab] work?",
            "[What about|And] [browsers|the browser|Firefox|Safari|the web]?",
        ),
        (
            "For the browser there is the WebGPU target: the model then runs inside the tab.",
            "In a browser tab edgewise uses WebGPU, so the model runs on the visitor's machine.",
        ),
    ),
    Entry(
        (
            *does(
                "run on a CPU",
                "run on my laptop",
                "work without a GPU",
                "work on my computer",
                "run on an old computer",
                "work on a small machine",
                "run on a cheap PC",
            ),
            "[Do I need|Must I have|Is there a need for|Do I have to buy|"
            "Does it require|What about] a [GPU|graphics card|fast computer|video card]?",
            "[I have|I only have] [no GPU|an old laptop|a CPU][.|, is that enough?|, "
            "does it work?]",
        ),
        (
            "Yes, a CPU is enough. No graphics card is needed.",
            "Yes. A bundle runs on a CPU, so you need no graphics card.",
        ),
    ),
)
ENTRIES = (*_OVERVIEW, *COMMANDS, *IDEAS, *USE)

_LEADS = (
    "I have a question about edgewise.",
    "[Can|May] I ask [you |]something about edgewise?",
    "Let us talk about edgewise.",
    "I want to [learn about|know more about|try] edgewise.",
)
_INVITES = (
    "[Sure|Of course|Gladly]! [What would you like to know|What is your question|Ask away]?",
    "[Great|Good]! What would you like to know about edgewise?",
)


def about_edgewise(rng: Random, known: Known) -> list[Turn]:
    """Ask a few things about edgewise."""
    del known
    turns = exchange(rng, _LEADS, _INVITES) if rng.random() < 0.06 else []
    for entry in rng.sample(ENTRIES, rng.choice((1, 2, 3, 4))):
        turns += entry_turns(rng, entry)
    return turns
