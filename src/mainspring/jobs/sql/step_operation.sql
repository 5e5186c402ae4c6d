-- One step of an operation: its items, its counts, where the next step begins. Runs with the step's effects in one
-- transaction that has locked the row (lock_operation).
with item as (
  insert into mainspring.operation_item (operation_id, number, queue, key, error)
  select %(id)s::bigint, %(at)s::bigint + i.n, i.queue, i.key, i.error
  from (
    select json_array_elements_text(%(queues)s::text::json) as queue, json_array_elements_text(%(keys)s::text::json) as key,
      json_array_elements_text(%(errors)s::text::json) as error, generate_series(1, %(count)s::integer) as n
  ) i
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
returning o.done, o.failed
