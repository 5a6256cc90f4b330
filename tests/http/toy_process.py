"""The real server over a model that says one thing everywhere, for editors: prints its port, then each prompt asked.

python -P -m tests.http.toy_process TEXT
"""

import sys

from tests.http.toy_server import ToyServer


def main() -> None:
    server = ToyServer(sys.argv[1])
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main()
