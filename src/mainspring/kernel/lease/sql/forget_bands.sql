-- After a recut: bands of the pool that no lease names, and no recut used for a day.
delete from mainspring.band b
where pool = %(pool)s::text
  and used_at < mainspring.now() - interval '1 day'
  and not exists (select from mainspring.lease l where l.pool = b.name)
