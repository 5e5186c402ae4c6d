-- Shards have become free: workers of the pool should look for them now, not at their next beat.
select pg_notify('mainspring', 'shards ' || %(pool)s::text)
