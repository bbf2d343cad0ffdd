"""Made-up translations that are more and less like their references."""

import random


WORDS = "Der Zug nach Köln fährt um acht Uhr ab , sagt sie : das Rad-Haus ist groß".split()


def made_up_texts(sentences=60, seed=5):
    """References, and two systems' translations: the second one's are somewhat worse."""
    chooser = random.Random(seed)
    references = [
        " ".join(chooser.choices(WORDS, k=chooser.randint(3, 30))) + "." for _ in range(sentences)
    ]
    systems = [
        [
            " ".join(word if chooser.random() > rate else "Ja!" for word in line.split())
            for line in references
        ]
        for rate in (0.2, 0.25)
    ]
    return references, *systems


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
