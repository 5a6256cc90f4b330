"""The real server over a model with random weights, whose texts can be drawn: prints its port, then serves.

python -P -m tests.http.drawing_process
"""

import tempfile
from pathlib import Path

from fastcoder_lsp.draft.registry import make
from tests.draft.test_exactness import parts
from tests.engine import tiny_models
from tests.http.drawing_server import DrawingServer
from tests.http.toy_process import serve


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        weights = tiny_models.make_model(Path(folder), "qwen2")
        engine = tiny_models.load(weights, Path(folder), "cpu-int8")
        serve(DrawingServer(engine, make("auto", parts(3, tiny_models.VOCABULARY))))


if __name__ == "__main__":
    main()
