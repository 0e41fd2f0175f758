"""``python -m heed`` is the command ``heed``."""

import sys

from heed.command import main

if __name__ == "__main__":
    sys.exit(main())
