-- What this worker holds, in any shard. Rides visit_held.
select shard, pass from mainspring.visit where pass is not null and holder = %(worker_id)s::uuid
