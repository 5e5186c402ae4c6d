-- Settings of the pool's queues as they stand: operators may change them at any time.
select name, pool, extract(epoch from hold_after)::double precision as hold_after,
  extract(epoch from work_timeout)::double precision as work_timeout, concurrency, rate, group_concurrency,
  group_rate, paused_at is not null and (paused_until is null or paused_until > mainspring.now()) as paused,
  extract(epoch from paused_until - mainspring.now())::double precision as resumes_in, policy::text as policy
from mainspring.queue
where name = any(%(queues)s::text[])
