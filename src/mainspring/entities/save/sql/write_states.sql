-- Write the states of a save, each only if its version is still the one that was loaded (0: there was none), under a
-- new version. A state that is not answered was not written. The entities' rows are locked. Rides the primary key.
with item as materialized (
  select i.n, i.shard, i.key, i.stage, i.version, i.schema, i.body, decode(i.message, 'base64') as message,
    i.message_type
  from json_to_recordset(%(states)s::text::json)
    as i(n integer, shard integer, key text, stage text, version bigint, schema integer, body jsonb, message text,
      message_type text)
),
changed as (
  update mainspring.state s
  set version = nextval('mainspring.state_version'), schema = i.schema, body = i.body, message = i.message,
    message_type = i.message_type, changed_at = mainspring.now()
  from item i
  where s.shard = i.shard and s.kind = %(kind)s::text and s.key = i.key and s.stage = i.stage
    and s.version = i.version and i.version <> 0
  returning i.n, s.version
),
created as (
  insert into mainspring.state as s (shard, kind, key, stage, schema, body, message, message_type)
  select i.shard, %(kind)s::text, i.key, i.stage, i.schema, i.body, i.message, i.message_type
  from item i
  where i.version = 0
  on conflict do nothing
  returning s.shard, s.key, s.stage, s.version
)
select n, version from changed
union all
select i.n, c.version
from created c
join item i on i.shard = c.shard and i.key = c.key and i.stage = c.stage
