-- Pause, resume or cancel an operation, if it is in one of the states from which that can be. No row: it is not.
update mainspring.operation
set state = %(state)s::text::mainspring.operation_state, changed_at = mainspring.now(),
  ended_at = case when %(state)s::text = 'cancelled' then mainspring.now() end,
  error = case when %(state)s::text <> 'running' then error end
where id = %(id)s::bigint and state::text = any(%(from_states)s::text[])
returning id
