"""Rules of plurals: how many forms a language has, and which one a number asks for, as GNU gettext writes it."""

import re
from dataclasses import dataclass
from functools import cached_property

# The rules that GNU gettext's msginit writes, which follow the rules of the Unicode CLDR
# (https://www.gnu.org/software/gettext/manual/html_node/Plural-forms.html,
# https://www.unicode.org/cldr/charts/latest/supplemental/language_plural_rules.html).
_EAST_SLAVIC = "n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_CZECH = "(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2"
_SORBIAN = "n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3"
_WITHOUT_PLURAL = "bm bo dz id ii ja jbo jv km ko lo ms my sah ses sg su th to tpi vi wo yo yue zh"
_RULES = {
    "0": _WITHOUT_PLURAL,
    "n > 1": "ak am as ay bn br fa ff fil fr gu hi hy kab kn ln mg nso oc pa si tg ti tl uz_Latn wa zu pt_BR",
    "n%10!=1 || n%100==11": "is mk",
    "n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2": "lv",
    "n==1 ? 0 : n==2 ? 1 : 2": "ga iu naq se smn sms",
    "n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2": "ro mo",
    "n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2": "lt",
    _EAST_SLAVIC: "ru uk be sr hr bs sh",
    _CZECH: "cs sk",
    "n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2": "pl szl csb",
    _SORBIAN: "sl dsb hsb",
    "n==1 ? 0 : n==0 || (n%100 > 1 && n%100 < 11) ? 1 : (n%100 > 10 && n%100 < 20) ? 2 : 3": "mt",
    "(n==1 || n==11) ? 0 : (n==2 || n==12) ? 1 : (n > 2 && n < 20) ? 2 : 3": "gd",
    "n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5": "ar",
    "n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n==3 ? 3 : n==6 ? 4 : 5": "cy",
}
_RULE_OF_LANGUAGE: dict[str, str] = {}
for _rule, _languages in _RULES.items():
    _RULE_OF_LANGUAGE |= dict.fromkeys(_languages.split(), _rule)
# The categories of numbers, and those that whole numbers below a million have in a language, which
# are these two where nothing else is said (Unicode CLDR, "Language Plural Rules", as above).
PLURAL_CATEGORIES = ("zero", "one", "two", "few", "many", "other")
_CATEGORIES = {
    "other": _WITHOUT_PLURAL,
    "zero one other": "lv prg lag ksh",
    "one two other": "iu naq sat se smn sms sma smi smj he iw",
    "one few other": "ro mo lt hr sr bs sh cs sk shi",
    "one few many": "ru uk be pl",
    "one two few other": "sl dsb hsb gd",
    "one two few many other": "ga mt br gv",
    "zero one two few many other": "ar ars cy kw",
}
_CATEGORIES_OF_LANGUAGE: dict[str, tuple[str, ...]] = {}
for _names, _languages in _CATEGORIES.items():
    _CATEGORIES_OF_LANGUAGE |= dict.fromkeys(_languages.split(), tuple(_names.split()))
# Most languages have two forms, and one thing alone takes the first:
# English, German, Spanish, Italian, Greek, ...
_ONE_AND_MORE = "n != 1"

_HEADER = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,500})")
_SYMBOL = re.compile(r"\s*(?:(\d{1,9})|(n)|(\|\||&&|[=!<>]=|[<>!?:()%*/+-]))")
_NUMBERS = range(200)  # whole hundreds behave as these do in all rules
_DEEPEST = 50  # brackets and choices in one another
# Operators of two values, those that bind least first.
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))


@dataclass(frozen=True)
class PluralRule:
    """How many forms a language has, and the expression that gives the number of the form for a number n."""

    forms: int
    expression: str

    @property
    def header(self) -> str:
        """The rule as the header of a catalogue has it.

        >>> find_plural_rule("fr").header
        'nplurals=2; plural=n > 1;'
        """
        return f"nplurals={self.forms}; plural={self.expression};"

    @cached_property
    def _form_of_number(self) -> list[int]:
        return _evaluate(self.expression)

    @property
    def singular(self) -> int | None:
        """The number of the form for one thing; None where it is the only form.

        >>> [find_plural_rule(language).singular for language in ("es", "ar", "ja")]
        [0, 1, None]
        """
        return self._form_of_number[1] if self.forms > 1 else None

    @property
    def singular_counts_more(self) -> bool:
        """Whether the form for one thing is also the form for larger numbers, as it is for 21 in Russian."""
        return any(form == self.singular for form in self._form_of_number[2:])


def find_plural_rule(language: str) -> PluralRule:
    """Return the rule of a language, given its code.

    A language that is not known is taken to have one form for
    one thing and one for more, as most have.

    >>> find_plural_rule("ru").forms, find_plural_rule("pt-BR").expression, find_plural_rule("pt").expression
    (3, 'n > 1', 'n != 1')
    """
    parts = re.split(r"[-_]", language)
    regional = "_".join([parts[0].lower(), *(part.upper() for part in parts[1:] if len(part) == 2)])
    general = _RULE_OF_LANGUAGE.get(parts[0].lower(), _ONE_AND_MORE)
    expression = _RULE_OF_LANGUAGE.get(regional) or general
    return PluralRule(max(_evaluate(expression)) + 1, expression)


def list_plural_categories(language: str) -> tuple[str, ...]:
    """Return the categories of whole numbers that a language tells apart, in the names of the Unicode CLDR.

    >>> list_plural_categories("ru"), list_plural_categories("es-MX"), list_plural_categories("zh_Hans")
    (('one', 'few', 'many'), ('one', 'other'), ('other',))
    """
    return _CATEGORIES_OF_LANGUAGE.get(re.split(r"[-_]", language)[0].lower(), ("one", "other"))


def read_plural_rule(header: str) -> PluralRule | None:
    """Return the rule that the header of a catalogue gives; None where it gives none, as in a template.

    >>> read_plural_rule("nplurals=2; plural=(n != 1);"), read_plural_rule("nplurals=INTEGER; plural=EXPRESSION;")
    (PluralRule(forms=2, expression='(n != 1)'), None)
    """
    match = _HEADER.search(header)
    if match is None or int(match[1]) < 1:
        return None
    rule = PluralRule(int(match[1]), match[2].strip())
    try:
        forms = rule._form_of_number
    except ValueError:
        return None
    return rule if all(form < rule.forms for form in forms) else None


def _evaluate(expression: str) -> list[int]:
    """Return the form for each of some numbers. Raises ValueError for what is no expression of C about a number n."""
    symbols: list[str] = []
    position = 0
    while position < len(expression.rstrip()):
        match = _SYMBOL.match(expression, position)
        if match is None:
            raise ValueError(f"{expression!r} is no rule of plurals")
        symbols.append(match[0].strip())
        position = match.end()

    return [_Calculation(symbols, number).run() for number in _NUMBERS]


class _Calculation:
    """One calculation of an expression, from left to right, by recursive descent."""

    def __init__(self, symbols: list[str], number: int):
        self.symbols = [*symbols, ""]
        self.number = number
        self.position = 0
        self.depth = 0

    def run(self) -> int:
        value = self.choose()
        if self.symbols[self.position]:
            raise ValueError("an expression goes on after its end")
        return value

    def take(self, *symbols: str) -> str:
        """Step over the next symbol if it is one of these, and return it, or "" where it is none."""
        symbol = self.symbols[self.position]
        if symbol not in symbols or not symbol:
            return ""
        self.position += 1
        return symbol

    def choose(self) -> int:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError("an expression is too deep")
        value = self.combine(0)
        if self.take("?"):
            first = self.choose()
            if not self.take(":"):
                raise ValueError("a choice has no second value")
            second = self.choose()
            value = first if value else second

        self.depth -= 1
        return value

    def combine(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.read_value()
        value = self.combine(level + 1)
        while operator := self.take(*_LEVELS[level]):
            value = _combine_values(operator, value, self.combine(level + 1))
        return value

    def read_value(self) -> int:
        negations = 0
        while self.take("!"):
            negations += 1
        if self.take("("):
            value = self.choose()
            if not self.take(")"):
                raise ValueError("a bracket is not closed")
        else:
            symbol = self.symbols[self.position]
            if symbol != "n" and not symbol.isdecimal():
                raise ValueError("a value is missing")
            self.position += 1
            value = self.number if symbol == "n" else int(symbol)

        if negations:
            value = int((value == 0) == (negations % 2 == 1))
        return value


def _combine_values(operator: str, left: int, right: int) -> int:
    match operator:
        case "||":
            return int(bool(left or right))
        case "&&":
            return int(bool(left and right))
        case "==":
            return int(left == right)
        case "!=":
            return int(left != right)
        case "<":
            return int(left < right)
        case ">":
            return int(left > right)
        case "<=":
            return int(left <= right)
        case ">=":
            return int(left >= right)
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise ValueError("a division by zero")
    return left // right if operator == "/" else left % right
