"""Recorded acceptance: what each drafter's steps were on what the 0.5B model really said.

Owns the file's form: for every task, its prompt's length, and for every approach its steps, each as rows verified,
tokens emitted, microseconds of drafting. `record` makes it on a machine that has the model; it is shipped beside this
module, so that a GPU without the model can be asked what these steps would take.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("acceptance.json")
PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of a recording."""

    rows: int
    emitted: int
    draft_us: float


@dataclass(frozen=True, slots=True)
class Task:
    """One answer: `prompt` tokens before it, and the steps of every approach."""

    prompt: int
    approaches: Mapping[str, Sequence[Step]]

    def steps(self, approach: str) -> Iterator[tuple[int, Step]]:
        """The steps with the tokens that the cache holds before each."""
        cached = self.prompt - 1
        for step in self.approaches[approach]:
            yield cached, step
            cached += step.emitted


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks of one kind in one setting; `source` says how they were recorded."""

    name: str
    setting: str
    source: str
    tasks: tuple[Task, ...]

    @property
    def approaches(self) -> list[str]:
        """The names of the approaches, plain decoding first."""
        return list(self.tasks[0].approaches)


def read(path: Path = FILE) -> list[Dataset]:
    """The recordings; none where there is no file."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    return [
        Dataset(
            entry["name"],
            entry["setting"],
            entry["source"],
            tuple(
                Task(task["prompt"], {name: [Step(*step) for step in steps] for name, steps in task["steps"].items()})
                for task in entry["tasks"]
            ),
        )
        for entry in found
    ]


def write(datasets: Sequence[Dataset], path: Path = FILE) -> None:
    """Write recordings, a task a line."""
    entries = []
    for dataset in datasets:
        tasks = [
            json.dumps(
                {
                    "prompt": task.prompt,
                    "steps": {
                        name: [[step.rows, step.emitted, round(step.draft_us, 1)] for step in steps]
                        for name, steps in task.approaches.items()
                    },
                },
                separators=(",", ":"),
            )
            for task in dataset.tasks
        ]
        head = {"name": dataset.name, "setting": dataset.setting, "source": dataset.source}
        body = ",\n".join(tasks)
        entries.append(json.dumps(head)[:-1] + ', "tasks": [\n' + body + "\n]}")
    path.write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
