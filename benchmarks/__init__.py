"""Benchmarks side by side: Mainspring, its peers and a bare loop on one PostgreSQL, in one run.

How it is put together, from the outside in:

- ``__main__``: the commands ``run``, ``compare`` and ``tune``.
- ``plan``: which system runs which workload, interleaved, and the records that come out.
- ``workloads/``: one file per measurement; each takes a stage and gives back figures.
- ``stage``: a fresh database, one producer process and some worker processes of one system.
- ``catalog`` and ``install``: what each system is, what it can do, how it is installed.
- ``adapter``, ``probe`` and ``systems/``: the part that runs inside a system's own
  virtual environment. It imports nothing but the standard library and that system.
- ``table``, ``report``, ``compare``: the terminal, the page with plots, two runs side by side.

A figure is never guessed: what cannot be installed or fails becomes a record with the reason.
"""
