# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m vaswani_hf.cli"""

import sys

from . import main


if __name__ == "__main__":
    sys.exit(main())
