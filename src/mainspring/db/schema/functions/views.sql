-- The state of each visit as an enumerated type (T4). A run shorter than its queue's hold_after shows as waiting,
-- with the worker whose lease covers it. attempt is that of the run under way or to come, of a parked one its last; 1 is the first.
create or replace view mainspring.visit_status as
  select v.queue, v.key, v.id, v.grp, v.priority,
    case
      when v.parked_at is not null then 'parked'
      when v.pass is not null then 'running'
      when v.due_at > mainspring.now() then 'scheduled'
      else 'waiting'
    end::mainspring.visit_state as state,
    v.due_at, case when v.parked_at is null then least(v.attempt, 2147483646) + 1 else greatest(1, v.attempt) end as attempt, v.crashes, v.work_timeouts, v.holder, case when l.worker_id <> '00000000-0000-0000-0000-000000000000' then l.worker_id else (
      -- The pool is cut: its leases are those of the band that has the queue.
      select b.worker_id from mainspring.band n join mainspring.lease b on b.pool = n.name and b.shard = v.shard
      where n.pool = q.pool and n.queues @> array[v.queue::text] limit 1) end as leased_by, v.started_at, v.held_until,
    case when v.called_off is null then v.expires_at end as expires_at, v.parked_at, v.offered_while_parked, v.error, v.payload, v.created_at, v.changed_at, v.shard,
    v.called_off
  from mainspring.visit v
  left join mainspring.queue q on q.name = v.queue
  left join mainspring.lease l on l.pool = q.pool and l.shard = v.shard;

-- Reactive tasks in numbers, a row a pool: for dashboards and alerts. `missed` is what to wake somebody for (R14).
create or replace view mainspring.reactive_load as
  select t.pool, count(*) as tasks,
    count(*) filter (where t.firing is not null and t.admitted_at is null) as ready,
    count(*) filter (where t.admitted_at is not null) as running,
    count(*) filter (where t.failures > 0) as failing,
    count(*) filter (where t.missed_at is not null) as missed,
    count(*) filter (where t.paused_at is not null) as paused,
    count(*) filter (where t.retired_at is not null) as retired,
    coalesce(extract(epoch from mainspring.clock() - min(t.fired_at) filter (where t.admitted_at is null))::double precision, 0)
      as oldest_ready_seconds
  from mainspring.reactive_task t
  group by t.pool;
