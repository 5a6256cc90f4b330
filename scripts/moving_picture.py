"""Makes a moving picture of a folder of frames: PNG files that are named by their time in milliseconds.

    .venv/bin/python scripts/moving_picture.py FRAMES FILE.gif

It runs at the recorded speed, but a time without a change lasts at most LONGEST_PAUSE_MS; the last frame stays for
LAST_FRAME_MS. Its palette is of the colours that cover most. `scripts/test-vscode --movie` records such frames.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

COLOURS = 255
"""One is left for "as in the frame before"."""
SHORTEST_FRAME_MS, LONGEST_PAUSE_MS, LAST_FRAME_MS = 60, 1_000, 3_000


def changes(folder: Path) -> dict[int, Path]:
    """Frames that differ from the one before, by the millisecond; of those that follow at once, the last one."""
    kept, shown, last = dict[int, Path](), None, -SHORTEST_FRAME_MS
    for time, path in sorted((int(path.stem), path) for path in folder.glob("*.png")):
        frame = opened(path)
        if shown is None or ImageChops.difference(shown, frame).getbbox() is not None:
            last = time if time - last >= SHORTEST_FRAME_MS else last
            kept[last], shown = path, frame
    return kept


def opened(path: Path) -> Image.Image:
    """A frame in full colour."""
    return Image.open(path).convert("RGB")


def common_palette(paths: Iterable[Path]) -> Image.Image:
    """An image with the palette of all frames."""
    areas = Counter[tuple[int, int, int]]()
    for path in paths:
        frame = opened(path)
        found: Any = frame.getcolors(frame.width * frame.height)
        for area, colour in found:
            areas[colour] += area
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for colour, _ in areas.most_common(COLOURS) for channel in colour])
    return palette


def main() -> None:
    """Make the file."""
    folder, file = Path(sys.argv[1]), Path(sys.argv[2])
    kept = changes(folder)
    palette = common_palette(kept.values())
    durations = [*(min(after - before, LONGEST_PAUSE_MS) for before, after in pairwise(kept)), LAST_FRAME_MS]
    first, *others = (opened(path).quantize(palette=palette, dither=Image.Dither.NONE) for path in kept.values())
    first.save(file, save_all=True, append_images=others, duration=durations, loop=0)
    print(f"{file}: {len(kept)} frames, {sum(durations) / 1e3:.1f} s, {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
