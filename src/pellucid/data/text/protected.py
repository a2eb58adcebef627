"""Finds the text that a translation must repeat unchanged: placeholders of programs, code, web and e-mail addresses."""

import re
from collections.abc import Iterator

# Possessive quantifiers (*+, ++), and a search that stops where the next one would begin: no text,
# however long, makes a search go back and try again.
_IN_URL = r"[A-Za-z0-9_.~:/?#\[\]@!$&'*+,;=%-]"
_GROUP = rf"\({_IN_URL}*+\)|\{{{_IN_URL}*+\}}"
_ADDRESSES = (
    rf"(?:(?:https?|ftp)://|(?<![A-Za-z0-9])www\.)(?:{_IN_URL}|{_GROUP})*(?:[A-Za-z0-9_/#=&~+%$@-]|{_GROUP})",
    r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++",
)

# Code in backticks, as in Markdown and reStructuredText, there also with its role or as a
# link: :ref:`x`, `x`_. Between two backticks of "`one' and `two'" stands no code: code does
# not end in a space, nor does a word touch it.
_CODE = (
    r"(?<![`\w])(?:(?<!:):[A-Za-z][\w.+-]*+:(?:[A-Za-z][\w.+-]*+:)*+)?(?:"
    r"``(?![`\s])(?:[^`]|`(?!`))+?(?<!\s)``(?!`)"
    r"|`(?![`\s])[^`]++(?<!\s)`_{0,2}"
    r")(?![`\w])"
)

_BRACES = (
    r"\{\{\{[^{}]*+\}\}\}",  # {{{ name }}}
    r"\{\{[^{}]*+\}\}",  # {{ name }}, {{ name | pipe }}
    # The tags and comments of templates: {% if name %}.
    r"\{%(?:[^{}%]|%(?!\}))*+%\}|\{\#(?:[^{}#]|\#(?!\}))*+\#\}|\[%(?:[^\[\]%]|%(?!\]))*+%\]",
    r"<%(?:[^%<]|%(?!>))*+%>|<\?(?:[^?<]|\?(?!>))*+\?>",  # <%= name %>, <?php echo $name ?>
    r"\$t\([^()]*+\)|\$\([\w.-]++\)",  # $t(key), $(name)
    r"\$\{[^{}]*+\}|\#\{[^{}\s]++\}",  # ${HOME}, #{name}
    # %{name}, %<name>.2f.
    r"%\{[^\W\d][\w.-]*+\}|%<[^\W\d]\w*+>(?:[-+#0]?\d*+(?:\.\d++)?[a-zA-Z])?",
    r"\{\s*+(?:[$!][\w.$-]++|-[A-Za-z][\w-]*+)\s*+\}",  # { $name }, {!name}, { -brand }
    r"\{\s*+[A-Z]++\(\s*+\$[^{}()]*+\)\s*+\}",  # { NUMBER($name) }
    # { name }, but not "{ and }".
    r"\{\s++(?!(?:and|et|o|oder|or|ou|und|y)\s)[^\W\d][\w.-]*+\s++\}",
    # {0, number, integer}.
    r"\{\s*+\w++\s*+,\s*+(?:number|date|time|duration|ordinal|spellout)\s*+(?:,[^{}]*+)?\}",
    r"\{\s*+\w++\s*+,\s*+choice\s*+,(?:[^{}]|\{[^{}]*+\})*+\}",  # {0,choice,0#no file|1#one file}
    r"\{\d++(?:,\s*+-?\d++)?(?::[^{}]*+)?\}",  # {0}, {0,-5:N2}
    # {price:{width}.2f}, {day:%d %B}.
    r"\{\w++:[^\s{}]*+(?:\{\w*+\}[^\s{}]*+)++\}|\{\w++:%[^{}]*+\}",
    # {}, {name}, {rows[0]}, {name!r}.
    r"\{(?:\w(?:[\w.-]|\[[^\[\]{}\s]*+\])*+)?(?:![rsa])?(?::[^\s{}]*+)?\}",
    r"[\[{]\d{1,3}[}\]](?!\()",  # [1], but not the link [1](address)
)

_SIZE = r"(?:hh?|ll?|[zjtqL])?"
_SIGNS = (
    r"(?<![\w%])%[A-Za-z_][\w.-]*\w%(?![\w%])",  # %NAME%
    # %(name)s, %1$d.
    rf"(?<![\d%])%(?:\([\w.-]++\)|\d++\$)[-+#0']*+\d*+(?:\.\d++)?{_SIZE}[a-zA-Z@]",
    # %s, %-5.2f, %lld; but not "%sale".
    rf"(?<![\d%])%[-+#0']*+(?:\d++|\*)?(?:\.(?:\d++|\*))?{_SIZE}[diouxXeEfFgGcrs@](?![A-Za-z]{{3}})",
    # %Y-%m, of dates; but not "100 %a year".
    r"(?<![\d%])(?<!\d\s)%-?[AaBbHIjMmpSUWYyZ](?![A-Za-z])",
    r"(?:(?<![\w%])|(?<=%\d))%(?:L?[1-9](?!\w|[.,]\d)(?:%(?!\w))?|n(?!\w))",  # %1, %L1, %1%, %n
    # $name, but not $5, nor a currency as in "5 $US".
    r"(?<![\w$\\])\$(?!(?:US|CAN?|AU?|NZ|HK|C|[kKmMbB]n?)(?!\w))[A-Za-z_]\w*+\$?",
    # :name and :name:, but not "a:b", "5:30", ":D" or "::name".
    r"""(?<![^\s("'“‘«„¿¡/=>]):(?:[a-z][A-Za-z0-9_]++(?![\w:])|(?:[a-z0-9_+-]*[a-z][a-z0-9_+-]*+|[+-]1):(?![\w:`]))""",
    r"(?<!\w)__\w++(?<=__)(?!\w)",  # __name__
    r"(?<![\w#&])#(?:st|nd|rd|th)?(?![\w#{]|\s*+\d)",  # the number in a text of a plural: # files
    r"'[{}]'|'\{[\w.]*+\}'",  # a literal brace in a message of ICU
    # Signs as HTML spells them; spaces (&nbsp;) are tags
    # (`find_tags`), and letters (&eacute;) are text.
    r"&(?:amp|lt|gt|quot|apos|copy|reg|trade|hellip|[mn]dash|[lr][sd]quo|[sb]dquo|sbquo|[lr]aquo|middot|bull|deg|euro"
    r"|pound|sect|times|shy|zwn?j|[lrud]arr|\#(?!160;|[xX][aA]0;)(?:[0-9]{1,6}|[xX][0-9a-fA-F]{1,5}));",
)

# In LaTeX braces hold text: \textbf{word}.
_LATEX = r"\\[A-Za-z]{2,}+\*?(?:\{[A-Za-z]\w*+\})++"

ADDRESS = re.compile("|".join(_ADDRESSES))
CODE = re.compile(_CODE)
# The characters with which all but addresses begin are asked for
# first: at most places of a text there is none.
_OTHERS = "|".join((f"(?P<latex>{_LATEX})", _CODE, *_BRACES, *_SIGNS))
PROTECTED = re.compile("|".join((*_ADDRESSES, rf"(?=[`:{{$#\[<%_'\\&])(?:{_OTHERS})")))

# Every match of `PROTECTED` begins with or has one of these;
# most texts have none, and need no search.
PROTECTED_SIGN = re.compile(r"[{}%@`]|://|www\.|\$[A-Za-z_(]|:[a-z0-9_+-]|\[\d|<\?|__|#|&[a-z]")

# Turkish and Basque write 5 percent as %5, which is a placeholder of Qt elsewhere. It is
# a percentage where no text of %1 stands beside it, and another percentage, a Turkish
# ending or letter does: "%5'i", "%5 ile %20".
_FIRST_PLACE = re.compile(r"%L?1(?!\d)")
_PERCENT_FIRST = re.compile(
    r"(?<![\w%])%(?:[0-9]{2}(?![0-9.]*[a-zA-Z$])|[0-9][.,][0-9]+(?![a-zA-Z])|[2-9]['’][a-zçğıöşü])"
)
_TURKISH_LETTER = re.compile("[ğĞıİşŞ]")
_PLACE = re.compile("%[2-9]")


def find_protected(text: str) -> Iterator[re.Match[str]]:
    """Find the texts that must stay as they are: the matches of `PROTECTED`, except the matches of LaTeX."""
    if not PROTECTED_SIGN.search(text):
        return iter(())
    matches = (match for match in PROTECTED.finditer(text) if match["latex"] is None)
    if "%" in text and _has_percentages(text):
        return (match for match in matches if not _PLACE.fullmatch(match[0]))
    return matches


def _has_percentages(text: str) -> bool:
    """Whether signs such as %5 in a text are percentages, and no placeholders.

    >>> [_has_percentages(text) for text in ("%5'i", "%5 ile %20", "%5 artış", "Copy %1 to %2", "%2 files")]
    [True, True, True, False, False]
    """
    if not _PLACE.search(text) or _FIRST_PLACE.search(text):
        return False
    return _PERCENT_FIRST.search(text) is not None or _TURKISH_LETTER.search(text) is not None


def has_same_protected(text: str, other: str) -> bool:
    """Whether two texts have the same protected texts, in any order.

    >>> has_same_protected("{n} of {m}", "{m}: {n}"), has_same_protected("one file", "{n} files")
    (True, False)
    """
    return sorted(list_protected(text)) == sorted(list_protected(other))


def list_protected(text: str) -> list[str]:
    """List the texts that a translation must repeat unchanged: placeholders, code, web addresses and e-mail addresses.

    >>> list_protected("Hi {name}, %d of {0:.1f} at https://example.com/a_(b). 50% done, ${HOME} `x`")
    ['{name}', '%d', '{0:.1f}', 'https://example.com/a_(b)', '${HOME}', '`x`']
    """
    return [match[0] for match in find_protected(text)]
