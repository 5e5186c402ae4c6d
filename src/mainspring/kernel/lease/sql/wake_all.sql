-- Shards have become free, or a worker has come: all of the pool should look now, not at their next beat.
select pg_notify('mainspring', 'shards ' || %(pool)s::text)
