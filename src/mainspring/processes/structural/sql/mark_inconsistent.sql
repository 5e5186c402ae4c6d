-- Mark a process: something that every commit keeps is broken. A mark beside its state, so other branches go on. Answers
-- it if that was not known. Rides the primary key.
update mainspring.process
set inconsistent_at = coalesce(inconsistent_at, mainspring.now()), inconsistent = %(reason)s::text
where id = %(id)s::uuid and inconsistent is distinct from %(reason)s::text
returning id::text
