"""Uploads a file, asks about it, downloads it again: `python files.py report.txt`."""

from __future__ import annotations

import sys
from pathlib import Path

from tollgate_gateway import Tollgate


def main() -> None:
    path = Path(sys.argv[1] if sys.argv[1:] else __file__)

    def tell(sent: int, total: int | None) -> None:
        print(f"\r{100 * sent // (total or sent)} %", end="", flush=True)

    with Tollgate() as gate:
        session = gate.sessions.create(title=path.name)
        file = gate.files.upload(path, session_id=session.id, on_progress=tell)
        print(f"\n{file.filename}: {file.bytes} bytes, {file.content_type}")

        question = "What is in this file?"
        answer = gate.messages.create(session.id, question, files=[file.id], stream=False)
        print(answer.text)

        content = gate.files.content(file.id).read()
        print("the same" if content == path.read_bytes() else "not the same")


if __name__ == "__main__":
    main()
