"""A treebank of four trees."""

SENTENCES = [
    "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .))",
    "(S (NP (NNP John)) (, ,) (VP (VBZ sleeps)) (. .))",
    "(FRAG (NP (NN dog)))",
    "(S (NP (PRP it)) (VP (VBZ is) (ADJP (JJ low-priced))) (. .))",
]
