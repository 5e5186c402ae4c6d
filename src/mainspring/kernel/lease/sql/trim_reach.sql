-- Forget my older notes: the newest of each level says all. Rides reach_of_worker; one sort, however many they are.
delete from mainspring.reach
where worker_id = %(worker_id)s::uuid and ctid = any(array(
  select note.ctid
  from (
    select r.ctid, row_number() over (partition by r.queue, r.priority order by r.due_at desc, r.key desc nulls first, r.ctid) as place
    from mainspring.reach r
    where r.worker_id = %(worker_id)s::uuid
  ) note
  where note.place > 1))
