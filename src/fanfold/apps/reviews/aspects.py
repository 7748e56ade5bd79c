"""What a review speaks about: words that are aspects of a product, marked by a linear model.

The model (fitted by fit.py on sentences about cameras, phones and players) looks at a word, its
neighbours and the opinions around it, so it finds aspects of other products too. Words for the same
thing are brought under one name, and the parts of a garment are known by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sentiment import model as opinions
from words import singular

FILE = Path(__file__).parent / "weights" / "aspects.json"
_OPINION = 0.6  # a word whose weights add up to more, either way, is an opinion
_FAR = 4  # words at which an opinion is still near
_NONE = "$"
_NEVER = """
a about after all also am an and any are as at be because been before being both but by can could did
do does doing don't down each even few for from get got had has have having he her here hers him his
how i i'm i've if in into is isn't it it's its just like made make me more most much my no nor not now
of off on once one only or other our out over own really same she so some such than that that's the
their them then there these they this those through to too two under until up us very was wasn't we
were what when where which while who why will with would you your
"""

_MEANS = {
    "fabric": "fabric material cloth textile cotton knit linen silk wool",
    "lining": "lining",
    "color": "color colour hue shade",
    "pattern": "pattern print",
    "details": "detail detailing embroidery lace",
    "size": "size sizing",
    "fit": "fit fitting",
    "cut": "cut shape silhouette",
    "style": "style design look",
    "length": "length hem",
    "sleeves": "sleeve arm armhole",
    "neckline": "neckline neck collar",
    "waist": "waist waistband",
    "bust": "bust chest",
    "shoulders": "shoulder",
    "hips": "hip",
    "price": "price cost sale",
    "quality": "quality craftsmanship stitching seam",
    "zipper": "zipper",
    "buttons": "button",
    "pockets": "pocket",
    "straps": "strap",
    "comfort": "comfort",
    "picture": "picture photo",
    "garment": "garment piece dress top shirt blouse tee sweater cardigan skirt pant jean jacket coat",
}
_ONLY_IF_MARKED = """
cut shape look arm hip chest detail hem button knit cotton silk wool linen lace shoulder neck style
design print cost sale shade strap picture photo garment piece dress top shirt blouse tee sweater
cardigan skirt pant jean jacket coat
"""
SAME = {word: name for name, said in _MEANS.items() for word in said.split()}
ALWAYS = SAME.keys() - _ONLY_IF_MARKED.split()  # aspects wherever they stand
NEVER = frozenset(_NEVER.split())


class Model(NamedTuple):
    weights: dict[str, float]
    bias: float
    above: float


@cache
def model() -> Model:
    stated = json.loads(FILE.read_text(encoding="utf-8"))
    return Model(stated["weights"], stated["bias"], stated["above"])


@cache
def _opinion(word: str) -> bool:
    pair = opinions().weights.get(word)
    return pair is not None and abs(pair[0] + pair[1]) > _OPINION


def features(said: list[str], at: int) -> list[str]:
    """Of one word where it stands: itself, its ending, its neighbours, opinions near by."""
    two = [_NONE, _NONE]
    before2, before, word, after, after2 = [*two, *said, *two][at : at + 5]
    own = singular(word)
    found = [
        f"w={own}", f"s3={word[-3:]}", f"s2={word[-2:]}", f"p={before}", f"n={after}",
        f"pp={before2} {before}", f"nn={after} {after2}", f"p2={before2}", f"n2={after2}",
        f"pw={before} {own}", f"wn={own} {after}", "one" if own == word else "many",
    ]  # fmt: skip
    near = range(max(0, at - _FAR), min(len(said), at + _FAR + 1))
    found += [f"o{other - at:+}" for other in near if other != at and _opinion(said[other])]
    return [*found, f"any{min(3, sum(map(_opinion, said)))}"]


def may_be(word: str) -> bool:
    return len(word) > 1 and word[0].isalpha() and word not in NEVER


def marked(said: list[str]) -> Iterator[str]:
    """The terms in one sentence, in the singular: neighbours that are both marked are one term."""
    made = model()
    term: list[str] = []
    for at, word in enumerate(said):
        if may_be(word) and _score(said, at, made) > made.above:
            term.append(singular(word))
        elif term:
            yield " ".join(term)
            term = []
    if term:
        yield " ".join(term)


def _score(said: list[str], at: int, made: Model) -> float:
    return made.bias + sum(made.weights.get(name, 0.0) for name in features(said, at))


def usual(term: str) -> str:
    """The one name for all words that mean the same."""
    return SAME.get(term, term)


def mentioned(said: list[str]) -> list[str]:
    """The aspects in one clause or sentence, each once, under its usual name."""
    found = [usual(term) for term in marked(said)]
    found += [SAME[own] for own in map(singular, said) if own in ALWAYS]
    return list(dict.fromkeys(found))
