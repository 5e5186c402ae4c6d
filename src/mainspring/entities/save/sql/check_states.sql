-- Which of these states have another version by now than the one given (0: there is none), or are those of a stage that has
-- another name by now, and its states with it: nearly always nothing. The entities' rows are locked by now, and whoever
-- writes a state locks its entity's row first: what this answers stays so until the transaction ends. Rides the primary key.
with renamed as materialized (
  select unnest(c.was) as stage from mainspring.stage c where c.kind = %(kind)s::text
  except select c.name from mainspring.stage c where c.kind = %(kind)s::text
)
select i.n::integer as n, i.stage in (select r.stage from renamed r) as is_renamed
from rows from (
  unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
  json_array_elements_text(%(stages)s::text::json), unnest(%(versions)s::text::bigint[])
) with ordinality as i(shard, key, stage, version, n)
left join mainspring.state s on s.shard = i.shard and s.kind = %(kind)s::text and s.key = i.key and s.stage = i.stage
where coalesce(s.version, 0) <> i.version or i.stage in (select r.stage from renamed r)
