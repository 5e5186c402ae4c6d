-- Make a kind known, as the code declares it now; what an operator may change is not among it. Locks its row.
insert into mainspring.kind as k (name, pool, source, keys, key_types, version_column, capture, ignored, notify, declared, crawl_every)
values (%(name)s::text, %(pool)s::text, %(source)s::text, %(keys)s::text[], %(key_types)s::text[], %(version)s::text,
  %(capture)s::text, %(ignored)s::text[], %(notify)s::boolean, %(declared)s::text::jsonb,
  make_interval(secs => %(crawl_seconds)s::double precision))
on conflict (name) do update
set pool = excluded.pool, source = excluded.source, keys = excluded.keys, key_types = excluded.key_types,
  version_column = excluded.version_column, capture = excluded.capture, ignored = excluded.ignored, notify = excluded.notify,
  declared = k.declared || excluded.declared, crawl_every = excluded.crawl_every, changed_at = mainspring.now()
where (k.pool, k.source, k.keys, k.key_types, k.version_column, k.capture, k.ignored, k.notify, k.crawl_every)
    is distinct from (excluded.pool, excluded.source, excluded.keys, excluded.key_types, excluded.version_column,
      excluded.capture, excluded.ignored, excluded.notify, excluded.crawl_every)
  or not k.declared @> excluded.declared
