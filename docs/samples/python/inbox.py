"""Stores events as files, each once and never in part. In a database: an insert whose key is the event's id."""

import json
import os
import tempfile
import time
from pathlib import Path


def is_whole(file: Path, event_id: str) -> bool:
    """False if the file does not exist, or a full disk or a power failure cut it off."""
    try:
        return json.loads(file.read_bytes())["id"] == event_id
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return False


def write_whole(file: Path, content: bytes) -> None:
    """Writes a file under another name, which only a whole and synced file changes."""
    descriptor, part = tempfile.mkstemp(".part", ".", file.parent)
    try:
        with open(descriptor, "wb") as output:
            output.write(content)
            output.flush()
            os.fsync(output.fileno())
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the name too
    finally:
        os.close(directory)


def store(inbox: Path, event_id: str, event: bytes) -> None:
    """Returns when the event is on the disk. A stored event stays as it is.

    No error and no crash leaves a part of an event under the name that makes the next delivery a duplicate.
    """
    file = inbox / f"{event_id}.json"
    if not is_whole(file, event_id):
        write_whole(file, event)


def remove_parts(inbox: Path) -> None:
    """Removes what a crash left, but nothing that another program may be writing."""
    for part in inbox.glob(".*.part"):
        try:
            if time.time() - part.stat().st_mtime > 3600:
                part.unlink()
        except FileNotFoundError:
            pass  # renamed meanwhile
