-- The lock for which a task asked, if it has a row. Rides process_lock_once.
select name from mainspring.process_lock where task = %(task)s::uuid order by generation desc limit 1
