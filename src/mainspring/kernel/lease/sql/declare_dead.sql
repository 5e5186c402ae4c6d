-- Declare a worker dead: only if its beat still stands where it was seen (compare and delete). First of its transaction.
delete from mainspring.worker
where id = %(dead_id)s::uuid and beat = %(beat)s::bigint
returning id, beat_at
