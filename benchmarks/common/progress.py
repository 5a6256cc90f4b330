"""Progress of a long measurement, on stderr: a bar where a person watches, a line at every tenth where lines are kept.

Owns no terminal for longer than a block.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def shown(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Tell the function that is given how much of `total` is done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, what, total)
        return
    columns = (TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def _lines(console: Console, what: str, total: int) -> Callable[[int], None]:
    told = -1

    def tell(done: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if tenth > told:
            told = tenth
            console.print(f"  {10 * tenth:3} %  {what}", highlight=False)

    return tell
