"""Passwords without a name of their own: in URLs, in command lines, and in other known places of a line.

Each pattern is a form in which a program or library takes a password. Pure.
"""

import re

from fastcoder_lsp.workspace.secret_names import LIKELY
from fastcoder_lsp.workspace.secret_values import LiteralShape, is_conspicuous, shape_of

_ADDRESS = re.compile(
    r"""://(?:[^\s/:@"'`]{0,80}:[^\s/:@"'`{}<>$%][^\s/:@"'`]{0,200}|[0-9a-fA-F]{24,64})@"""
    r"""|api\.telegram\.org/bot\d{4,12}:[\w-]{5}"""
)
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
            r"""(?i)\bpassword\s{1,8}\$\w{0,20}\$([^$\s]{1,200})\$""",
            r"""\bsudo\s-\w{0,6}S\w{0,6}\s.{0,200}?<<<\s{0,3}["']?([^\s"'$]{3,})""",
            (
                r"""\b(?:echo|printf)\s(?:-\w{1,3}\s)?["']?([^\s"'$>|%]{3,200})["']?\s{0,3}>{1,2}\s{0,3}["']?"""
                r"""[^\s"']{0,80}?(?:password|passwd|passphrase|secret|api[_-]?key|token)(?:\.\w{1,8})?["']?\s*$"""
            ),
            r"""\blftp\b.{0,120}?\s-u\s{0,3}["']?[^\s,"']{1,60},([^\s"']+)""",
            r"""\b(?:requirepass|masterauth)\s{1,8}["']?([^\s"']+)""",
            r"""\bnet\s+use\s+\S{1,40}\s+\\\\\S{1,200}\s+([^\s/*]\S*)""",
            r"""^(?:\S{0,200}:)?_auth\s{0,8}=\s{0,8}["']?([A-Za-z0-9+/]{6,200}={1,2})["']?\s*$""",
            r"""^[\w.*-]{1,80}:(?:\d{4,5}|\*):[\w*-]{1,60}:[\w*.@-]{1,60}:([^\s:]+)$""",
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
_CONSPICUOUS = tuple(
    map(
        re.compile,
        (
            r"""\bhttps?://([\w.~+-]{6,200})@""",
            r"""["'](?:pin|PIN|[pP]in_?[cC]ode)["']\s{0,3}:\s{0,3}["']([^"'\s]{4,200})["']""",
            r"""^\s*user\s+[\w.@-]{1,60}\s+(?:on\s.{0,60}?>)?([^\s;{}()\[\]=]{6,200})(?:\s.*[~+].*)?$""",
            r"""^(?:\S{0,200}:)?_auth\s{0,8}=\s{0,8}["']?([A-Za-z0-9+/]{8,200})["']?\s*$""",
        ),
    )
)
"""Patterns of unnamed passwords that count only where they look like nothing else."""
_PROGRAM = re.compile(
    r"\b(?:sqlcmd|sshpass|plink|pscp|mysql\w{0,20}|mariadb\w{0,20}|docker|podman|az|mongo\w{0,10}|helm|cf|oc|unzip|zip|7z|"
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
    if any(is_conspicuous(match[1]) for pattern in _CONSPICUOUS for match in pattern.finditer(line)):
        return True
    if any(shape_of(match[1]) >= least for pattern, least in _UNNAMED for match in pattern.finditer(line)):
        return True
    return any(shape_of(value) >= LiteralShape.WORD for match in found for value in filter(None, match.groups()))
