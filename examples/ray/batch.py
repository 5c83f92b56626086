"""Batch inference with Ray Data: questions of a file in, answers in a folder.

    make demo                                   # compiles dist/demo-q4
    pip install '.[ray]'
    python examples/ray/batch.py dist/demo-q4 questions.jsonl answers

A line of the file is ``{"id": 1, "question": "..."}``. End it and start it again: what is answered
is not answered again.
"""

from __future__ import annotations

import argparse
from typing import Any

import ray

from edgewise.ray import Workers, complete_to


def conversation(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its question as a conversation; `prompt` of `complete_to` is for plain texts."""
    return {**row, "messages": [{"role": "user", "content": row["question"]}]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", help="a folder that all nodes reach")
    parser.add_argument("questions", help="a JSONL file, or a folder of them")
    parser.add_argument("answers", help="a folder, of Parquet files")
    parser.add_argument("--workers", type=int, default=1, help="engines (default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=1, help="of each (default: %(default)s)")
    asked = parser.parse_args()

    questions = ray.data.read_json(asked.questions, lines=True).map(conversation)
    written = complete_to(
        questions,
        asked.bundle,
        asked.answers,
        messages="messages",
        key="id",
        max_tokens=48,
        temperature=0.7,
        seed=1,
        workers=Workers(concurrency=asked.workers, num_cpus=asked.cpus),
    )
    print(
        f"{written.rows:,} rows answered, {written.before:,} were there; {written.failed:,} failed"
    )

    answers = ray.data.read_parquet(asked.answers)
    for row in answers.take(3):
        print(row["id"], row["completion"] if row["error"] is None else row["error"])


if __name__ == "__main__":
    main()
