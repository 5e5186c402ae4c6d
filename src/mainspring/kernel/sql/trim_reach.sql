-- Forget my older notes: the newest of each level says all.
delete from mainspring.reach r
where r.worker_id = %(worker_id)s::uuid
  and exists (
    select from mainspring.reach newer
    where newer.worker_id = r.worker_id and newer.queue = r.queue and newer.priority = r.priority
      and (newer.due_at, newer.ctid) > (r.due_at, r.ctid))
