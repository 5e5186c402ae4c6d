-- Note since when nobody has taken of a queue's rate, now that nobody has a part of it (`spared`: the seconds that left-over
-- tokens stand for), or that somebody has one. Runs in a transaction that has locked the queue's row.
update mainspring.queue
set rate_rested_at = case when %(rests)s::boolean then mainspring.now() - make_interval(secs => %(spared)s::double precision) end
where name = %(queue)s::text
