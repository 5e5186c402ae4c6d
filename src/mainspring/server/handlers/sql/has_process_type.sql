-- Whether a process type is registered, by a worker or by migrate. Rides the primary keys.
select exists (select from mainspring.queue q where q.name = %(type)s::text and q.kind = 'process')
  or exists (select from mainspring.process_type t where t.name = %(type)s::text) as is_known
