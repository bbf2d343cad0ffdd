# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What of a text with markup is translated, and where does the markup go in the translation?"""

HTML, XLIFF, PLACEHOLDERS = MARKUP = ("html", "xliff", "placeholders")
