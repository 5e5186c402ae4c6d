-- The versions of these states, 0 where there is none. The entities' rows are locked by now, and whoever writes a
-- state locks its entity's row first: what this answers stays so until the transaction ends. Rides the primary key.
select i.n::integer as n, coalesce(s.version, 0) as version
from rows from (
  unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
  json_array_elements_text(%(stages)s::text::json)
) with ordinality as i(shard, key, stage, n)
left join mainspring.state s on s.shard = i.shard and s.kind = %(kind)s::text and s.key = i.key and s.stage = i.stage
