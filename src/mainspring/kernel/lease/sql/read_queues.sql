-- Settings of the pool's queues as they stand: operators may change them at any time. A queue whose breaker is open counts as paused;
-- one whose breaker is tried has that limit. `breakers`: its own if it counts, and those of groups that are not closed (JSON). Of these up
-- to a number, those that end last in front: a group that is left out is tried too early, and if it fails it ends last.
select q.name, q.pool, extract(epoch from q.hold_after)::double precision as hold_after,
  extract(epoch from q.work_timeout)::double precision as work_timeout, least(q.concurrency, b.at_once) as concurrency, q.rate,
  q.group_concurrency, q.group_rate, q.group_burst,
  q.paused_at is not null and (q.paused_until is null or q.paused_until > mainspring.now())
    or coalesce(b.until > mainspring.now(), false) as paused,
  case when q.paused_at is null or q.paused_until is not null then
    extract(epoch from greatest(q.paused_until, b.until) - mainspring.now())::double precision end as resumes_in,
  q.policy::text as policy, q.breaker_failures,
  (select json_agg(json_build_array(r.grp, r.failures, r.opened_at is not null, extract(epoch from r.until - mainspring.now()), r.at_once))
    from (
      (select o.* from mainspring.breaker o where o.queue = q.name and o.grp = '')
      union all
      (select g.* from mainspring.breaker g where g.queue = q.name and g.grp <> '' and g.opened_at is not null
        order by g.until desc limit %(most_groups)s::integer)
    ) r)::text as breakers
from mainspring.queue q
left join mainspring.breaker b on b.queue = q.name and b.grp = '' and b.opened_at is not null
where q.name = any(%(queues)s::text[])
