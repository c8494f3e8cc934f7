"""A conversation in the terminal: `python chat.py Hello`, or without words to be asked."""

from __future__ import annotations

import sys

from tollgate_gateway import Tollgate, TollgateError


def main() -> None:
    with Tollgate() as gate:
        session = gate.sessions.create(title="Terminal")
        for words in [" ".join(sys.argv[1:])] if sys.argv[1:] else iter(ask, ""):
            try:
                with gate.messages.create(session.id, content=words) as stream:
                    for chunk in stream:
                        print(chunk.text, end="", flush=True)
            except TollgateError as error:
                print(f"\n{error}", file=sys.stderr)
            print()


def ask() -> str:
    try:
        return input("> ")
    except EOFError:
        return ""


if __name__ == "__main__":
    main()
