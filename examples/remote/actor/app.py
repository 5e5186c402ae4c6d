"""An album whose thumbnails are made by an actor in another language: `actor.js`."""

from __future__ import annotations

from mainspring import Mainspring, Promise, RetryPolicy

app = Mainspring()


@app.task(remote=True, work_timeout=60.0, retry=RetryPolicy(attempts=3))
def thumbnail(photo: str, width: int) -> dict[str, str]:
    raise NotImplementedError("actor.js does it")


@app.task
def publish(album: str, thumbnails: list[dict[str, str]]) -> str:
    return f"{album}: {' '.join(sorted(found['url'] for found in thumbnails))}"


@app.process
def album(name: str, photos: list[str]) -> Promise[str]:
    return publish(name, [thumbnail(photo, 200) for photo in photos])
