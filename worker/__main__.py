"""`python3 -m worker PROGRAM`: the container's entry point."""

import sys

from worker.programs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
