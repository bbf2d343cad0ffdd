from datasets import Dataset

from training.data.lengths import side_lengths


def encoded(*pairs):
    """Pairs whose tokens are their words and `</s>`."""
    columns = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
    ids = [[[1] * (len((text or "").split()) + 1) for text in side] for side in columns.values()]
    return Dataset.from_dict({**columns, "input_ids": ids[0], "labels": ids[1]})


def test_side_lengths_follow_a_selection():
    pairs = encoded(("a", "b b"), ("a a a", ""), ("", "b b b b")).select([2, 0])
    sources, targets = side_lengths(pairs)
    assert sources.tolist() == [1, 2]
    assert targets.tolist() == [5, 3]


def test_side_lengths_of_no_pairs_are_none():
    sources, targets = side_lengths(encoded(("a", "b")).select([]))
    assert len(sources) == len(targets) == 0
