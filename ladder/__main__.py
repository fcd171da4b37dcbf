"""``python -m ladder`` is the command ``ladder``."""

import sys

from ladder.cli import main

if __name__ == "__main__":
    sys.exit(main())
