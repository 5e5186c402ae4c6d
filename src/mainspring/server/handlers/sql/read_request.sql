-- The version of a state, and whether this very request made it. Rides the primary key.
select s.version, coalesce(s.request_id = %(request_id)s::text and s.request_version = s.version, false) as is_same
from mainspring.canonical_keys(%(kind)s::text, array[%(id)s::text]) c
join mainspring.state s on s.shard = mainspring.shard(c.key, (select shard_count from mainspring.install))
  and s.kind = %(kind)s::text and s.key = c.key and s.stage = %(stage)s::text
