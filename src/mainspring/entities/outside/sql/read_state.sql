-- A stage's private state of an entity, by the canonical text of its id. No row: there is none (version 0).
select s.version, s.schema, s.body::text as body, s.message, s.message_type
from mainspring.canonical_keys(%(kind)s::text, array[%(id)s::text]) c
join mainspring.state s on s.shard = mainspring.shard(c.key, (select shard_count from mainspring.install))
  and s.kind = %(kind)s::text and s.key = c.key and s.stage = %(stage)s::text
