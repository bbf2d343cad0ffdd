# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How is text read, line by line, and written to a terminal?"""
