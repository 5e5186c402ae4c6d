-- One step of an operation: its items, its counts, where the next step begins. Runs with the step's effects in one
-- transaction that has locked the row (lock_operation).
with item as (
  insert into mainspring.operation_item (operation_id, number, queue, key, error)
  select %(id)s::bigint, %(at)s::bigint + i.n, i.queue, i.key, i.error
  from unnest(%(queues)s::text[], %(keys)s::text[], %(errors)s::text[]) with ordinality as i(queue, key, error, n)
  returning error
)
update mainspring.operation o
set done = o.done + %(counted)s::bigint + (select count(*) from item where error is null),
  failed = o.failed + (select count(*) from item where error is not null),
  position = %(position)s::text::jsonb,
  state = case when %(last)s::boolean then 'done' else o.state end,
  ended_at = case when %(last)s::boolean then mainspring.now() end,
  changed_at = mainspring.now()
where o.id = %(id)s::bigint
