"""The words the topics draw on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

FIRST_NAMES = tuple(
    """
    Ada Alan Alex Alice Amir Amy Ana Anna Ben Bob Bruno Carla Carlos Chen Clara Dan Daniel David
    Diego Ella Elena Emil Emily Emma Erik Eva Fatima Felix Finn Frank George Grace Hana Hannah Hugo
    Ida Ines Ivan Jack James Jan Jane Jim Joe John Jonas Julia Karim Kate Kim Lara Laura Lena Leo
    Liam Lily Lina Linda Lisa Louis Lucas Lucy Luis Maria Marco Mark Marta Mary Maya Max Mei Mia
    Mike Mila Mina Mohamed Nadia Nina Noah Nora Oliver Olga Omar Oscar Otto Paul Pedro Peter Petra
    Priya Rafael Ravi Rita Robert Rosa Ruth Sam Samir Sara Sarah Sofia Sven Tara Theo Thomas Tim
    Tina Tom Vera Victor Wei Will Yara Yuki Zoe
    """.split()
)
PET_NAMES = tuple(
    """
    Bella Biscuit Bubbles Buddy Charlie Coco Cookie Daisy Fluffy Ginger Happy Honey Lucky Luna
    Maple Milo Mittens Moon Oreo Peanut Pepper Pickle Pip Pixel Poppy Rex Rocky Rusty Shadow
    Smokey Snowball Socks Spot Sunny Tiger Toby Waffles Whiskers Ziggy
    """.split()
)
COLOURS = tuple(
    "blue red green yellow orange purple pink black white brown grey silver gold turquoise".split()
)
PETS = tuple(
    "cat dog rabbit parrot hamster turtle horse goldfish mouse snake pony bird kitten puppy".split()
)
PEOPLE = "sister brother friend mother father son daughter teacher boss cousin neighbour".split()
OTHER = "book film movie sport animal season number game flower tree place band".split()
CITIES = tuple(
    """
    Paris London Berlin Madrid Rome Lisbon Vienna Prague Oslo Stockholm Helsinki Dublin Athens
    Warsaw Cairo Tokyo Kyoto Seoul Delhi Mumbai Sydney Toronto Boston Chicago Lima Nairobi Lagos
    Istanbul Amsterdam Brussels Zurich Milan Porto Hamburg Munich
    """.split()
)
FOODS = (
    "pizza pasta rice soup bread cheese sushi salad pancakes noodles curry chocolate apples "
    "bananas cake tacos dumplings potatoes strawberries porridge sandwiches cookies mangoes"
).split()
HOBBIES = (
    "reading swimming running cooking painting gardening fishing dancing singing cycling hiking "
    "drawing chess photography knitting climbing skating sailing football tennis writing baking"
).split()
JOBS = (
    "teacher nurse doctor baker farmer pilot driver painter writer singer student engineer "
    "gardener plumber carpenter scientist librarian cook programmer musician"
).split()
SEASONS = ("spring", "summer", "autumn", "winter")
DRINKS = ("tea", "coffee", "water", "milk", "orange juice", "lemonade", "hot chocolate")

STORY_HEROES = (
    "fox cat dog rabbit bear owl mouse frog hedgehog squirrel turtle duck wolf lion elephant "
    "penguin robot dragon girl boy king queen wizard pirate sailor farmer baker knight giant fairy"
).split()
STORY_HELPERS = (
    "owl badger crow beaver goose deer otter robin donkey goat mole snail butterfly whale "
    "grandmother shepherd fisherman clockmaker"
).split()
STORY_NAMES_HE = tuple(
    """
    Pip Milo Bruno Rufus Oskar Basil Gus Jasper Kit Moss Nico Quill Rowan Barnaby Ezra Otto Felix
    Toby Rusty Finn
    """.split()
)
STORY_NAMES_SHE = tuple(
    """
    Luna Tilly Hazel Juniper Nell Fern Clover Dot Ember Fable Holly Iris Lark Olive Poppy Sage Tess
    Una Violet Wren Yara Zuzu Cleo Daisy Flora
    """.split()
)
ALWAYS_HE = ("boy", "king", "wizard")
ALWAYS_SHE = ("girl", "queen", "fairy")
STORY_PLACES = (
    "in a small village",
    "in a deep forest",
    "in a quiet valley",
    "in a green meadow",
    "in an old castle",
    "in a house by the sea",
    "in a little town",
    "in a big garden",
    "in a cave in the hills",
    "in a tall tower",
    "on a snowy mountain",
    "near a busy harbour",
    "on an island",
    "on a farm near a river",
)
STORY_THINGS = (
    "a golden key",
    "a red kite",
    "a silver bell",
    "a lost map",
    "a blue lantern",
    "a magic seed",
    "a warm coat",
    "a wooden boat",
    "a shiny coin",
    "an old book",
    "a glass marble",
    "a little drum",
    "a star",
    "a feather",
)
STORY_MOODS = (
    "small brave curious shy clever lonely cheerful sleepy kind grumpy young old lazy proud "
    "gentle hungry"
).split()

_SYLLABLE_STARTS = (
    "b c d f g h j k l m n p qu r s t v w x y z br cl dr fl gr kr pr st tr sh th ch sk sl sw "
    "gw sn zh pt"
).split()
_MIDDLES = "a e i o u y a e i o u ai ee ia oo au ei io ua".split()
_SYLLABLE_ENDS = ["", "", "", "n", "l", "r", "s", "x", "th", "m", "k", "ck", "nd", "ld", "st", "rt"]
_HALVES = (
    "ash birch black bright brook bram cobble copper crick dapple dusk fen fern fiddle flint frost "
    "gold grim hollow iron jay kettle lark maple marsh mist moss nettle oak oat pepper pine quick "
    "raven rose rust sand silver snap stone storm sun tangle thistle tumble velvet whistle wil win "
    "wolf yarrow"
).split()
_TAILS = (
    "bell berry by bury cliff croft dale ford foot gate ham hart hill horn ley ling low mere mond "
    "more ness pip ridge shade son sworth ton town tree wald ward water well worth wick wing y"
).split()
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def any_name(rng: Random) -> str:
    """Return a first name; most are made up, so that a model learns to copy, not to list."""
    if rng.random() < 0.35:
        return rng.choice(FIRST_NAMES)
    return made_up_word(rng).capitalize()


def any_of(rng: Random, known: Sequence[str], capital: bool = False) -> str:
    """Return one of `known`, or, nearly as often, a word that nobody knows."""
    if rng.random() < 0.55:
        return rng.choice(known)
    word = made_up_word(rng)
    return word.capitalize() if capital else word


def made_up_word(rng: Random) -> str:
    """Return a word that means nothing: of syllables, of two halves, altered, or of any letters."""
    draw = rng.random()
    if draw < 0.5:
        return "".join(
            rng.choice(_SYLLABLE_STARTS) + rng.choice(_MIDDLES) for _ in range(rng.randint(1, 3))
        ) + rng.choice(_SYLLABLE_ENDS)
    if draw < 0.7:
        return rng.choice(_HALVES) + rng.choice(_TAILS)
    if draw < 0.9:
        word = list(rng.choice((*FIRST_NAMES, *PET_NAMES, *CITIES)).lower())
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(word))
            word[at : at + rng.randint(0, 1)] = rng.choice(_LETTERS)
        return "".join(word)
    vowel = rng.choice("aeiou")
    return vowel + "".join(rng.choice(_LETTERS) for _ in range(rng.randint(2, 6)))
