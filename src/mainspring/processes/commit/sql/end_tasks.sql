-- Write ends: a task's new state, a promise's outcome, or both where a task fulfils its own. Answers how many were
-- written: a row that was not as it must be is a defect, the caller rolls back. Rides the primary key.
-- Where nothing is linked this is also the lock of the rows, in the order of their ids; it has patience as lock_tasks has.
with patience as materialized (
  select case current_setting('lock_timeout') when '50ms' then set_config('lock_timeout', '900ms', true) end
),
ended as (
  update mainspring.task t
  set state = coalesce(i.state, t.state),
    done_no = case when i.state = 'done' then nextval('mainspring.done_no') else t.done_no end,
    outcome = coalesce(i.outcome, t.outcome),
    outcome_no = case when i.outcome is not null then nextval('mainspring.done_no') else t.outcome_no end,
    result = case when i.outcome is not null then nullif(i.result, 'null') else t.result end,
    error = case when i.outcome is not null or i.state = 'parked' then nullif(i.error, 'null') else t.error end,
    changed_at = mainspring.now()
  from patience
  cross join rows from (
    unnest(%(processes)s::text::uuid[]), unnest(%(ids)s::text::uuid[]), unnest(%(states)s::text::mainspring.task_state[]),
    unnest(%(outcomes)s::text::mainspring.promise_outcome[]), jsonb_array_elements(%(results)s::text::jsonb),
    jsonb_array_elements(%(errors)s::text::jsonb)
  ) as i(process_id, id, state, outcome, result, error)
  where t.process_id = i.process_id and t.id = i.id
    and (i.state is null or t.state in ('open', 'external') or (t.state = 'parked' and %(parked_too)s::boolean))
    and (i.outcome is null or t.outcome is null)
  returning 1
)
select count(*) from ended
