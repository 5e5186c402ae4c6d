-- Read the private states of these (shard, key) of a kind, of one stage each or (stage null) of all. One that is not
-- answered does not exist (version 0). Locks nothing. Rides the primary key.
select i.n::integer as n, s.stage, s.version, s.schema, s.body::text as body, s.message, s.message_type
from rows from (
  unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
  json_array_elements_text(%(stages)s::text::json)
) with ordinality as i(shard, key, stage, n)
join mainspring.state s on s.shard = i.shard and s.kind = %(kind)s::text and s.key = i.key
  and (i.stage is null or s.stage = i.stage)
