"""What `auto` has learnt, on disk: one small file for each model and workspace, replaced whole.

Owns the form of the file. A file that is damaged, or of another version, counts as none: learning starts from the
priors again.
"""

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fastcoder_lsp.draft.auto.cells import CELLS, SOURCES
from fastcoder_lsp.draft.auto.evidence import EvidenceCounts
from fastcoder_lsp.index.files import private_folder, replace_file

VERSION = 2
"""Of the form on disk and of what counts are compared with; 2: the priors of a multinomial logit."""


def load(path: Path) -> EvidenceCounts:
    """The counts at `path`; none where there is no such file, or one that cannot be believed."""
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            version, every_3SC = int(stored["version"]), stored["counts"].astype(np.float32, order="C")
    except (OSError, ValueError, TypeError, KeyError, EOFError, BadZipFile):
        return EvidenceCounts.none()
    if version != VERSION or every_3SC.shape != (3, len(SOURCES), CELLS) or not np.isfinite(every_3SC).all():
        return EvidenceCounts.none()
    tried_SC, right_SC, hoped_SC = every_3SC
    most_SC = tried_SC * 1.001
    believable = ((every_3SC >= 0).all(), (right_SC <= most_SC).all(), (hoped_SC <= most_SC).all())
    return EvidenceCounts(tried_SC, right_SC, hoped_SC) if all(believable) else EvidenceCounts.none()


def save(counts: EvidenceCounts, path: Path) -> None:
    """Put the counts at `path`; where that cannot be written, they live until the program ends."""
    content = BytesIO()
    every_3SC = np.stack([counts.tried_SC, counts.right_SC, counts.hoped_SC])
    np.savez_compressed(content, version=np.int64(VERSION), counts=every_3SC)
    with suppress(OSError):
        private_folder(path.parent)
        replace_file(path, content.getvalue())
