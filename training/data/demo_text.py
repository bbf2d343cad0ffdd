# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Make the English-German text of recipe `demo`, with no network and no files.

    from training.data.demo_text import demo_pairs

    english, german = demo_pairs(seed=42)["train"][0]

The recipe's `seed` is that of the text too; 42, the library's, is what `make demo` trains on.

The text is dates, clock times, numbers in words, decimals, money, measures and percentages, alone
and in short sentences whose German moves words. Names and formats come from the Unicode CLDR
(through Babel), numbers in words from num2words. Every English sentence has exactly one German
one, and what is held out is built from parts that training shows: a held-out "4,721 in words" is
new, its thousands, hundreds, tens and ones are not.
"""

import datetime
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal


Pair = tuple[str, str]  # English, German

ENGLISH = "en_US"
GERMAN = "de_DE"

# The share of each kind's values that only that split may use; training has the rest.
HELD_OUT_RATES = {"validation": 0.05, "test": 0.10}


@dataclass(frozen=True)
class Kind:
    """Values that are split once, for every family that uses them.

    Attributes:
        values: all of them, as whole numbers in the unit that `KINDS` gives.
        never_held_out: those whose words are not made of other values' parts.
    """

    values: Sequence[int]
    never_held_out: frozenset[int] = frozenset()


KINDS = {
    # "siebzehn" is not "sieben" + "zehn"; even thousands are too few to show how they end.
    "cardinal": Kind(range(10_000), frozenset([*range(21), *range(0, 10_000, 1000)])),
    "ordinal": Kind(range(1, 1000), frozenset([*range(1, 21), *range(100, 1000, 100)])),
    # Days of the proleptic Gregorian calendar, as `datetime.date.toordinal` counts them.
    "day": Kind(
        range(datetime.date(1950, 1, 1).toordinal(), datetime.date(2050, 1, 1).toordinal())
    ),
    "minute": Kind(range(24 * 60)),  # since midnight
    # 0.01 to 9,999.93. Every seventh is plenty, and has all digits in all places.
    "hundredth": Kind(range(1, 1_000_000, 7)),
    # Tenths: 1 to 9,999 whole, and 0.1 to 99.9. One is the only value in the singular.
    "quantity": Kind(
        [*range(10, 100_000, 10), *(tenths for tenths in range(1, 1000) if tenths % 10)],
        frozenset([10]),
    ),
    "permille": Kind(range(1, 1001)),  # 0.1% to 100%
}

# A frame is an English sentence and its German one. Its slots are chosen so that what fills them
# is never inflected, except where the frame itself adds the ending, as in "{}n Platz".
CARDINAL_FRAMES = (
    ("{}", "{}"),
    ("The answer is {}.", "Die Antwort ist {}."),
    ("He wrote the number {} on the board.", "Er hat die Zahl {} an die Tafel geschrieben."),
)
ORDINAL_FRAMES = (
    ("{}", "{}"),
    ("This is the {} page.", "Das ist die {} Seite."),
    ("She took {} place.", "Sie belegte den {}n Platz."),
    ("The {} customer won a prize.", "Der {} Kunde hat einen Preis gewonnen."),
)

# Each date frame brings its English and its German pattern, in CLDR's letters or by CLDR's name.
# CLDR's "medium" is left out: it writes May as "long" does in English, but not in German.
GERMAN_DAY_IN_SENTENCE = "EEEE, 'dem' d. MMMM y"
DATE_FRAMES = (
    ("full", "full", "{}", "{}"),
    ("long", "long", "{}", "{}"),
    ("M/d/y", "d.M.y", "{}", "{}"),
    ("EEE, MMM d, y", "EEE, d. MMM y", "{}", "{}"),
    ("long", "long", "She was born on {}.", "Sie wurde am {} geboren."),
    ("long", "long", "They moved to Berlin on {}.", "Sie sind am {} nach Berlin gezogen."),
    ("long", "long", "The contract expires on {}.", "Der Vertrag läuft am {} ab."),
    (
        "full",
        GERMAN_DAY_IN_SENTENCE,
        "We will fly to Vienna on {}.",
        "Wir fliegen am {}, nach Wien.",
    ),
    (
        "long",
        "long",
        "I do not know whether he came on {}.",
        "Ich weiß nicht, ob er am {} gekommen ist.",
    ),
)
CLOCK_FRAMES = (
    ("{}", "{} Uhr"),
    ("at {}", "um {} Uhr"),
    ("It is {}.", "Es ist {} Uhr."),
    ("The bus arrives at {}.", "Der Bus kommt um {} Uhr an."),
    ("The shop closes at {}.", "Das Geschäft macht um {} Uhr zu."),
    ("He got up at {}.", "Er ist um {} Uhr aufgestanden."),
    ("We have to be at the station at {}.", "Wir müssen um {} Uhr am Bahnhof sein."),
    ("She says that the film starts at {}.", "Sie sagt, dass der Film um {} Uhr beginnt."),
    (
        "If it rains at {}, we will stay at home.",
        "Wenn es um {} Uhr regnet, bleiben wir zu Hause.",
    ),
)
APPOINTMENT_FRAMES = (
    (
        "full",
        GERMAN_DAY_IN_SENTENCE,
        "The train leaves on {day} at {time}.",
        "Der Zug fährt am {day}, um {time} Uhr ab.",
    ),
    (
        "full",
        GERMAN_DAY_IN_SENTENCE,
        "The meeting begins on {day} at {time}.",
        "Die Sitzung fängt am {day}, um {time} Uhr an.",
    ),
    (
        "long",
        "long",
        "I will call you on {day} at {time}.",
        "Ich rufe dich am {day} um {time} Uhr an.",
    ),
    (
        "long",
        "long",
        "He lost his key on {day} at {time}.",
        "Er hat am {day} um {time} Uhr seinen Schlüssel verloren.",
    ),
)
DECIMAL_FRAMES = (
    ("{}", "{}"),
    ("The result is {}.", "Das Ergebnis ist {}."),
    ("We measured a value of {}.", "Wir haben einen Wert von {} gemessen."),
)

CURRENCIES = ("USD", "EUR", "GBP", "CHF", "CAD", "SEK", "DKK", "CZK", "INR", "MXN")
PRICE_FRAMES = (
    ("{}", "{}"),
    ("The ticket costs {}.", "Die Fahrkarte kostet {}."),
    ("He paid {} for the bicycle.", "Er hat {} für das Fahrrad bezahlt."),
    ("She borrowed {} from her brother.", "Sie hat sich {} von ihrem Bruder geliehen."),
)

LENGTHS = ("length-kilometer", "length-meter", "length-centimeter", "length-mile")
DURATIONS = (
    *("duration-second", "duration-minute", "duration-hour", "duration-day"),
    *("duration-week", "duration-month", "duration-year"),
)
MASSES = ("mass-kilogram", "mass-gram")
OTHER_UNITS = (
    *("volume-liter", "area-square-meter", "area-hectare", "power-watt"),
    *("temperature-celsius", "temperature-fahrenheit", "speed-kilometer-per-hour"),
)
UNIT_FRAMES = (
    ((*LENGTHS, *DURATIONS, *MASSES, *OTHER_UNITS), "{}", "{}"),
    (LENGTHS, "The bridge is {} long.", "Die Brücke ist {} lang."),
    (DURATIONS, "The journey takes {}.", "Die Reise dauert {}."),
    (DURATIONS, "I had to wait for {}.", "Ich musste {} warten."),
    (MASSES, "The parcel weighs {}.", "Das Paket wiegt {}."),
)
UNIT_FORMS = tuple(
    (unit, english, german) for units, english, german in UNIT_FRAMES for unit in units
)
PERCENT_FRAMES = (
    ("{}", "{}"),
    ("Prices have risen by {}.", "Die Preise sind um {} gestiegen."),
    ("She saves {} of her salary.", "Sie spart {} ihres Gehalts."),
)


def cardinal(form: int, number: int) -> Pair:
    """A whole number in words; the decimal system's names, as num2words spells them."""
    from num2words import num2words

    english, german = CARDINAL_FRAMES[form]
    return (
        english.format(num2words(number, lang="en")),
        german.format(num2words(number, lang="de")),
    )


def ordinal(form: int, number: int) -> Pair:
    """A rank in words, from the first on; as num2words spells them."""
    from num2words import num2words

    english, german = ORDINAL_FRAMES[form]
    return (
        english.format(num2words(number, lang="en", to="ordinal")),
        german.format(num2words(number, lang="de", to="ordinal")),
    )


def calendar_date(form: int, day: int) -> Pair:
    """A date, which German writes day first; formats from CLDR, `day` counted as in `KINDS`."""
    english_pattern, german_pattern, english, german = DATE_FRAMES[form]
    return (
        english.format(_date(day, english_pattern, ENGLISH)),
        german.format(_date(day, german_pattern, GERMAN)),
    )


def clock_time(form: int, minute: int) -> Pair:
    """A time of day, which German counts to 24; formats from CLDR, `minute` since midnight."""
    english, german = CLOCK_FRAMES[form]
    return english.format(_time(minute, ENGLISH)), german.format(_time(minute, GERMAN))


def appointment(form: int, day: int, minute: int) -> Pair:
    """A sentence with a date and a time of day; formats from CLDR."""
    english_pattern, german_pattern, english, german = APPOINTMENT_FRAMES[form]
    return (
        english.format(day=_date(day, english_pattern, ENGLISH), time=_time(minute, ENGLISH)),
        german.format(day=_date(day, german_pattern, GERMAN), time=_time(minute, GERMAN)),
    )


def decimal_number(form: int, hundredths: int) -> Pair:
    """A number in figures, in which German swaps point and comma; formats from CLDR."""
    from babel.numbers import format_decimal

    english, german = DECIMAL_FRAMES[form]
    number = Decimal(hundredths) / 100
    return (
        english.format(format_decimal(number, locale=ENGLISH)),
        german.format(format_decimal(number, locale=GERMAN)),
    )


def price(form: int, hundredths: int) -> Pair:
    """An amount of money with its currency's name; names and formats from CLDR.

    `form` counts through the currencies of each frame.
    """
    from babel.numbers import format_currency

    frame, currency_index = divmod(form, len(CURRENCIES))
    currency = CURRENCIES[currency_index]
    english, german = PRICE_FRAMES[frame]
    amount = Decimal(hundredths).scaleb(-2)
    german_amount = format_currency(amount, currency, locale=GERMAN, format_type="name")
    # CLDR names a currency as a heading would, "Britische Pfund"; in a sentence the adjective
    # is small. "Schweizer" stays as it is: such adjectives of places keep their capital.
    german_amount = re.sub(r"\b[A-Z]\w+ische\b", lambda name: name[0].lower(), german_amount)
    return (
        english.format(format_currency(amount, currency, locale=ENGLISH, format_type="name")),
        german.format(german_amount),
    )


def measure(form: int, tenths: int) -> Pair:
    """A quantity with its unit's long name; names and formats from CLDR."""
    from babel.units import format_unit

    unit, english, german = UNIT_FORMS[form]
    # The quotient has no trailing zero; Babel would write Decimal("1.0") as "1 kilometers".
    number = Decimal(tenths) / 10
    return (
        english.format(format_unit(number, unit, "long", locale=ENGLISH)),
        german.format(format_unit(number, unit, "long", locale=GERMAN)),
    )


def percentage(form: int, permille: int) -> Pair:
    """A percentage, which German writes with a space; formats from CLDR."""
    from babel.numbers import format_percent

    english, german = PERCENT_FRAMES[form]
    rate = Decimal(permille) / 1000
    return (
        english.format(format_percent(rate, locale=ENGLISH, decimal_quantization=False)),
        german.format(format_percent(rate, locale=GERMAN, decimal_quantization=False)),
    )


@dataclass(frozen=True)
class Family:
    """Sentences of one sort.

    Attributes:
        share: its rate among all sentences.
        kinds: the keys in `KINDS` of the values that one sentence holds.
        num_forms: how many sentences the same values can fill.
        render: makes the pair from a form, 0 to `num_forms` - 1, and one value of each kind.
    """

    share: float
    kinds: tuple[str, ...]
    num_forms: int
    render: Callable[..., Pair]


# Figures take a small model longer to copy than number words take to spell, hence their shares.
FAMILIES = {
    "cardinals": Family(0.22, ("cardinal",), len(CARDINAL_FRAMES), cardinal),
    "ordinals": Family(0.06, ("ordinal",), len(ORDINAL_FRAMES), ordinal),
    "dates": Family(0.17, ("day",), len(DATE_FRAMES), calendar_date),
    "times": Family(0.14, ("minute",), len(CLOCK_FRAMES), clock_time),
    "appointments": Family(0.12, ("day", "minute"), len(APPOINTMENT_FRAMES), appointment),
    "decimals": Family(0.08, ("hundredth",), len(DECIMAL_FRAMES), decimal_number),
    "prices": Family(0.09, ("hundredth",), len(PRICE_FRAMES) * len(CURRENCIES), price),
    "measures": Family(0.09, ("quantity",), len(UNIT_FORMS), measure),
    "percentages": Family(0.03, ("permille",), len(PERCENT_FRAMES), percentage),
}


def demo_pairs(
    seed: int = 0, train_size: int = 20000, validation_size: int = 500, test_size: int = 1000
) -> dict[str, list[Pair]]:
    """Sentence pairs of all families, mixed by the shares in `FAMILIES`.

    A value belongs to one split only: a day, time of day, number, rank, amount, quantity or
    percentage of a test or validation sentence is in no training sentence of any family that
    uses its kind. All sentences are distinct. The size of one split does not change another.

    Args:
        seed: the same seed gives the same pairs on every machine.
        train_size: pairs to learn from. Only with some thousands does every part occur.
        validation_size: pairs of values that neither other split has.
        test_size: likewise.

    Returns:
        `(english, german)` pairs under "train", "validation" and "test", in a random order.

    Raises:
        ValueError: if a size is below 1 or more than a family has sentences for.
        ImportError: if Babel or num2words is missing.
    """
    sizes = {"train": train_size, "validation": validation_size, "test": test_size}
    for split, size in sizes.items():
        if size < 1:
            raise ValueError(f"{split}_size must be at least 1, got {split}_size={size}.")
    _check_libraries()
    pools = {name: _split_values(kind, f"{seed} {name}") for name, kind in KINDS.items()}
    for split, size in sizes.items():
        for name, count in _family_counts(size).items():
            num_sentences = _num_sentences(FAMILIES[name], pools, split)
            if count > num_sentences:
                raise ValueError(
                    f"{split}_size={size} takes {count:,} sentences of family {name!r}, which has "
                    f"{num_sentences:,} for that split; lower {split}_size."
                )
    pairs: dict[str, list[Pair]] = {}
    for split, size in sizes.items():
        rng = random.Random(f"{seed} {split}")
        pairs[split] = []
        for name, count in _family_counts(size).items():
            family = FAMILIES[name]
            num_sentences = _num_sentences(family, pools, split)
            for index in rng.sample(range(num_sentences), count):
                index, form = divmod(index, family.num_forms)
                values = []
                for kind in family.kinds:
                    index, position = divmod(index, len(pools[kind][split]))
                    values.append(pools[kind][split][position])
                english, german = family.render(form, *values)
                pairs[split].append((_plain_spaces(english), _plain_spaces(german)))
        rng.shuffle(pairs[split])
    return pairs


def _num_sentences(family: Family, pools: dict[str, dict[str, list[int]]], split: str) -> int:
    """How many distinct sentences a family has for one split."""
    return family.num_forms * math.prod(len(pools[kind][split]) for kind in family.kinds)


def _split_values(kind: Kind, seed: str) -> dict[str, list[int]]:
    """Deal a kind's values out to the three splits, at random but for `never_held_out`."""
    # A text seed is hashed with SHA-512, so that neither PYTHONHASHSEED nor a sign matters.
    values = [value for value in kind.values if value not in kind.never_held_out]
    random.Random(seed).shuffle(values)
    split_values = {}
    for split, rate in HELD_OUT_RATES.items():
        num_held_out = int(rate * len(kind.values))
        split_values[split], values = values[:num_held_out], values[num_held_out:]
    return split_values | {"train": [*values, *sorted(kind.never_held_out)]}


def _family_counts(size: int) -> dict[str, int]:
    """How many of `size` sentences each family gives: its share, by largest remainder."""
    counts = {name: int(size * family.share) for name, family in FAMILIES.items()}
    by_remainder = sorted(
        FAMILIES, key=lambda name: size * FAMILIES[name].share - counts[name], reverse=True
    )
    for name in by_remainder[: size - sum(counts.values())]:
        counts[name] += 1
    return counts


def _date(day: int, pattern: str, locale: str) -> str:
    from babel.dates import format_date

    return format_date(datetime.date.fromordinal(day), pattern, locale=locale)


def _time(minute: int, locale: str) -> str:
    from babel.dates import format_time

    return format_time(datetime.time(*divmod(minute, 60)), "short", locale=locale)


def _plain_spaces(text: str) -> str:
    """CLDR's no-break spaces, U+00A0 and U+202F, as the space that people type."""
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def _check_libraries() -> None:
    try:
        import babel  # noqa: F401  only whether it is there
        import num2words  # noqa: F401  likewise
    except ImportError as error:
        raise ImportError(
            f"The demo text is made with Babel and num2words, and {error.name} is missing; "
            'run `pip install "vaswani-hf[train]"`.'
        ) from error
