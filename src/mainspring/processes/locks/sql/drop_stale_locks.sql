-- Drop rows of a lock that do not count any more, of its holder and of so many in line. Rides process_lock_one_holder and
-- process_lock_in_line, and for each the primary keys of what it belongs to. Under the lock of its name.
with looked_at as (
  (select no from mainspring.process_lock where name = %(name)s::text and held_at is not null)
  union
  (select no from mainspring.process_lock where name = %(name)s::text order by no limit %(limit)s::integer)
)
delete from mainspring.process_lock l
using looked_at i
where l.no = i.no and not exists (select from mainspring.process_lock_live v where v.no = l.no)
returning 1
