"""JSON as the server stores it, and text that UTF-8 can encode."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from . import limits
from .errors import MailroomError


def clean(text: str) -> str:
    """Replaces what the server refuses in text: lone surrogates and NUL become U+FFFD."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def bounded(text: str) -> str:
    """Cleans a text to send, and refuses one that is too long for a message."""
    text = clean(text)
    n = len(text.encode())
    if n > limits.TEXT:
        raise MailroomError("too_large", f"the text has {n:,} bytes, more than {limits.TEXT:,}: send a reference")
    return text


def canonical(value: Any) -> str:
    """Encodes a value: keys sorted, no spaces, no NaN. Equal values have equal text in every attempt."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as err:
        raise MailroomError("invalid", f"the value cannot be encoded as JSON ({err}); "
                            "use dict, list, str, int, float, bool or None") from err
    return text if text.isascii() else surrogates(text)


def surrogates(text: str) -> str:
    """Joins pairs of surrogates, and replaces lone ones by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def digest(value: Any) -> str:
    """Names the input of an effect: the first 32 hex digits of the SHA-256 of its JSON.

    The JSON has the form of RFC 8785, except that a number keeps all its digits.
    The server and the workers in other languages have the same digest for an equal value.
    """
    parsed = json.loads(canonical(value), parse_int=_Number, parse_float=_Number)
    return hashlib.sha256(_form(parsed).encode()).hexdigest()[:32]


class _Number(str):
    """The text of a number."""


def _order(member: tuple[str, Any]) -> bytes:
    return member[0].encode("utf-16-be")


def _form(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=_order)
        return "{" + ",".join([json.dumps(k, ensure_ascii=False) + ":" + _form(v) for k, v in members]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_form(v) for v in value]) + "]"
    return _number(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _number(text: str) -> str:
    """Writes a number as JavaScript does, without rounding. Its value is 0.DIGITS times ten to the power of point."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(power or 0)
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if point > 21 or point <= -6:
        rest = "." + digits[1:] if digits[1:] else ""
        return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
    if point <= 0:
        return sign + "0." + "0" * -point + digits
    return sign + digits[:point].ljust(point, "0") + ("." + digits[point:] if digits[point:] else "")


def size(value: Any) -> int:
    """Counts the bytes of a value's JSON."""
    return len(canonical(value).encode())


def check(what: str, value: Any, most: int) -> None:
    """Refuses a value that is no JSON, or whose JSON has more than `most` bytes, before a request is sent."""
    try:
        n = size(value)
    except MailroomError as err:
        raise MailroomError(err.code, f"{what}: {err.message}") from err
    if n > most:
        raise MailroomError(
            "too_large", f"{what} has {n:,} bytes of JSON, more than {most:,}: keep a reference in its place")
