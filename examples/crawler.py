"""A crawler: level by level, thousands of pages at once, a few hundred in flight.

The site is made up: page n links to WIDTH pages. Its loop is a tail call with the state of the crawl
as arguments, so it may go on for ever in constant space.

Start one with `mainspring processes start crawl '{"levels": 2, "pages": [0]}' --id crawl-1 --app
examples.crawler` while `mainspring worker examples.crawler` runs; `mainspring processes show crawl-1`.
"""

from __future__ import annotations

from mainspring import Mainspring, Promise, RetryPolicy

app = Mainspring()
WIDTH = 100  # links of a page: two levels are 10,000 pages


@app.task(retry=RetryPolicy(attempts=5), concurrency=50)
async def fetch(page: int) -> list[int]:
    """The links of a page."""
    return [page * WIDTH + n for n in range(1, WIDTH + 1)]


@app.process
def crawl(levels: int, pages: list[int], seen: int = 0) -> Promise[int]:
    """How many pages there are down to a level."""
    return follow(levels, seen + len(pages), fetch.map(pages, window=512))


@app.process
def follow(levels: int, seen: int, links: list[list[int]]) -> Promise[int] | int:
    pages = sorted({page for found in links for page in found})
    return crawl(levels - 1, pages, seen) if levels > 1 else seen
