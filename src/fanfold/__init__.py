"""fanfold: fan the work out, fold the answers in."""
