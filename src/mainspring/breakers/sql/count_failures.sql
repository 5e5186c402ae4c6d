-- Count failures in a row, open breakers that have enough of them, and tell the workers. `anew`: a success came before these. One more
-- than `breaker_within` seconds after the one before begins anew too. `rest`: a run was told by the other side to come back after so
-- many seconds. A breaker that is open does not hear of runs that began before; one of which a trial failed is opened again.
-- Locks the rows in their order; rides the primary key.
with given as (
  select g.queue, g.grp, g.count, g.anew, to_timestamp(g.began) as began, make_interval(secs => g.rest) as rest, g.reason
  from unnest(%(queues)s::text[], %(groups)s::text[], %(counts)s::text::integer[], %(anew)s::boolean[],
    %(began)s::text::double precision[], %(rests)s::text::double precision[], %(reasons)s::text[])
    as g(queue, grp, count, anew, began, rest, reason)
),
before as (
  select b.queue, b.grp, b.opened_at, b.until, g.rest, g.reason, q.breaker_pause, q.breaker_failures,
    b.opened_at is not null and b.until <= mainspring.now() and g.began >= b.until - interval '50 milliseconds' as tried,
    g.count + case when g.anew or b.failed_at < mainspring.now() - make_interval(secs => q.breaker_within) then 0
      else b.failures end as failures
  from mainspring.breaker b
  join given g on g.queue = b.queue and g.grp = b.grp
  join mainspring.queue q on q.name = b.queue
  order by b.queue, b.grp
  for no key update of b
),
judged as (
  select *, rest is not null or tried or opened_at is null and failures >= breaker_failures as opens from before
),
noted as (
  update mainspring.breaker b
  set failures = j.failures, failed_at = mainspring.now(),
    opened_at = case when j.opens then coalesce(b.opened_at, mainspring.now()) else b.opened_at end,
    until = case when j.opens then
        greatest(b.until, mainspring.now() + coalesce(j.rest, make_interval(secs => coalesce(j.breaker_pause, 30))))
      else b.until end,
    at_once = case when j.opens then 1 else b.at_once end,
    reason = case when j.opens or b.opened_at is null then j.reason else b.reason end
  from judged j
  where b.queue = j.queue and b.grp = j.grp
  returning b.queue, b.grp, b.failures, b.opened_at is not null as is_open, j.opens
)
select n.queue, n.grp as "group", n.failures, n.is_open, case when n.opens then pg_notify('mainspring', 'settings') end as pg_notify
from noted n
