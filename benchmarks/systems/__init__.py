"""One file per system: our own small script against its public API, run in its own environment."""
