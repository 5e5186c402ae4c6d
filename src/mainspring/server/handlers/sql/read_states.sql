-- States of a stage, in the order of the ids (S11). Rides the primary key.
select c.n::integer as n, s.version, s.schema, s.body::text as body, s.message, s.message_type,
  exists (select from mainspring.stage g where g.kind = %(kind)s::text and g.name = %(stage)s::text) as has_stage
from mainspring.canonical_keys(%(kind)s::text, %(ids)s::text[]) c
left join mainspring.state s on s.shard = mainspring.shard(c.key, (select shard_count from mainspring.install))
  and s.kind = %(kind)s::text and s.key = c.key and s.stage = %(stage)s::text
order by c.n
