"""Floating-point numbers as Postgres writes them: its digits, and where it sets the point.

ClickHouse, Python and Arrow write the shortest digits that are read back as the same number, and so does Postgres; but
Postgres takes none that lie exactly between two numbers, though a reader would round them to the right one.
"""

import math
import struct
from decimal import Decimal
from fractions import Fraction

POINT = {"real": 6, "double precision": 15}  # from this power of ten on, an exponent is written
INFINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
# Below, what lies between two numbers has more digits than any number is written with.
BETWEEN = {"real": 2.0**20, "double precision": 2.0**51}
MOST_DIGITS = 17


def write_float(value: str, kind: str) -> str:
    """Digits that somebody else wrote, as JSON of Postgres."""
    if value in INFINITE:
        return INFINITE[value]
    parts = _as_postgres(Decimal(value), kind).as_tuple()
    assert isinstance(parts.exponent, int)
    digits = "".join(map(str, parts.digits)).lstrip("0")
    power = len(digits) - 1 + parts.exponent
    return ("-" if parts.sign else "") + _place(digits.rstrip("0"), power, POINT[kind])


def _place(digits: str, power: int, most: int) -> str:
    if not digits:
        return "0"
    if power < -4 or power >= most:
        return f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{power:+03d}"
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    whole, rest = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{whole}{'.' if rest else ''}{rest}"


def _as_postgres(found: Decimal, kind: str) -> Decimal:
    """The same, or with as many digits more as it takes to lie inside."""
    number = _single(float(found)) if kind == "real" else float(found)
    if abs(number) < BETWEEN[kind]:
        return found
    below, above = _bounds(abs(number), kind)
    length = len(str(found.normalize().as_tuple().digits)) // 3
    while not below < Fraction(abs(found)) < above and length < MOST_DIGITS:
        length += 1
        found = Decimal(f"{number:.{length - 1}e}")
    return found


def _bounds(number: float, kind: str) -> tuple[Fraction, Fraction]:
    """What lies half-way to the numbers before and after it."""
    exact, before = Fraction(number), Fraction(_before(number, kind))
    step = exact - before if not _is_power(number) else 2 * (exact - before)
    return (exact + before) / 2, exact + step / 2


def _before(number: float, kind: str) -> float:
    if kind != "real":
        return math.nextafter(number, 0)
    [bits] = struct.unpack("=I", struct.pack("=f", number))
    [found] = struct.unpack("=f", struct.pack("=I", bits - 1))
    return float(found)


def _is_power(number: float) -> bool:
    return math.frexp(number)[0] == 0.5


def _single(number: float) -> float:
    return float(struct.unpack("=f", struct.pack("=f", number))[0])
