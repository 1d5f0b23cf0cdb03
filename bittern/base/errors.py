"""Errors that a user can cause, each with a stable code.

A module declares the codes it raises with `code(...)`, beside the code that raises them; the table `CODES` collects
them for `bittern explain`, for the documentation and for the test that every code is shown by a case.

Areas: E1 syntax, E2 names, E3 types, E4 dimensions, E5 ownership, E6 effects and spaces, F1 GGUF, F2 keg,
F3 tokenizer, F4 chat template, M1 families and binding, R1 running, S1 pull and store, U1 usage.
"""

from dataclasses import dataclass

CODES: dict[str, str] = {}


def code(name: str, title: str) -> str:
    """Declare a stable error code with its one-line title; return the code.

    name: letter and three digits, unique in the whole package. title: what is wrong, in general words.
    """
    known = CODES.setdefault(name, title)
    assert known == title, (name, known, title)
    return name


@dataclass(slots=True)
class BitternError(Exception):
    """A failure that the user can cause and mend.

    code: stable, declared with `code`. what: what was given and where, one sentence.
    remedy: what is allowed or what to do, one sentence.
    """

    code: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code}: {self.what} {self.remedy}".rstrip()

    def as_json(self) -> dict[str, str]:
        """Return the error as the object that `--json` prints under the key `error`."""
        return {"code": self.code, "what": self.what, "remedy": self.remedy}


def nearest(word: str, known: list[str]) -> str:
    """Return a phrase that offers the closest of the known names, or lists them if there are few."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=2, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(f"`{name}`" for name in close) + "?"
    if known and len(known) <= 12:
        return "Known: " + ", ".join(f"`{name}`" for name in sorted(known)) + "."
    return ""
