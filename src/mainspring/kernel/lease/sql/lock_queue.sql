-- The limits of a queue under its row's lock. What is taken of them is read by a later statement: this one's snapshot may
-- be older than the lock it waited for.
select concurrency, rate from mainspring.queue where name = %(queue)s::text for no key update
