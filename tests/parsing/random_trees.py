"""Made-up trees for property tests."""

from hypothesis import strategies as st

from vaswani_hf.parsing.trees import Tree


LABELS = ("S", "NP", "VP", "PP", "ADVP", "PRT", "TOP")
TAGS = ("DT", "NN", "VBZ", ",", ".", "''", "-LRB-", "PRP$")
WORDS = ("the", "cat", "sleeps", ",", ".", "-LRB-", "naïve", "*T*-1", "a/b", "x\u00a0y")

leaves = st.builds(Tree, st.sampled_from(TAGS), word=st.sampled_from(WORDS))


def constituents(children):
    return st.builds(
        Tree, st.sampled_from(LABELS), st.lists(children, min_size=1, max_size=4).map(tuple)
    )


trees = st.recursive(leaves, constituents, max_leaves=12)
