-- A structural change is over: decisions may come again. Optionally the process becomes another state.
update mainspring.process
set closing_at = null,
  state = coalesce(%(state)s::text::mainspring.process_state, state),
  ended_at = case %(state)s::text when 'open' then null when 'cancelled' then mainspring.now() when 'finished' then mainspring.now()
    else ended_at end,
  cancelling_at = case when %(cancelling)s::boolean then mainspring.now() when %(state)s::text = 'open' then null else cancelling_at end,
  root_closed = coalesce(%(root_closed)s::boolean, root_closed),
  generation = generation + %(generations)s::integer
where id = %(id)s::uuid
