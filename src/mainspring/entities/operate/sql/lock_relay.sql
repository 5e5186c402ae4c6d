-- Lock a relay's visit, before its deliveries are touched. Rides the primary key.
select v.parked_at is not null as parked
from mainspring.visit v
where v.shard = %(shard)s::integer and v.key = %(key)s::text and v.queue = %(queue)s::text
for update
