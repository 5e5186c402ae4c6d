-- Read due, free visits of each level (a queue and a priority) after a position and up to another, oldest first.
-- Locks nothing. Answers nothing to a worker whose row is gone (declared dead). A level that answers fewer rows
-- than asked has no more. Rides visit_due from the position on, so dead rows behind it cost nothing.
-- One upper bound, on the time alone: beside a row comparison the server does not stop at a second one, and would walk
-- over every timer of the future at each read.
-- Groups that are full and have visits left here are passed over: read_group reads those when there is room.
-- The shards are a mask, a bit each: an array would be searched from its start for every row. A shard outside of it, which only a
-- stranger's insert can have, is nobody's: get_bit would end the whole statement, so the order of the two is fixed.
-- A payload beyond what our API takes came another way: a sentence is read in its place, so that its run fails and no other waits.
-- A time of expiry that Python cannot hold is read as the nearest that it can: else the whole page could not be read.
-- What is due before the first year is not read: Python has no such time, and a level could not be read on from there.
-- How far each level was read is noted in the same transaction: after a death it names the suspects.
with level as (
  select queue, priority, after_due, after_key, upto_due, upto_key, most
  from unnest(%(queues)s::text[], %(priorities)s::smallint[], %(after_due)s::timestamptz[], %(after_key)s::text[],
    %(upto_due)s::timestamptz[], %(upto_key)s::text[], %(most)s::integer[])
    as l(queue, priority, after_due, after_key, upto_due, upto_key, most)
),
page as materialized (
  select v.shard, v.key, v.queue, v.id, v.grp, v.priority, v.due_at, v.version, v.attempt, v.crashes, v.expires_at, v.payload,
    v.address
  from level l
  cross join lateral (
    select v.shard, v.key, v.queue, v.id, v.grp, v.priority, v.due_at, v.version, v.attempt, v.crashes, v.expires_at,
      case when pg_column_size(v.payload) <= 8388608 then v.payload::text
        else to_json('a payload of ' || pg_size_pretty(pg_column_size(v.payload)::bigint) || ', which is more than is read')::text
      end as payload, v.ctid::text as address
    from mainspring.visit v
    where v.queue = l.queue
      and v.priority = l.priority
      and (v.due_at, v.key) > (greatest(l.after_due, '0001-01-01Z'), l.after_key)
      and v.due_at <= least(l.upto_due, mainspring.now())
      and (v.due_at < l.upto_due or v.key <= l.upto_key)
      and v.pass is null
      and v.parked_at is null
      and (%(shards)s::bytea is null
        or case when v.shard between 0 and 8 * length(%(shards)s::bytea) - 1 then get_bit(%(shards)s::bytea, v.shard) = 1 else false end)
      and (v.grp is null or not (v.queue || chr(31) || v.grp = any(%(behind)s::text[])))
    order by v.due_at, v.key
    limit l.most
  ) v
  where exists (select from mainspring.worker w where w.id = %(worker_id)s::uuid)
),
noted as (
  insert into mainspring.reach (worker_id, queue, priority, due_at, key)
  select %(worker_id)s::uuid, queue, priority, max(due_at), max(key)
  from page
  group by queue, priority
)
select shard, key, queue, id, grp, priority, date_part('epoch', due_at) as due, version, least(attempt, 2147483645) as attempt, crashes,
  case when expires_at is not null then greatest(least(expires_at, '9999-01-01Z'), '1970-01-01Z') end as expires_at,
  payload, address, key <> id::text as keyed
from page
