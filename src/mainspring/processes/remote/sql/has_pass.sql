-- Whether a visit is still held under a pass, whoever has its row locked. Locks nothing. Rides the primary key.
select exists (
  select from mainspring.visit
  where shard = %(shard)s::integer and key = %(key)s::text and queue = %(queue)s::text and pass = %(run)s::bigint
) as held
