"""Questions about the commands of edgewise."""

from __future__ import annotations

from .asking import about, how
from .dialogue import Entry

COMMANDS = (
    Entry(
        (
            *how(
                "compile a model",
                "compile a checkpoint",
                "make a bundle",
                "build a bundle",
                "get a bundle",
                "turn a model into a bundle",
                "convert a model",
                "compile my own model",
                "prepare a model",
            ),
            *about("edgewise compile", "the compile command"),
            "[I have|I downloaded] a [checkpoint|model][.|, what now?|. What is the next step?]",
        ),
        (
            "Use edgewise compile with the folder of the checkpoint, for example: edgewise compile "
            "PATH --quant q4. It writes a bundle.",
            "edgewise compile PATH -o dist/my-model turns a checkpoint into a bundle.",
        ),
        ("You can choose the quantization with --quant and the target with --target.",),
    ),
    Entry(
        (
            *how(
                "chat with a model",
                "talk to a model",
                "talk to a bundle",
                "chat",
                "have a conversation",
                "begin a chat",
                "speak with the model",
                "open a chat",
            ),
            *about("edgewise chat", "the chat command"),
        ),
        (
            "Use edgewise chat with a bundle, for example: edgewise chat dist/my-model.",
            "edgewise chat opens a conversation with a model in your terminal.",
        ),
    ),
    Entry(
        (
            *how(
                "run one prompt",
                "continue a text",
                "complete a text",
                "generate text once",
                "give it a single prompt",
                "get one completion",
                "let a model finish a sentence",
            ),
            *about("edgewise run", "the run command"),
            "[What is|What's] the difference between [chat and run|run and chat]?",
        ),
        (
            "edgewise run continues one prompt and prints the text. edgewise chat holds a "
            "conversation.",
            "Use edgewise run with a bundle and a prompt. It prints how the text goes on.",
        ),
    ),
    Entry(
        (
            *how(
                "look inside a bundle",
                "inspect a bundle",
                "see what a bundle contains",
                "view the plan",
                "see the kernels",
                "look at the plans and sizes",
                "open up a bundle",
                "examine a model",
            ),
            *about("edgewise inspect", "the inspect command"),
        ),
        (
            "edgewise inspect shows what is in a bundle: its programs, plans and sizes.",
            "Use edgewise inspect with the bundle. It shows the programs, the plans and the sizes.",
        ),
    ),
    Entry(
        (
            *how(
                "compare two bundles",
                "compare bundles",
                "find the difference between bundles",
                "see what changed",
                "check two models against each other",
                "find out why two bundles give other results",
            ),
            *about("edgewise diff", "the diff command"),
        ),
        (
            "edgewise diff compares two bundles and shows the first kernel where they differ.",
            "Use edgewise diff A B. It shows where two bundles differ.",
        ),
    ),
    Entry(
        (
            *how(
                "check my machine",
                "check my setup",
                "check the installation",
                "find out what is missing",
                "test whether my computer is ready",
                "see if everything is installed",
                "solve problems",
                "fix an error",
            ),
            *about("edgewise doctor", "the doctor command"),
            "[Something|edgewise|It] [does not work|doesn't work|is broken|fails][.|. What can I "
            "do?|. What should I do?|. Help!]",
            "[I get|There is] an error[.|, what now?|. What can I do?]",
            "[Is my|How do I know if my] [machine|computer|setup] [ready|okay|good enough|right]?",
        ),
        (
            "Run edgewise doctor. It checks your machine and says what is missing.",
            "edgewise doctor checks your machine and tells you what to fix.",
        ),
    ),
    Entry(
        (
            *how(
                "list bundles",
                "see all bundles",
                "find my models",
                "list my models",
                "see which bundles I have",
                "see the list of models",
            ),
            *about("edgewise ls", "the ls command"),
            "[Which|What] [bundles|models] [do I have|are there|are on my machine]?",
            "[List|Display|Print|Where are] [my|the|all] [bundles|models|compiled models].",
        ),
        (
            "edgewise ls lists the bundles in dist and in the cache.",
            "Use edgewise ls. It lists your bundles.",
        ),
    ),
    Entry(
        (
            *how(
                "remove a bundle",
                "delete a compiled model",
                "throw away a model",
                "get rid of a bundle",
                "free disk space",
                "remove old models",
                "erase a bundle",
                "clean up",
            ),
            *about("edgewise rm", "the rm command"),
        ),
        (
            "edgewise rm removes a bundle: edgewise rm NAME.",
            "Use edgewise rm with the name of the bundle. It deletes it.",
        ),
    ),
    Entry(
        (
            "[Which|What] [commands|subcommands] [does edgewise have|are there|exist|can I use|do "
            "you know]?",
            "[What are the|List the|Show me the|Name the|Print all|List all] [edgewise |]"
            "[commands|subcommands][?|, please.|.]",
            "What can I [do|type] with edgewise?",
            "[How many|Are there more] commands [are there|does it have]?",
            *about("the command line", "the edgewise commands"),
        ),
        (
            "The commands are edgewise compile, chat, run, inspect, diff, ls, rm and doctor.",
            "edgewise has these commands: compile, chat, run, inspect, diff, ls, rm and doctor.",
        ),
        ("edgewise compile writes a bundle, and edgewise chat lets you talk to it.",),
    ),
    Entry(
        (
            *how(
                "serve a model",
                "start a server",
                "run a server",
                "offer a model over HTTP",
            ),
            *about("edgewise serve"),
        ),
        ("There is no server yet. Use edgewise chat, edgewise run, or the Engine in Python.",),
    ),
)
