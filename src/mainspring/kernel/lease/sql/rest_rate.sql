-- Note that nobody has a part of a queue's rate from now on, or that somebody has. Runs in a transaction that has locked the queue's row.
update mainspring.queue set rate_rested_at = case when %(rests)s::boolean then mainspring.now() end where name = %(queue)s::text
