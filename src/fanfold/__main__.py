"""`python -m fanfold` is `fanfold`."""

from __future__ import annotations

from fanfold.faces.cli.main import main

main()
