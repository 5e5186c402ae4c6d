-- End runs whose state is locked, found by its address, whatever they came to. A recorded success replaces what the task has seen as a whole: what
-- its check captured, with the repairs made since laid over it. A failure counts and sets the end of its backoff. All clear the
-- firing and begin a new turn. A void one did not run: a manual run is asked for again. Answers when the next check is due, and the pool if it has a cap.
with item as (
  select task, address::tid as address, succeeded, failed, void, backoff, error, turn
  from unnest(%(tasks)s::text[], %(addresses)s::text[], %(succeeded)s::boolean[], %(failed)s::boolean[], %(void)s::boolean[], %(backoffs)s::double precision[],
    %(errors)s::text[], %(turns)s::bigint[])
    as i(task, address, succeeded, failed, void, backoff, error, turn)
),
ended as (
  update mainspring.reactive_task t
  set seen = case when i.succeeded and t.record
      then (jsonb_strip_nulls(t.captured) || coalesce(t.repair, '{}')) - coalesce(array(
        select r.key from jsonb_each(t.repair) r where jsonb_typeof(r.value) = 'null'), '{}')
      else t.seen end,
    seen_run = case when i.succeeded and t.record then t.firing else t.seen_run end,
    succeeded_at = case when i.succeeded and t.record then mainspring.clock() else t.succeeded_at end,
    missed_at = case when i.succeeded and t.record then null else t.missed_at end,
    failures = case when i.succeeded then 0 when i.failed then t.failures + 1 else t.failures end,
    error = case when i.succeeded then null else coalesce(i.error, t.error) end,
    retry_at = case
      when i.succeeded then null
      when i.failed and t.kind = 'regular' then mainspring.clock() + make_interval(secs => i.backoff)
      else t.retry_at end,
    request = case when i.void and t.kind = 'manual'
      then coalesce(t.request, jsonb_build_object('record', t.record, 'by', substring(t.cause from 'asked for by (.*)')))
      else t.request end,
    ended_at = mainspring.clock(),
    turn = i.turn, firing = null, fired_at = null, run = null, started_at = null, admitted_at = null, captured = null,
    repair = null, kind = null, record = null, base = null, kept_back_at = null, verdict = null, since = null
  from item i
  where t.ctid = i.address and t.task = i.task
  returning t.task, t.pool, t.retry_at
)
select e.task, e.pool, e.retry_at, p.cap is not null as capped, mainspring.now() as now
from ended e left join mainspring.reactive_pool p on p.pool = e.pool
