-- Every shard of a pool has a lease row for ever.
insert into mainspring.lease (pool, shard)
select %(pool)s::text, n from mainspring.install, generate_series(0, shard_count - 1) n
on conflict do nothing
