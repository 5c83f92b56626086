"""Formats of strings as regular expressions: each takes only texts that have the format.

RFC 3339 for dates and times, 4122 for `uuid`, 5321 for `email`, 1123 for `hostname`, 4291 for
`ipv6`, 3986 for `uri`, 6901 for `json-pointer`. Some texts that have it are left out: years before
1000, leap seconds, quoted mailboxes, names with two hyphens in a row, addresses with zones.
"""

from __future__ import annotations

_YEAR = "[1-9][0-9]{3}"
_LEAP = "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP}-02-29)"
)
_HOUR = "(?:[01][0-9]|2[0-3])"
_TIME = f"{_HOUR}:[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{{1,6}})?(?:Z|[+-]{_HOUR}:[0-5][0-9])"
_CLOCK = "(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)"
_DAYS = "[0-9]{1,6}D"
_MONTHS = f"[0-9]{{1,6}}M(?:{_DAYS})?"
_PERIOD = f"(?:[0-9]{{1,4}}Y(?:{_MONTHS})?|{_MONTHS}|{_DAYS})"
_LABEL = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
_HOST = f"{_LABEL}(?:\\.{_LABEL}){{0,3}}"
_MAILBOX = "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_GROUP = "[0-9A-Fa-f]{1,4}"
_PATH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
_QUERY = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"


def _ipv6() -> str:
    """Eight groups, or fewer on either side of two colons."""
    sides = [f"{_GROUP}(?::{_GROUP}){{7}}", f"::(?:{_GROUP}(?::{_GROUP}){{0,6}})?"]
    for before in range(1, 8):
        after = f"(?:{_GROUP}(?::{_GROUP}){{0,{6 - before}}})?" if before < 7 else ""
        sides.append(f"{_GROUP}(?::{_GROUP}){{{before - 1}}}::{after}")
    return "|".join(sides)


FORMATS = {
    name: f"^(?:{expression})$"
    for name, expression in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": f"P(?:{_PERIOD}(?:T{_CLOCK})?|T{_CLOCK}|[0-9]{{1,6}}W)",
        "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "email": f"{_MAILBOX}@{_LABEL}(?:\\.{_LABEL}){{0,1}}\\.[A-Za-z]{{2,20}}",
        "hostname": _HOST,
        "ipv4": f"(?:{_BYTE}\\.){{3}}{_BYTE}",
        "ipv6": _ipv6(),
        "uri": f"[a-z][a-z0-9+.-]{{0,20}}://{_HOST}(?::[1-9][0-9]{{0,3}})?"
        f"(?:/{_PATH})?(?:\\?{_QUERY})?(?:#{_QUERY})?",
        "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
    }.items()
}
