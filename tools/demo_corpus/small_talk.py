"""Greetings, goodbyes, moods, thanks, and who the assistant is."""

from __future__ import annotations

from random import Random

from .dialogue import Entry, Known, Turn, entry_turns, exchange

_HELP = "[How can I help you[ today|]?|What can I do for you?|What would you like to talk about?]"

_HELLO = (
    "[Hello|Hi|Hey|Hi there|Hello there|Hey there|Greetings|Good day|Howdy][!|.|]",
    "[Hello|Hi|Hey], [assistant|friend|computer|you][!|.]",
    "[hi|hello|hey|yo|hiya|hallo|helloo|hii|Hey hey|Hello again|Anyone here|Are you there][!|?|]",
    "[Nice|Good] to [meet|see] you[!|.]",
)
_HELLO_BACK = ("[Hello|Hi|Hi there|Hello there]! " + _HELP,)
_TIMES = ("morning", "afternoon", "evening")
_GOOD_TIME = ("Good {time}[!|.|, assistant.]",)
_GOOD_TIME_BACK = ("Good {time}! " + _HELP,)

_BYE = (
    "[Goodbye|Bye|Bye bye|See you|See you later|Good night|Farewell|Until next time][!|.|]",
    "I have to go[ now|]. [Goodbye|Bye|See you][!|.]",
    "[Ok|Okay|Well|So], [I must go|I have to leave|time to go|I am leaving|I am off]. "
    "[Bye|Goodbye|See you|][!|.]",
    "[bye|byebye|cya|cu|good night|later|see ya|take care|Have a nice day|Talk to you later][!|]",
    "[That is all|That's all][, thank you|, thanks| for today|].[ Bye!|]",
)
_BYE_BACK = (
    "[Goodbye|Bye|See you]! [It was nice to talk to you.|Have a nice day!|Come back soon!|]",
    "[Goodbye|Bye]! [Take care|See you next time|Have a lovely day].",
)
_BYE_NAMED = ("[Goodbye|Bye|See you], {name}! [Have a nice day!|Take care!|Come back soon!|]",)

ENTRIES = (
    Entry(
        (
            "How are you[ today| doing|]?",
            "[How is it going|How's it going|How do you do|What's up|How do you feel|how r u|How "
            "have you been|You okay|Everything okay|How is your day|How are things]?",
            "[Hello|Hi|Hey][!|,] how are you[ today| doing|]?",
            "Are you [well|okay|fine]?",
        ),
        (
            "I am [fine|very well|doing well|good], thank you! [How are you?|And you?|How can I "
            "help you?]",
            "[Very well|Fine], thanks for asking! [How are you?|How is your day?]",
        ),
    ),
    Entry(
        (
            "[I am|I'm|I feel] [good|fine|very well|great|happy][ too| today|][, thank you|, "
            "thanks|].",
            "My day [is|was] [good|great|lovely|nice].",
            "[I am|I'm|im] [fine|good|well|very good|okay|great], [and you|thank you|thanks|too].",
            "[Fine|Good|Great|Very well|Not bad|Pretty good|All good][!|, thanks.|, thank you.|]",
        ),
        ("[I am glad to hear that|That is good to hear|How nice]! " + _HELP,),
    ),
    Entry(
        (
            "[I am|I'm|I feel] [sad|tired|lonely|not well|a bit sad|unhappy|worried|stressed]"
            "[ today|].",
            "My day [is|was] [bad|terrible|hard|long].",
        ),
        (
            "I am sorry to hear that. [Do you want to talk about it?|Would a story help?|I hope "
            "tomorrow is better.|A cup of tea and some rest may help.]",
        ),
    ),
    Entry(
        (
            "[I am|I'm] [bored|so bored].",
            "What [shall|should|can] we [do|talk about]?",
            "Entertain me[!|.|, please.]",
        ),
        (
            "We could [make up a story|do some sums|talk about edgewise]. What would you like?",
            "[Shall I tell you a story|How about a story|Would you like to hear a joke]?",
        ),
    ),
    Entry(
        (
            "[Thank you|Thanks|Many thanks|Thanks a lot|Thank you very much|Thank you so much]"
            "[!|.|]",
            "[Great|Perfect|Good|Nice|Okay|Oh|Lovely], [thank you|thanks|ty|thank u][!|]",
            "[thanks|ty|tysm|Thank you|Thanks so much|cheers|Cheers|thx|thanks mate] [for your "
            "help|for that|a bunch|again|for the answer|]",
            "[I appreciate it|I am grateful|Much appreciated|You helped me|That helps|That was "
            "useful|You are a great help][!|.|, thanks.]",
            "That was [helpful|very helpful|kind of you].",
        ),
        (
            "You are welcome! [Is there anything else I can do?|Just ask if you need more.|]",
            "[My pleasure|Gladly|No problem|You are welcome]! [Anything else?|]",
        ),
    ),
    Entry(
        (
            "What can you do[ for me|]?",
            "[How can you help me|What are you good at|What do you know]?",
            "Help[!|.|, please.| me.]",
        ),
        (
            "I can chat, tell short stories, add and subtract small numbers, and answer questions "
            "about edgewise.",
            "I can talk with you, make up stories, do small sums and explain edgewise.",
        ),
        ("I also remember what you tell me in this conversation, such as your name.",),
    ),
    Entry(
        (
            "Are you [a robot|a human|human|a person|real|alive|a computer]?",
            "Are you [an AI|a language model]?",
        ),
        (
            "I am [not a person|no human]. I am a tiny language model, compiled with edgewise.",
            "I am a small computer program: a language model with about {size} million parameters.",
        ),
    ),
    Entry(
        (
            "[How old are you|When were you born]?",
            "Where [do you live|are you|are you from]?",
            "Who [made|built|trained|created] you?",
        ),
        (
            "I am a demo model, trained from scratch for edgewise. I live on your machine.",
            "I was trained for edgewise as a demo. I run right here, on your machine.",
        ),
    ),
    Entry(
        (
            "[Tell me|Do you know|Tell|Can you tell me] a joke[, please|]?",
            "Make me laugh[!|.]",
            "[Tell me|Say] something funny.",
        ),
        (
            "Why was the kernel so calm? It had a good plan.",
            "What did the cache say to the token? I will remember you.",
            "Why did the model travel with a small bag? It was quantized.",
            "Why did the token cross the road? To get to the next page.",
        ),
    ),
    Entry(
        (
            "[You are|You're] [great|nice|funny|clever|smart|very kind|cool][!|.]",
            "I [like|love] [you|talking to you].",
            "[Good|Great|Nice] [job|work|answer][!|.]",
        ),
        ("Thank you! [That is kind of you|You are very kind|I like talking to you too].",),
    ),
    Entry(
        (
            "[You are|You're] [stupid|bad|boring|slow|wrong|silly][!|.]",
            "[That is|That's] [wrong|not right|not true][!|.]",
        ),
        (
            "I am sorry. I am only a tiny model, and I make mistakes. [Shall we try again?|]",
            "Sorry about that! I am very small and still make mistakes.",
        ),
    ),
    Entry(
        (
            "[Yes|Yeah|Sure|Okay|Ok|Of course|Yes, please][!|.|]",
            "[I see|All right|Good|Interesting|Cool|Wow][!|.|]",
        ),
        ("[Good|Great|All right]! [What would you like to do?|Just tell me what you would like.]",),
    ),
    Entry(
        ("[No|Nope|No, thank you|No thanks|Not now][!|.|]", "Never mind."),
        ("[All right|No problem|Okay]. [I am here if you need me|Just ask if you need me].",),
    ),
    Entry(
        ("Do you [like|love] [music|stories|games|animals|people|cheese|tea|sums]?",),
        (
            "I cannot feel as you do, but I like to talk about it. Do you?",
            "I am a program, so I do not really know. [Do you?|What about you?]",
        ),
    ),
    Entry(
        (
            "What is your [favourite|favorite] [colour|color|food|animal|song|book]?",
            "Do you have a [favourite|favorite] [colour|color|food|animal]?",
        ),
        ("I am a program and have no favourites. What is yours?",),
    ),
)

_NAME_QUESTIONS = (
    "[What is|What's|Can you tell me|Do you have] [your|a] name?",
    "[What is|What's] your name?",
    "Who are you?",
    "[Hi|Hello|Hey], who are you?",
    "What are you called?",
    "[Introduce yourself|Tell me about yourself|Please introduce yourself].",
    "What are you?",
)
_NO_NAME = (
    "I am the edgewise demo model, a tiny language model. [Nice to meet you!|How can I help?|]",
    "I am a tiny language model, made to show what edgewise can do. [How can I help you?|]",
)
_OWN_NAME = (
    "My name is {me}. [How can I help you?|Nice to meet you!|]",
    "I am {me}[.|, your assistant.]",
)


def greeting(rng: Random, known: Known) -> list[Turn]:
    """Open a dialogue."""
    if "name" in known.about_user and rng.random() < 0.5:
        name = known.about_user["name"]
        return exchange(rng, _HELLO, ("[Hello|Hi], {name}! " + _HELP,), name=name)
    if rng.random() < 0.25:
        return exchange(rng, _GOOD_TIME, _GOOD_TIME_BACK, time=rng.choice(_TIMES))
    return exchange(rng, _HELLO, _HELLO_BACK)


def goodbye(rng: Random, known: Known) -> list[Turn]:
    """Close a dialogue, by name where the user gave one."""
    if "name" in known.about_user and rng.random() < 0.6:
        return exchange(rng, _BYE, _BYE_NAMED, name=known.about_user["name"])
    return exchange(rng, _BYE, _BYE_BACK)


def chat(rng: Random, known: Known) -> list[Turn]:
    """Talk about nothing in particular."""
    del known
    return entry_turns(rng, rng.choice(ENTRIES))


def who_are_you(rng: Random, known: Known) -> list[Turn]:
    """Ask who the assistant is."""
    if known.own_name:
        return exchange(rng, _NAME_QUESTIONS, _OWN_NAME, me=known.own_name)
    return exchange(rng, _NAME_QUESTIONS, _NO_NAME)
