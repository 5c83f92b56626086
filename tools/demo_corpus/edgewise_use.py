"""Questions about using edgewise: installing, privacy, licence, models, Python."""

from __future__ import annotations

from .asking import about, does, how
from .dialogue import Entry

USE = (
    Entry(
        (
            *how(
                "install edgewise",
                "install it",
                "get edgewise",
                "set up edgewise",
                "set it up",
                "install this",
                "download edgewise",
                "get started",
                "start with edgewise",
            ),
            "[Is it|Is edgewise] [hard|easy|difficult] to [install|set up]?",
            "[Installation|Install|Setup|Install instructions][?|, please.|!]",
        ),
        (
            "You install edgewise with pip: run pip install in its folder.",
            "One pip install in the folder of edgewise is enough.",
        ),
        ("After that, edgewise doctor checks that your machine is ready.",),
    ),
    Entry(
        (
            "[What do I need|What is needed|What's required|What must I have] [to install it|for "
            "edgewise|first|to run edgewise|to use it|to begin]?",
            "[What are|List|Tell me] the [requirements|system requirements|needs|prerequisites].",
            "[Which|What] [Python|version of Python|Python version] [do I need|is needed|does it "
            "need|does edgewise need|should I have|works]?",
            "[Is|Does] Python [3.9|3.10|3.11|3.12] [enough|okay|fine|work]?",
            *does("run on Linux", "work on Windows", "run on a Mac", "need a C compiler"),
            "[Which|What] operating system [is supported|do I need]?",
        ),
        (
            "You need Python 3.11 or newer on Linux, and a C compiler to compile models.",
            "Python 3.11 or newer, Linux and a C compiler. Nothing else.",
        ),
    ),
    Entry(
        (
            "[Do I need|Must I install|Does it need|Is there a need for|Do I have "
            "to install] [Emscripten|Node|npm|Docker|CUDA|Rust|Java|CMake|PyTorch|torch][| first| "
            "too]?",
        ),
        ("No, you do not need that. Python and a C compiler are enough.",),
    ),
    Entry(
        (
            *how("try it", "see a demo", "test edgewise quickly", "run the demo", "play with it"),
            *about("make demo", "the demo"),
            "[Is there|Do you have] a [demo|quick start|first example|tutorial]?",
            "[Where do I|How do I] [begin|start]?",
        ),
        (
            "Type make demo. It compiles a small demo model and opens a chat with it.",
            "Run make demo in the folder of edgewise: it compiles me and opens a chat.",
        ),
    ),
    Entry(
        (
            "[Is|Are] [my data|my text|my words|my chats|what I say|what I write|everything] "
            "[safe|private|kept private|secret|stored somewhere|sent away|uploaded|logged]?",
            "[Does edgewise|Does it|Do you|Does this] [send|upload|share|leak|collect|store] [my "
            "data|my text|my words|anything|what I write][| to a server| anywhere| to a company| "
            "away]?",
            "[Who|Can anyone|Can others|Can somebody] [reads|read|sees|see|hears|gets] [my chat|my "
            "messages|what I write|this|my data]?",
            "[What about|How about|Tell me about] [privacy|my privacy|data protection].",
            "[Where|To whom] does my [text|data] go?",
            "Are you [spying on me|listening|recording this]?",
        ),
        (
            "No, nothing is sent away. The model runs on your own machine, so your text stays "
            "with you.",
            "It is private: the model runs on your own machine, and nothing you type leaves it.",
        ),
    ),
    Entry(
        (
            *does(
                "work offline",
                "run without internet",
                "work without a network",
                "run with no connection",
                "work in a train",
            ),
            "[Do I need|Does it need|Is there a need for|Must I have|What about] [the internet|a "
            "network|an internet connection|to be online|wifi]?",
            "[Can I use|Can I run] [edgewise|it|this|you] [offline|without the internet|without a "
            "network|when I am offline|far from any network]?",
        ),
        ("Yes, it works offline. Once a bundle is on your machine, no network is needed.",),
    ),
    Entry(
        (
            "[Do I need|Must I have|Is there|Do I have to make|Does it need] [an account|an API "
            "key|a login|a password|a subscription|a key|to sign up|to register|a cloud]?",
            "[Does it|Does edgewise] cost [money|anything|something]?",
            "[Is it|Is edgewise] [free|paid|expensive]?",
            "[How much|What] does [it|edgewise] cost?",
        ),
        ("No. It is free, and you do not need an account or a key: it runs on your own machine.",),
    ),
    Entry(
        (
            *about("the licence", "the license", "the licence of edgewise"),
            "[Which|What] [licence|license] [does edgewise have|does it have|applies|do you use]?",
            "[Is|Was] [edgewise|it|this] [open source|free software|open|proprietary]?",
            "[Can I|May I|Am I free to] [use it in a company|sell it|use edgewise at a company|"
            "change the code|copy the code|share it|use it in my product|see the source]?",
            "[How is edgewise|Under which licence is it] [licensed|published|released]?",
            "[Where is|Can I read] the source code?",
        ),
        (
            "Yes, edgewise is open source under the Apache License 2.0, so companies may use it "
            "too.",
            "edgewise has the Apache License 2.0. You may use, change and share it.",
        ),
    ),
    Entry(
        (
            "[Which|What] [models|kinds of models|architectures|model types|checkpoints] [does "
            "edgewise support|are supported|can I compile|work|can it run|does it know|can I use]?",
            *does("run Llama", "run Qwen", "compile Qwen3", "compile Llama", "handle Llama models"),
            "[What about|Is] [Llama|Qwen|Qwen3|Mistral|Gemma|GPT] [supported|okay|possible]?",
            "[List|Name] the [supported models|models it can run].",
            "[Can I use|Can I bring] my own model?",
        ),
        (
            "Yes, edgewise supports Llama and Qwen3 checkpoints.",
            "edgewise supports two families of models so far: Llama and Qwen3.",
        ),
    ),
    Entry(
        (
            *about("safetensors", "a safetensors file"),
            "[Which|What] [format|file|files|input format] [must|does|should|do] [a checkpoint|the "
            "weights|my model|the input] [have|come in|be|need]?",
            "[How|In what form] [does edgewise|do you] [read|load] [weights|a checkpoint|a model]?",
            "[Does it|Can it] read [pickle files|GGUF|safetensors|PyTorch files|a Hugging Face "
            "folder]?",
        ),
        (
            "edgewise reads a Hugging Face folder: config.json, the weights as safetensors, and "
            "tokenizer.json.",
            "The weights must be safetensors files, in a Hugging Face folder.",
        ),
    ),
    Entry(
        (
            *how(
                "use it from Python",
                "use edgewise in a script",
                "call it from Python",
                "use the API",
                "generate text in Python",
                "load a bundle in Python",
                "write a program with edgewise",
            ),
            *about("the Engine", "the Python API", "Engine"),
            "[Is there|Do you have|Show me] [a Python API|a library|an API|Python code|an example "
            "in Python]?",
        ),
        (
            'Write: from edgewise import Engine. Then Engine("dist/my-model").chat(...) gives an '
            "answer.",
            "Import Engine from edgewise, open a bundle with it, and call generate or chat.",
        ),
    ),
    Entry(
        (
            *does(
                "answer many prompts at once",
                "run a batch",
                "decode several sequences",
                "handle many users",
                "work on two prompts at the same time",
                "do batching",
            ),
            *about("batching", "a batch", "continuous batching"),
            *how("run many prompts at once", "give it a list of prompts"),
        ),
        (
            "Yes, prompts can be batched: give the Engine a list, and they are decoded together "
            "with the same results.",
        ),
    ),
    Entry(
        (
            *about("temperature", "sampling", "the temperature", "top-p", "top-k"),
            *how(
                "set the temperature",
                "control the randomness",
                "get the same answer each time",
                "make the model more creative",
                "get fixed answers",
                "change the sampling",
            ),
            "[Why are the answers|Are the answers] [random|different each time|always new]?",
            *about("a seed", "the seed"),
        ),
        (
            "Set the temperature: 0 always takes the most likely token, and more makes the answers "
            "more random. A seed makes them repeatable.",
        ),
    ),
    Entry(
        (
            *does("run code from strangers", "trust bundles", "load any bundle"),
            "[Is it|Is edgewise] [safe|secure|dangerous]?",
            "[Can I|May I|Should I] [trust|open|run|load] [a bundle from the internet|a bundle of "
            "someone else|any bundle|a downloaded bundle]?",
            "[Can a bundle|Could a bundle|Is a bundle able to] [harm|attack] [me|my computer]?",
            *about("--trust", "a trusted bundle", "the signature of a bundle"),
            "[What about|Tell me about] [security|safety|viruses].",
        ),
        (
            "A bundle holds native code. edgewise loads only bundles that you signed by compiling "
            "them, unless you say --trust.",
            "No bundle of a stranger is loaded unless you trust it with --trust, because it holds "
            "native code.",
        ),
    ),
    Entry(
        (
            "[How many|What number of] parameters [do you have|has the demo model|are in you]?",
            "[How large|How small] [are you|is the demo model|is this model]?",
            "[Are you|Is this] a [small|big|large|tiny] model?",
            "[What|Which] [model|kind of model] [are you|is this|am I talking to]?",
            "[What is|What's] your size?",
            *about("the demo model", "this demo model"),
        ),
        (
            "I am the demo model of edgewise, and I am tiny: I have about {size} million "
            "parameters.",
            "I have only about {size} million parameters, so I am a tiny model.",
        ),
    ),
    Entry(
        (
            "[Who|How|Where] [made|built|trained|created|were] you [trained|made|built|]?",
            "[Who made|Who built|Who wrote|Who created] [this model|the demo model|you]?",
            "[What were you|How were you|On what were you] trained on?",
            "[Where do you|Where did you] come from?",
        ),
        (
            "I was trained from scratch for edgewise, on dialogues that a small program wrote.",
            "The makers of edgewise trained me from scratch, on generated dialogues.",
        ),
    ),
    Entry(
        (
            *how("read the manual", "find the documentation", "read more", "get help"),
            "[Where is|Is there|Do you have] [documentation|a guide|a manual|more information|the "
            "README]?",
        ),
        ("The guide is in docs/guide.md, and edgewise --help lists all options.",),
    ),
    Entry(
        (
            "[How fast|How quick|Why so fast] is [edgewise|it|a bundle]?",
            "[Is it|Is edgewise|Are you] [fast|slow|quick]?",
            "[What makes|Why is] [it|edgewise] [fast|quick|so fast]?",
        ),
        (
            "It is fast because everything is planned when the model is compiled: at run time only "
            "kernels are launched. edgewise shows tokens per second.",
        ),
    ),
    Entry(
        (
            *how("set the context length", "have longer conversations", "change the context"),
            *about("the context", "the context length", "--context"),
            "How [long|much] [can a prompt be|text can you read|can we talk]?",
        ),
        (
            "The context is the most tokens of prompt and answer together. Set it with --context; "
            "I can read 1024.",
        ),
    ),
)
