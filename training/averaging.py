# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python training/averaging.py CHECKPOINT [CHECKPOINT ...] --output FOLDER

The same command as `training/outcome/averaging.py`, under the name that scripts may know.
"""

import sys

from training.outcome.averaging import average_checkpoints, main


__all__ = ["average_checkpoints", "main"]

if __name__ == "__main__":
    main(sys.argv[1:])
