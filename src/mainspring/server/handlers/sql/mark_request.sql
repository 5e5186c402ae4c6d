-- Note which request has just set a state, and the version that it made. Its row is locked already. Rides the primary key.
update mainspring.state s
set request_id = %(request_id)s::text, request_version = s.version
from mainspring.canonical_keys(%(kind)s::text, array[%(id)s::text]) c
where s.shard = mainspring.shard(c.key, (select shard_count from mainspring.install))
  and s.kind = %(kind)s::text and s.key = c.key and s.stage = %(stage)s::text
returning s.version
