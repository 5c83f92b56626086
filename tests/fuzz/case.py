"""What is tried: the files of a case, how they come about, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent / "corpus"
"""Cases that were found once, or that no mutation comes to: a folder each, in one of the format's
name, with the files in which they differ from the first seed. They have numbers below 0."""

Files = Mapping[str, bytes]
"""Contents by path in a folder."""


class WrongAnswerError(Exception):
    """What was read is not what was written, and nobody noticed."""


@dataclass(frozen=True)
class Format:
    """A file, or several that belong together, that a stranger can give.

    Attributes:
        seeds: valid ones, made once a process.
        mutate: a hostile one from a valid one.
        use: reads the files in a folder, once they lie there, as whoever was given them would.
            Any error but an EdgewiseError is a fault, and so is `WrongAnswerError`.
    """

    seeds: Callable[[], Sequence[Files]]
    mutate: Callable[[Random, Files], Files]
    use: Callable[[Path, Files], None]


def corpus_of(name: str) -> list[Files]:
    """The kept cases of a format, by their names."""
    folders = sorted(path for path in (CORPUS / name).glob("*") if path.is_dir())
    return [read_files(folder) for folder in folders]


def read_files(folder: Path) -> Files:
    """The files under a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


class Cases:
    """The cases of a format by number: from 0 on mutations, below the corpus."""

    def __init__(self, name: str, form: Format, seed: int) -> None:
        self._name, self._form, self._seed = name, form, seed
        self.corpus = corpus_of(name)
        self.seeds = form.seeds()

    def __getitem__(self, number: int) -> Files:
        if number < 0:
            return {**self.seeds[0], **self.corpus[number]}
        rng = Random(f"{self._name} {self._seed} {number}")
        return self._form.mutate(rng, rng.choice(self.seeds))


class Place:
    """A folder in which one case after the other lies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._there: dict[str, bytes] = {}

    def put(self, files: Files) -> None:
        """Have these files there, and those of the case before no more."""
        for name in self._there.keys() - files.keys():
            (self._folder / name).unlink()
        for name, data in files.items():
            if self._there.get(name) is not data:
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        self._there = dict(files)
