"""The names of the package itself."""

from __future__ import annotations

import pytest

import fanfold as ff


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("map_redcue", "fanfold has no 'map_redcue'; did you mean 'map_reduce'?"),
        ("count", "fanfold has no 'count'; there is fanfold.fold.count"),
        ("zzz", "fanfold has no 'zzz'"),
    ],
)
def test_a_name_that_is_not_there_names_the_nearest(name: str, said: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(ff, name)
    assert str(error.value) == said
