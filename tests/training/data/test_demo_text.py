"""The demo text says what a German reader would write, and holds out what it says it does.

German sentences, number words and dates here are written by hand; the only program among the
sources is a speller of number words that follows the rules of German grammar.
"""

import datetime
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from training.data.demo_text import (
    CURRENCIES,
    FAMILIES,
    UNIT_FORMS,
    Pair,
    appointment,
    calendar_date,
    cardinal,
    clock_time,
    decimal_number,
    demo_pairs,
    measure,
    ordinal,
    percentage,
    price,
)


REPOSITORY = Path(__file__).resolve().parents[3]
SPLITS = ("train", "validation", "test")

GERMAN_ONES = (
    *("null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"),
    *("zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn"),
    *("achtzehn", "neunzehn"),
)
GERMAN_TENS = (
    *("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig"),
    *("achtzig", "neunzig"),
)
ENGLISH_NUMBER_WORD = (
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    r"|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty"
    r"|ninety|hundred|thousand|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
    r"|eleventh|twelfth|(?:thir|four|fif|six|seven|eigh|nine)teenth"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)tieth|hundredth)\b"
)


def german_cardinal(number: int) -> str:
    """Spell 0 to 9,999: ones before tens, "ein" for one unless it comes last."""
    if number == 0:
        return "null"
    spelled = ""
    for size, name in ((1000, "tausend"), (100, "hundert")):
        count, number = divmod(number, size)
        if count:
            spelled += ("ein" if count == 1 else GERMAN_ONES[count]) + name
    tens, ones = divmod(number, 10)
    if 0 < number < 20:
        spelled += GERMAN_ONES[number]
    elif tens:
        first = {0: "", 1: "einund"}.get(ones, f"{GERMAN_ONES[ones]}und")
        spelled += first + GERMAN_TENS[tens]
    return spelled


def german_ordinal(number: int) -> str:
    """Add "te" up to nineteen and "ste" beyond, with the four irregular ones."""
    irregular = {1: "erste", 3: "dritte", 7: "siebte", 8: "achte"}
    last = number % 100
    if last in irregular:
        hundreds = german_cardinal(number - last) if number > last else ""
        return hundreds + irregular[last]
    return german_cardinal(number) + ("te" if 0 < last < 20 else "ste")


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[Pair]]:
    return demo_pairs(seed=0)


def test_cardinals_are_spelled_as_german_grammar_says() -> None:
    for number in [*range(2000), *range(2000, 10_000, 7)]:
        assert cardinal(0, number)[1] == german_cardinal(number)


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (21, "twenty-one", "einundzwanzig"),
        (100, "one hundred", "einhundert"),
        (1101, "one thousand, one hundred and one", "eintausendeinhunderteins"),
        (
            4721,
            "four thousand, seven hundred and twenty-one",
            "viertausendsiebenhunderteinundzwanzig",
        ),
    ],
)
def test_cardinals_match_hand_written_words(number: int, english: str, german: str) -> None:
    assert cardinal(0, number) == (english, german)


def test_ordinals_are_spelled_as_german_grammar_says() -> None:
    for number in set(range(1, 1000)) - {100}:
        assert ordinal(0, number)[1] == german_ordinal(number)
    assert ordinal(0, 100)[1] == "hundertste"  # usual without "ein", where 101 has it


def test_ordinal_takes_the_accusative_ending_before_platz() -> None:
    assert ordinal(2, 21) == (
        "She took twenty-first place.",
        "Sie belegte den einundzwanzigsten Platz.",
    )


# March 3, 2031 is a Monday, and May 1, 1999 was a Saturday.
@pytest.mark.parametrize(
    ("form", "day", "english", "german"),
    [
        (0, (2031, 3, 3), "Monday, March 3, 2031", "Montag, 3. März 2031"),
        (1, (2031, 3, 3), "March 3, 2031", "3. März 2031"),
        (2, (1999, 5, 1), "5/1/1999", "1.5.1999"),
        (3, (1999, 5, 1), "Sat, May 1, 1999", "Sa., 1. Mai 1999"),
        (4, (1999, 5, 1), "She was born on May 1, 1999.", "Sie wurde am 1. Mai 1999 geboren."),
        (
            7,
            (2031, 3, 3),
            "We will fly to Vienna on Monday, March 3, 2031.",
            "Wir fliegen am Montag, dem 3. März 2031, nach Wien.",
        ),
    ],
)
def test_dates_match_hand_written_german(
    form: int, day: tuple[int, int, int], english: str, german: str
) -> None:
    assert calendar_date(form, datetime.date(*day).toordinal()) == (english, german)


@pytest.mark.parametrize(
    ("minute", "english", "german"),
    [
        (5, "12:05 AM", "00:05 Uhr"),
        (9 * 60 + 7, "9:07 AM", "09:07 Uhr"),
        (12 * 60, "12:00 PM", "12:00 Uhr"),
        (17 * 60 + 42, "5:42 PM", "17:42 Uhr"),
    ],
)
def test_clock_times_count_to_24_in_german(minute: int, english: str, german: str) -> None:
    written_english, written_german = clock_time(0, minute)
    assert (written_english.replace("\u202f", " "), written_german) == (english, german)


def test_appointment_puts_the_particle_of_the_verb_last() -> None:
    english, german = appointment(0, datetime.date(2031, 3, 3).toordinal(), 17 * 60 + 42)
    assert english.replace("\u202f", " ") == (
        "The train leaves on Monday, March 3, 2031 at 5:42 PM."
    )
    assert german == "Der Zug fährt am Montag, dem 3. März 2031, um 17:42 Uhr ab."


@pytest.mark.parametrize(
    ("hundredths", "english", "german"),
    [(314, "3.14", "3,14"), (123_450, "1,234.5", "1.234,5"), (7, "0.07", "0,07")],
)
def test_decimals_swap_point_and_comma(hundredths: int, english: str, german: str) -> None:
    assert decimal_number(0, hundredths) == (english, german)


@pytest.mark.parametrize(
    ("currency", "english", "german"),
    [
        ("USD", "1,234.50 US dollars", "1.234,50 US-Dollar"),
        ("GBP", "1,234.50 British pounds", "1.234,50 britische Pfund"),
        ("CHF", "1,234.50 Swiss francs", "1.234,50 Schweizer Franken"),
        ("DKK", "1,234.50 Danish kroner", "1.234,50 dänische Kronen"),
    ],
)
def test_money_is_named_as_in_running_german(currency: str, english: str, german: str) -> None:
    assert price(CURRENCIES.index(currency), 123_450) == (english, german)


@pytest.mark.parametrize(
    ("unit", "tenths", "english", "german"),
    [
        ("length-kilometer", 25, "2.5 kilometers", "2,5 Kilometer"),
        ("length-mile", 10, "1 mile", "1 Meile"),
        ("duration-hour", 12_340, "1,234 hours", "1.234 Stunden"),
        ("temperature-celsius", 215, "21.5 degrees Celsius", "21,5 Grad Celsius"),
        ("area-square-meter", 30, "3 square meters", "3 Quadratmeter"),
    ],
)
def test_measures_match_hand_written_german(
    unit: str, tenths: int, english: str, german: str
) -> None:
    assert measure(UNIT_FORMS.index((unit, "{}", "{}")), tenths) == (english, german)


def test_percentages_have_a_space_in_german() -> None:
    english, german = percentage(1, 125)
    assert english == "Prices have risen by 12.5%."
    assert german.replace("\u00a0", " ") == "Die Preise sind um 12,5 % gestiegen."


def test_default_sizes_are_met(pairs: dict[str, list[Pair]]) -> None:
    # The defaults are the recipe's: 20,000 pairs to learn from, 500 and 1,000 to judge by.
    assert {split: len(pairs[split]) for split in SPLITS} == {
        "train": 20_000,
        "validation": 500,
        "test": 1000,
    }


def test_any_size_is_met_exactly() -> None:
    small = demo_pairs(seed=3, train_size=47, validation_size=1, test_size=13)
    assert [len(small[split]) for split in SPLITS] == [47, 1, 13]


def test_shares_of_the_families_add_up_to_one() -> None:
    assert sum(family.share for family in FAMILIES.values()) == pytest.approx(1)


def test_no_english_sentence_occurs_twice(pairs: dict[str, list[Pair]]) -> None:
    # Hence the splits are disjoint and each English sentence has one German one.
    english = [pair[0] for split in SPLITS for pair in pairs[split]]
    assert len(set(english)) == len(english)


def test_every_possible_short_sentence_has_one_german_one() -> None:
    # All dates of two Mays, where long and short names of the month agree, and all clock times.
    german_of: dict[str, set[str]] = {}
    for year in (1999, 2031):
        for day in range(31):
            ordinal_day = datetime.date(year, 5, 1).toordinal() + day
            for form in range(FAMILIES["dates"].num_forms):
                english, german = calendar_date(form, ordinal_day)
                german_of.setdefault(english, set()).add(german)
    for minute in range(24 * 60):
        for form in range(FAMILIES["times"].num_forms):
            english, german = clock_time(form, minute)
            german_of.setdefault(english, set()).add(german)
    assert {english for english, german in german_of.items() if len(german) > 1} == set()


def english_values(sentence: str) -> set[tuple[str, str]]:
    """Find what a sentence is about by its looks alone: (what sort it is, how it is written).

    A date is written the same whatever its format; so is an amount of money and a plain number.
    """
    found = set()
    for hour_and_minute in re.findall(r"\d+:\d\d [AP]M", sentence):
        found.add(("time", hour_and_minute))
    rest = re.sub(r"\d+:\d\d [AP]M", "", sentence)
    months = "JanFebMarAprMayJunJulAugSepOctNovDec"
    named = r"\b([A-Z][a-z]{2})[a-z]* (\d+), (\d{4})\b"
    for month, day, year in re.findall(named, rest):
        found.add(("date", f"{year}-{months.index(month) // 3 + 1}-{day}"))
    for month, day, year in re.findall(r"(\d+)/(\d+)/(\d{4})", rest):
        found.add(("date", f"{year}-{month}-{day}"))
    rest = re.sub(r"\d+/\d+/\d{4}", "", re.sub(named, "", rest))
    money = "dollars|euros|pounds|francs|kron|korunas|rupees|pesos"
    for number in re.findall(r"\d(?:[\d,]*\d)?(?:\.\d+)?", rest):
        if "%" in rest:
            sort = "percentage"
        elif re.search(money, rest) or not re.search(re.escape(number) + " [a-z]", rest):
            sort = "amount"
        else:
            sort = "quantity"
        found.add((sort, str(float(number.replace(",", "")))))
    words = re.findall(ENGLISH_NUMBER_WORD, rest)
    if words:
        is_rank = re.search("(th|first|second|third)$", words[-1]) is not None
        found.add(("rank" if is_rank else "number", " ".join(words)))
    return found


def test_a_value_is_found_by_its_looks() -> None:
    # The test below means something only if this reads each sort of sentence.
    assert english_values("He got up at 5:42 PM.") == {("time", "5:42 PM")}
    assert english_values("Mon, Mar 3, 2031") == english_values("3/3/2031")
    assert english_values("She took twenty-first place.") == {("rank", "twenty first")}
    assert english_values("He paid 1,234.50 euros for the bicycle.") == {("amount", "1234.5")}
    assert english_values("The result is 1,234.5.") == {("amount", "1234.5")}
    assert english_values("The parcel weighs 2.5 grams.") == {("quantity", "2.5")}
    assert english_values("She saves 3% of her salary.") == {("percentage", "3.0")}


def test_no_value_is_in_two_splits(pairs: dict[str, list[Pair]]) -> None:
    values = {}
    for split in SPLITS:
        found = [english_values(english) for english, _ in pairs[split]]
        assert all(found)
        values[split] = set().union(*found)
    assert {sort for sort, _ in values["test"]} == {
        "time",
        "date",
        "percentage",
        "amount",
        "quantity",
        "rank",
        "number",
    }
    assert values["train"] & values["validation"] == set()
    assert values["train"] & values["test"] == set()
    assert values["validation"] & values["test"] == set()


def test_every_word_of_a_held_out_sentence_is_in_training(pairs: dict[str, list[Pair]]) -> None:
    # English number words come apart at hyphens; German ones are checked in English.
    def english_words(split: str) -> set[str]:
        return {word for english, _ in pairs[split] for word in re.findall(r"[^\W\d]+", english)}

    assert english_words("test") | english_words("validation") <= english_words("train")


def test_every_year_day_and_hour_is_in_training(pairs: dict[str, list[Pair]]) -> None:
    german = " ".join(pair[1] for pair in pairs["train"])
    assert set(re.findall(r"\b(?:19|20)\d\d\b(?!,)", german)) >= {
        str(year) for year in range(1950, 2050)
    }
    assert set(re.findall(r"(\d+):\d\d Uhr", german)) == {f"{hour:02}" for hour in range(24)}
    assert set(re.findall(r"\d:(\d\d) Uhr", german)) == {f"{minute:02}" for minute in range(60)}
    assert set(re.findall(r"(\d+)\. März", german)) == {str(day) for day in range(1, 32)}


def test_sentences_are_short_and_plainly_spaced(pairs: dict[str, list[Pair]]) -> None:
    for sentence in (side for split in SPLITS for pair in pairs[split] for side in pair):
        assert len(sentence.split(" ")) <= 15
        assert sentence == " ".join(sentence.split())  # split() knows U+00A0 and U+202F


def test_another_seed_gives_other_pairs(pairs: dict[str, list[Pair]]) -> None:
    other = demo_pairs(seed=1, train_size=1, validation_size=1)
    assert len(set(other["test"]) & set(pairs["test"])) < 500


def test_test_pairs_do_not_depend_on_the_size_of_training(pairs: dict[str, list[Pair]]) -> None:
    assert demo_pairs(seed=0, train_size=5, validation_size=7)["test"] == pairs["test"]


def test_pairs_do_not_depend_on_the_machine(pairs: dict[str, list[Pair]]) -> None:
    script = (
        "import hashlib; from training.data.demo_text import demo_pairs; "
        "pairs = demo_pairs(train_size=300); "
        "print(hashlib.sha256(repr(pairs).encode()).hexdigest())"
    )
    expected = hashlib.sha256(repr(demo_pairs(train_size=300)).encode()).hexdigest()
    environments: list[dict[str, str]] = [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "LANGUAGE": "fr", "TZ": "Asia/Tokyo"},
        {"PYTHONHASHSEED": "2", "LC_ALL": "de_DE.UTF-8", "TZ": "America/New_York"},
    ]
    for environment in environments:
        result = subprocess.run(
            [sys.executable, "-c", script],
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == expected


@pytest.mark.parametrize("field", ["train_size", "validation_size", "test_size"])
@pytest.mark.parametrize("size", [0, -4])
def test_size_below_one_is_refused(field: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"{field}={size}"):
        demo_pairs(**{field: size})


@pytest.mark.parametrize("field", ["train_size", "validation_size", "test_size"])
def test_size_beyond_the_sentences_there_are_is_refused(field: str) -> None:
    small = {"train_size": 1, "validation_size": 1, "test_size": 1}
    with pytest.raises(ValueError, match=f"{field}=90000 .*; lower {field}"):
        demo_pairs(**small | {field: 90_000})


@pytest.mark.parametrize("library", ["babel", "num2words"])
def test_missing_library_names_the_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{library} is missing.*"vaswani-hf\[train\]"'):
        demo_pairs()
