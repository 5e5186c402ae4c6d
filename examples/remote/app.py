"""The application whose stage `slug` is in `service.js`.

node examples/remote/service.js 127.0.0.1:7500 &
MAINSPRING_URL=postgresql://... python examples/remote/app.py
"""

import asyncio

from mainspring import Mainspring

app = Mainspring()
listing = app.documents("listing")
listing.remote_stage(
    "slug",
    "grpc://127.0.0.1:7500",
    reads=["title"],  # all that is sent
    writes=["slug"],  # all that is saved of what comes back
    saved=True,
)


async def main() -> None:
    async with app:
        await app.migrate()
        async with app.worker() as worker:
            await listing.put("42", {"title": "A Flat by the Sea"})
            await worker.drained()
            print(await listing.get("42"))


if __name__ == "__main__":
    asyncio.run(main())
