"""Passwords without a name of their own: in URLs, in command lines, and in other known places of a line.

Each pattern is a form in which a program or library takes a password. Pure.
"""

import re

from fastcoder_lsp.workspace.secret_names import LIKELY
from fastcoder_lsp.workspace.secret_values import LiteralShape, shape_of

_ADDRESS = re.compile(r"""://(?:[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}|[0-9a-fA-F]{24,64})@""")
"""A URL with a password or a key, `https://me:…@host`."""
_COMMANDS = tuple(
    map(
        re.compile,
        (
            r"""\bhtpasswd\b.{0,20}?\s-\w{0,4}b\w{0,4}\s\S{1,80}\s\S{1,80}\s["']?([^\s"']+)""",
            (
                r"""\b(?:curl|https?|wget|smbclient)\b.{0,200}?"""
                r"""\s(?:-[auU]|--user)[ =]?["']?[^\s:%"'$/]{1,80}[:%](?!//)([^\s"']+)"""
            ),
            r"""(?:^|\s)-u\s[^\s:$"']{1,80}:([^\s"']+)""",
            (
                r"""\b(?:echo|printf)\b[^|]{0,120}?["' :]([^\s:"']{3,})["']?\s?\|\s?"""
                r""".{0,60}?(?:--password-stdin|chpasswd|passwd --stdin|sudo -\w*S)"""
            ),
            (
                r"""(?i)\s--?(?:[\w-]*(?:password|passwd|passphrase|secret|token|api-?key)|requirepass)"""
                r"""[ =:]+["']?([^\s"'$<\[-][^\s"'\]]{3,})(?=["'`]?\s*(?:$|[\\&|;]|-))"""
            ),
            r"""\blogin\s+\S+\s+password\s+(\S+)""",
            r"""\bvault\s+(?:login|kv\s+put\s+\S+)\s+(?:\w+=)?(\S+)|\bnet\s+user\s+\w+\s+([^\s/*]\S*)""",
            r"""(?i:(?:\b|_)(?:auth|btoa|userpwd|buffer\.from)["']?\W{1,8})["'][^:"'\s/{]{1,60}:(?![/:])([^\s"'/{]{3,})""",
            r"""["'][\w.-]{1,40}:([^\s:@"'/{$%]{1,60})@tcp\(""",
        ),
    )
)
"""Programs that take a password without naming it."""
_UNNAMED = tuple(
    (re.compile(pattern), least)
    for pattern, least in (
        (
            (
                r"""(?:(?<![A-Za-z])(?:pin|PIN|Pin)|(?<=[a-z])Pin)(?:_?[Cc]ode|_CODE)?["']?\s{0,3}"""
                r"""[:=]{1,3}>?\s{0,3}["']?(\d{4,8})(?![\w.])"""
            ),
            LiteralShape.WORD,
        ),
        (
            r"""(?i)(?:seed|phrase)\w{0,10}["']?\s{0,3}[:=]\s{0,3}["']?((?:[a-z]{3,8} ){11,23}[a-z]{3,8})""",
            LiteralShape.WORD,
        ),
        (
            r"""(?i)\b(?:log-?in|credentials?|creds)\b[^:=]{0,20}[:=]\s{0,3}[\w.@-]{1,40} ?/ ?([^\s"'/]{3,})""",
            LiteralShape.MIXED,
        ),
        (
            r"""(?:auth|\bbasic)["']?\s{0,3}[:=]\s{0,3}["']?[\w.@-]{1,60}:(?![/:])([^\s"'/{},]{3,})["']?\s*$""",
            LiteralShape.MIXED,
        ),
        (r"""\bconnect\((?:\s{0,3}"[^"]{1,80}",){2}\s{0,3}"(?!_)([^"\s]{3,})"\s{0,3}\)""", LiteralShape.WORD),
        (
            (
                r"""["'](?:auth|login|authenticate)["'],\s{0,3}["']?(?:args|params|arguments)["']?"""
                r"""\s{0,3}:\s{0,3}\[\s{0,3}["']([^"'\s]{3,})"""
            ),
            LiteralShape.WORD,
        ),
    )
)
"""Patterns of unnamed passwords, with the least shape of the literal there."""
_PROGRAM = re.compile(
    r"\b(?:sshpass|plink|pscp|mysql\w{0,20}|mariadb\w{0,20}|docker|podman|az|mongo\w{0,10}|helm|cf|oc|unzip|zip|7z|"
    r"redis-cli|ldap\w{2,10}|openssl|useradd|usermod|gpg)\b"
)
_FLAG = re.compile(r"""\s-(?:pw|[apPkw])[ =]{0,2}["'{]{0,2}([^\s"'=,-][^\s"'=,]+)""")
_LISTED = re.compile(r"""["'],\s?["']""")
"""The separator between the words of a command in a list."""


def has_unnamed_password(line: str) -> bool:
    """Whether a URL or a command line holds an unnamed password."""
    if _ADDRESS.search(line):
        return True
    if not LIKELY.search(line):
        return False
    plain = _LISTED.sub(" ", line)
    program = _PROGRAM.search(plain)
    found = [match for command in _COMMANDS for match in command.finditer(plain)]
    found += _FLAG.finditer(plain, program.end()) if program is not None else []
    if any(shape_of(match[1]) >= least for pattern, least in _UNNAMED for match in pattern.finditer(line)):
        return True
    return any(shape_of(value) >= LiteralShape.WORD for match in found for value in filter(None, match.groups()))
