-- Write ends: a task's new state, a promise's outcome, or both where a task fulfils its own. The rows are locked
-- already. Answers how many were written: a row that was not as it must be is a defect, the caller rolls back. Rides the primary key.
with ended as (
  update mainspring.task t
  set state = coalesce(i.state, t.state),
    done_no = case when i.state = 'done' then nextval('mainspring.done_no') else t.done_no end,
    outcome = coalesce(i.outcome, t.outcome),
    outcome_no = case when i.outcome is not null then nextval('mainspring.done_no') else t.outcome_no end,
    result = case when i.outcome is not null then i.result else t.result end,
    error = case when i.outcome is not null or i.state = 'parked' then i.error else t.error end,
    changed_at = mainspring.now()
  from json_to_recordset(%(ends)s::text::json)
    as i(process_id uuid, id uuid, state mainspring.task_state, outcome mainspring.promise_outcome, result jsonb, error jsonb)
  where t.process_id = i.process_id and t.id = i.id
    and (i.state is null or t.state in ('open', 'external', 'parked'))
    and (i.outcome is null or t.outcome is null)
  returning 1
)
select count(*) from ended
