"""Questions about edgewise itself."""

from __future__ import annotations

from random import Random

from .dialogue import Entry, Known, Turn, entry_turns, exchange

_WHAT = "[What is|What's|Explain|Please explain|Can you explain|Tell me about|What do you mean by] "

ENTRIES = (
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
        ("You can look inside a bundle with edgewise inspect, and compare two with edgewise diff.",),
    ),
    Entry(
        (
            "Where can [I run|you run] a bundle?",
            "[Where|On what] does a bundle run?",
            "Which [devices|targets|platforms] does edgewise support?",
            "Can [edgewise|a bundle] run in [a|the|my] browser?",
            "Does [edgewise|it] run on [a CPU|WebGPU|my laptop]?",
        ),
        (
            "A bundle runs on a CPU from Python, and in a browser tab on WebGPU.",
            "[Yes, a|A] bundle runs on a CPU from Python or in a browser tab on WebGPU.",
        ),
        ("In the browser nothing is sent away: the model runs inside the tab.",),
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
    Entry(
        (
            "How [do|can] I compile a [model|checkpoint]?",
            "What does edgewise compile do?",
            "[What is|Explain] edgewise compile?",
        ),
        (
            "Use edgewise compile with the folder of a checkpoint. It writes a bundle.",
            "edgewise compile turns a checkpoint into a bundle: it quantizes the weights and "
            "compiles the kernels.",
        ),
        ("You can choose the target, for example a CPU or WebGPU, and the quantization.",),
    ),
    Entry(
        (
            "How [do|can] I [chat|talk] [with|to] a [model|bundle]?",
            "What does edgewise chat do?",
            "[What is|Explain] edgewise chat?",
        ),
        (
            "Use edgewise chat with a bundle. It lets you talk to the model in your terminal.",
            "edgewise chat opens a conversation with a bundle in the terminal.",
        ),
    ),
    Entry(
        ("What does edgewise run do?", "How [do|can] I run one prompt?", "Explain edgewise run."),
        ("edgewise run gives one prompt to a bundle and prints the answer.",),
    ),
    Entry(
        (
            "What does edgewise serve do?",
            "How [do|can] I serve a [model|bundle]?",
            "Can edgewise [serve|act as a server]?",
        ),
        (
            "edgewise serve starts a local server, so that other programs can talk to the model.",
            "Use edgewise serve with a bundle. It starts a server on your machine.",
        ),
        ("Requests that begin with the same text share their pages in the prefix cache.",),
    ),
    Entry(
        (
            "What does edgewise inspect do?",
            "How [do|can] I [look inside|inspect] a bundle?",
            "Explain edgewise inspect.",
        ),
        ("edgewise inspect shows what is in a bundle: its plan, its kernels and its weights.",),
    ),
    Entry(
        (
            "What does edgewise diff do?",
            "How [do|can] I compare two bundles?",
            "Explain edgewise diff.",
        ),
        ("edgewise diff compares two bundles and shows what changed between them.",),
    ),
    Entry(
        (
            "What does edgewise doctor do?",
            "How [do|can] I check my [machine|setup|installation]?",
            "Explain edgewise doctor.",
            "[Something|edgewise] does not work. What [can|should] I do?",
        ),
        (
            "edgewise doctor checks your machine and says what is missing.",
            "Run edgewise doctor. It checks your machine and tells you what to fix.",
        ),
    ),
    Entry(
        (
            "[Which|What] commands does edgewise have?",
            "[What are the|List the|Show me the] edgewise commands[?|, please.]",
            "What can I do with edgewise?",
        ),
        (
            "The commands are edgewise compile, chat, run, serve, inspect, diff and doctor.",
            "edgewise has these commands: compile, chat, run, serve, inspect, diff and doctor.",
        ),
        ("edgewise compile writes a bundle, and edgewise chat lets you talk to it.",),
    ),
    Entry(
        (_WHAT + "quantization?", "Why [do you|does edgewise] quantize the weights?"),
        (
            "Quantization stores the weights of a model with fewer bits. The model gets smaller "
            "and often faster, and loses only a little accuracy.",
            "To quantize is to store each weight in fewer bits, for example 4 or 8. This makes a "
            "model smaller and faster to read.",
        ),
        ("edgewise knows q4, with 4 bits for each weight, and q8, with 8 bits.",),
    ),
    Entry(
        (
            "[What is|What's] the difference between q4 and q8?",
            "What [do q4 and q8 mean|are q4 and q8]?",
            "[Should I use|What is better,] q4 or q8?",
        ),
        (
            "q4 uses 4 bits for each weight and q8 uses 8 bits. q4 is smaller, and q8 is closer "
            "to the original model.",
        ),
        ("Start with q4 to save memory, and use q8 when the answers matter more.",),
    ),
    Entry(
        ("[What is|What's|What does] q4?", "What does q4 mean?", "Explain q4."),
        ("q4 is a quantization with 4 bits for each weight. It makes a model very small.",),
    ),
    Entry(
        ("[What is|What's] q8?", "What does q8 mean?", "Explain q8."),
        ("q8 is a quantization with 8 bits for each weight. It stays close to the original.",),
    ),
    Entry(
        (_WHAT + "[a|the] KV cache?", "Why is there a KV cache?", "What does KV cache mean?"),
        (
            "The KV cache holds the keys and values of all tokens so far, so that the model does "
            "not compute them again for each new token.",
            "A KV cache keeps the keys and values of earlier tokens. It makes each new token cheap.",
        ),
        ("edgewise keeps the KV cache in pages, so that memory is used only when it is needed.",),
    ),
    Entry(
        (_WHAT + "[a page|pages] in the KV cache?", _WHAT + "[a page|pages]?"),
        (
            "A page is a small block of the KV cache. edgewise gives out pages one by one as a "
            "conversation grows.",
        ),
        ("Pages can be shared, and that is how prefix caching works.",),
    ),
    Entry(
        (_WHAT + "[prefix caching|the prefix cache|a prefix cache]?", "Why is prefix caching useful?"),
        (
            "Prefix caching keeps the pages of a text that was seen before. When a new prompt "
            "begins with the same text, the model does not read it again.",
            "With prefix caching, two prompts that begin with the same text share the pages of "
            "that text. This saves time.",
        ),
    ),
    Entry(
        (_WHAT + "[a|the] plan?", "What [is in a plan|does the plan say]?"),
        (
            "A plan lists the steps that run a model: which kernel runs when, and on which memory.",
            "The plan is a list of steps in the bundle. Each step names a kernel and the memory it "
            "reads and writes.",
        ),
    ),
    Entry(
        (_WHAT + "a kernel?", "What are kernels?", "What do the kernels do?"),
        (
            "A kernel is a small compiled function, such as a matrix product. Apache TVM compiles "
            "the kernels for each target.",
        ),
    ),
    Entry(
        (_WHAT + "[Apache |]TVM?", "Why does edgewise use [Apache |]TVM?"),
        (
            "Apache TVM is an open source compiler for machine learning. edgewise uses it to "
            "compile kernels.",
        ),
    ),
    Entry(
        (_WHAT + "WebGPU?", "Why WebGPU?"),
        ("WebGPU lets a web page use the graphics card. With it, a bundle runs in a browser tab.",),
    ),
    Entry(
        (_WHAT + "a checkpoint?", "What is a model checkpoint?"),
        ("A checkpoint is a folder with the weights, the settings and the tokenizer of a model.",),
    ),
    Entry(
        (_WHAT + "a [tokenizer|token]?", "What does [the|a] tokenizer do?", "What are tokens?"),
        ("A tokenizer cuts text into tokens. A token is a word or a piece of a word.",),
    ),
    Entry(
        (_WHAT + "a transformer?", "What is a [language model|large language model]?"),
        (
            "A transformer is a neural network that reads tokens and predicts the next one. Most "
            "language models are transformers.",
            "A language model predicts the next token of a text. Most are transformers.",
        ),
    ),
    Entry(
        (
            "Is my data [safe|private] [with edgewise|in the browser|]?",
            "Does edgewise send my [data|text|words] [to a server|anywhere|away]?",
        ),
        ("With edgewise the model runs on your own machine, so your text stays with you.",),
    ),
    Entry(
        ("Can [I use|edgewise run] edgewise without [the internet|a network]?", "Does it work offline?"),
        ("Yes. Once a bundle is on your machine, it runs offline.",),
    ),
    Entry(
        ("Is [a bundle|the model] small?", "How [big|large|small] is [this model|the demo model]?"),
        ("The demo model is tiny: it has about 4 million parameters.",),
    ),
)

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
