"""The language that most of a product is written in, from the sizes of its files by ending."""

from __future__ import annotations

ENDINGS = {
    "Ada": ".adb .ads", "Assembly": ".asm", "C": ".c", "C#": ".cs",
    "C++": ".cpp .cc .cxx .hpp .hh .hxx .ipp .tpp", "Clojure": ".clj .cljs", "CUDA": ".cu .cuh",
    "Dart": ".dart", "Elixir": ".ex .exs", "Erlang": ".erl", "F#": ".fs", "Go": ".go",
    "Groovy": ".groovy", "Haskell": ".hs", "Java": ".java", "JavaScript": ".js .jsx",
    "Julia": ".jl", "Kotlin": ".kt .kts", "Lua": ".lua", "Nim": ".nim", "OCaml": ".ml .mli",
    "Objective-C": ".m", "PHP": ".php", "Perl": ".pl .pm", "Python": ".py", "R": ".r", "Ruby": ".rb",
    "Rust": ".rs", "SQL": ".sql", "Scala": ".scala", "Swift": ".swift", "TypeScript": ".ts .tsx",
    "Zig": ".zig",
}  # fmt: skip
HEADERS = ".h"
_LANGUAGE = {end: name for name, ends in ENDINGS.items() for end in ends.split()}


def main_language(sizes: dict[str, int]) -> str | None:
    """Headers go to C++ or C, whichever there is more of. Data, documents and scripts do not count."""
    totals: dict[str, int] = {}
    for end, size in sizes.items():
        if (name := _LANGUAGE.get(end)) is not None:
            totals[name] = totals.get(name, 0) + size
    if headers := sizes.get(HEADERS, 0):
        owner = "C++" if totals.get("C++", 0) > totals.get("C", 0) else "C"
        totals[owner] = totals.get(owner, 0) + headers
    return max(totals, key=totals.__getitem__) if totals else None


def endings_of(language: str, sizes: dict[str, int]) -> list[str]:
    """Its own endings in these files, the largest first."""
    own = [end for end in ENDINGS[language].split() if end in sizes]
    return sorted(own, key=lambda end: -sizes[end])
