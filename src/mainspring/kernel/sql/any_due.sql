-- Whether any visit of these queues is due and could run: what a draining worker still waits for.
-- Paused queues do not count: nobody would ever run them. Held visits do: their run may yet end in another.
select exists (
  select
  from mainspring.queue q
  cross join generate_series(0, 9) as p(priority)
  cross join lateral (
    select 1
    from mainspring.visit v
    where v.queue = q.name and v.priority = p.priority and v.due_at between '0001-01-01Z' and mainspring.now()
      and v.pass is null and v.parked_at is null
    limit 1
  ) due
  where q.name = any(%(queues)s::text[]) and (q.paused_at is null or q.paused_until <= mainspring.now())
) or exists (
  select from mainspring.visit v
  join mainspring.queue q on q.name = v.queue
  where v.pass is not null and v.queue = any(%(queues)s::text[])
) as due
