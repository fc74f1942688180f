"""``python -m dgpbench``."""

import sys

from dgpbench.cli import main

sys.exit(main())
