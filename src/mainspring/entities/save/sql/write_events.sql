-- Write what was saved into the outbox, one delivery for each consumer, and among what is kept, where the kind keeps events. Numbers are drawn here, while the entities'
-- rows are locked: per entity they rise in the order of commits.
with item as materialized (
  select i.shard, i.key, i.stage, i.what, i.entity_version, i.state_version, i.body, i.run, i.consumers,
    nextval('mainspring.event_number') as number
  from json_to_recordset(%(events)s::text::json)
    as i(shard integer, key text, stage text, what text, entity_version bigint, state_version bigint, body jsonb,
      run bigint, consumers text[])
),
story as (
  insert into mainspring.event (shard, kind, key, number, stage, what, entity_version, state_version, body, run)
  select shard, %(kind)s::text, key, number, stage, what, entity_version, state_version, body, run
  from item
  where cardinality(consumers) > 0
),
kept as (
  insert into mainspring.event_kept (shard, kind, key, number, stage, what, entity_version, state_version, body, run)
  select shard, %(kind)s::text, key, number, stage, what, entity_version, state_version, body, run
  from item
  where %(keeps)s::boolean
)
insert into mainspring.delivery (shard, kind, key, consumer, number)
select i.shard, %(kind)s::text, i.key, c.consumer, i.number
from item i
cross join lateral unnest(i.consumers) as c(consumer)
