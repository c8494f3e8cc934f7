"""What a web application does when its page is reloaded: the answer goes on, and is read on."""

from __future__ import annotations

from tollgate_gateway import Tollgate


def main() -> None:
    with Tollgate() as gate:
        session = gate.sessions.create()
        with gate.messages.create(session.id, content="Tell me a story.") as stream:
            for chunk in stream:
                print(chunk.text, end="", flush=True)
                if len(stream.partial_text) > 20:
                    break
        print("\n(the page is left; the answer is generated all the same)")

        # Kept by the page: the session, and where it was. Without these, `gate.messages.active(session.id)`.
        rest = gate.messages.resume(
            session.id, stream.message_id, last_event_id=stream.last_event_id
        )
        for chunk in rest:
            print(chunk.text, end="", flush=True)
        message = rest.final_message()
        print(f"\n{message.status}: {message.usage}, {message.cost} tokens")


if __name__ == "__main__":
    main()
