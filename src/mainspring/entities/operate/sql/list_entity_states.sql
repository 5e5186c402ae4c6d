-- The private states of an entity, as they are stored. Rides the primary key.
select s.stage, s.version, s.schema, s.body::text as body, s.message_type, s.changed_at
from mainspring.state s
where s.shard = mainspring.shard(%(key)s::text, (select shard_count from mainspring.install))
  and s.kind = %(kind)s::text and s.key = %(key)s::text
order by s.stage
