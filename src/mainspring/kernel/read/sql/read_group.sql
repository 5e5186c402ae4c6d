-- Read the due, free visits of some groups, each by priority and then oldest first: those that a full group kept back.
-- Locks nothing. Rides visit_group. Notes the reach and guards against payloads and times as read_due does.
with wanted as (
  select queue, grp, most
  from unnest(%(queues)s::text[], %(groups)s::text[], %(most)s::integer[]) as w(queue, grp, most)
),
page as materialized (
  select v.shard, v.key, v.queue, v.id, v.grp, v.priority, v.due_at, v.version, v.attempt, v.crashes, v.expires_at, v.payload,
    v.address
  from wanted w
  cross join lateral (
    select v.shard, v.key, v.queue, v.id, v.grp, v.priority, v.due_at, v.version, v.attempt, v.crashes, v.expires_at,
      case when pg_column_size(v.payload) <= 8388608 then v.payload::text
        else to_json('a payload of ' || pg_size_pretty(pg_column_size(v.payload)::bigint) || ', which is more than is read')::text
      end as payload, v.address
    from generate_series(9, 0, -1) as p(priority)
    cross join lateral (
      select v.*, v.ctid::text as address
      from mainspring.visit v
      where v.queue = w.queue
        and v.grp = w.grp
        and v.priority = p.priority
        and v.due_at between '0001-01-01Z' and mainspring.now()
        and v.pass is null
        and v.parked_at is null
      order by v.due_at, v.key
      limit w.most
    ) v
    order by p.priority desc, v.due_at, v.key
    limit w.most
  ) v
  where exists (select from mainspring.worker where id = %(worker_id)s::uuid)
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
