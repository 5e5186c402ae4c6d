-- Name the runs of a worker that hang in its row. Locks that row, found by its primary key.
update mainspring.worker set hanging = %(hanging)s::text::jsonb where id = %(worker_id)s::uuid
