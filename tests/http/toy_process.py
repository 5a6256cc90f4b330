"""The real server over a model that says one thing everywhere, for editors: prints its port, then serves.

python -P -m tests.http.toy_process TEXT
"""

import sys

from tests.http.toy_server import ToyServer


def serve(server: ToyServer) -> None:
    """Print the server's port; close it when standard input ends."""
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    serve(ToyServer(sys.argv[1]))
