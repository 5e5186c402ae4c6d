-- Where nobody holds a lock, the first in line does. Under the lock of its name. Rides process_lock_in_line.
update mainspring.process_lock l
set held_at = mainspring.now()
where l.no = (select i.no from mainspring.process_lock i where i.name = %(name)s::text order by i.no limit 1)
  and not exists (select from mainspring.process_lock h where h.name = %(name)s::text and h.held_at is not null)
returning l.process_id::text, l.task::text, l.generation
