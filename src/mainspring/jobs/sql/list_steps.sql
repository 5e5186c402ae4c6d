-- Where the step of an operation lies: in the queue of one pool, or of two for a while. Rides the primary key.
select v.shard, v.key, v.queue
from mainspring.visit v
where v.key = %(key)s::text
  and v.queue >= 'mainspring.operation' and v.queue < 'mainspring.operationA'  -- and those of all pools, @...
