-- Where a replay begins and ends: the number before the first kept event of a kind that is not older than a time (null: than any), and
-- the number that was drawn last. Locks nothing. Reads the days from that time on.
select coalesce((
    select min(k.number) - 1
    from mainspring.event_kept k
    where k.kind = %(kind)s::text and k.created_at >= %(since)s::timestamptz
      and k.day >= (%(since)s::timestamptz at time zone 'UTC')::date), s.last_value) as after, s.last_value as until
from mainspring.event_number s
