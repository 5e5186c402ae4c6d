-- Mark a process: something that every commit keeps is broken. A mark beside its state, so other branches go on.
update mainspring.process
set inconsistent_at = coalesce(inconsistent_at, mainspring.now()), inconsistent = %(reason)s::text
where id = %(id)s::uuid
