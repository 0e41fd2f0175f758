"""``python -m heed`` is the command ``heed``."""

import sys

from heed.command import main

sys.exit(main())
