# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From and to the formats that people own.

Every function reads a folder or file and writes a new folder, whole or not at all. What cannot be
carried over exactly is refused, with every difference listed.
"""
