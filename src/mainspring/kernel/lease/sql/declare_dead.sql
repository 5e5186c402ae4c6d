-- Declare a worker dead: only if its beat still stands where it was seen (compare and delete). A null beat: its process has
-- ended for certain. First of its transaction.
delete from mainspring.worker
where id = %(dead_id)s::uuid and (beat = %(beat)s::bigint or %(beat)s::bigint is null)
returning beat_at
