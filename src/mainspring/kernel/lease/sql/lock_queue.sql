-- The limits of a queue under its row's lock; none runs while its breaker is open. What is taken of them is read by a later statement:
-- this one's snapshot may be older than the lock it waited for.
select case when b.until > mainspring.now() then 0 else least(q.concurrency, b.at_once) end as concurrency, q.rate, q.burst,
  extract(epoch from mainspring.now() - q.rate_rested_at)::double precision as rested
from mainspring.queue q
left join mainspring.breaker b on b.queue = q.name and b.grp = '' and b.opened_at is not null
where q.name = %(queue)s::text
for no key update of q
