-- A record that was put aside cannot be mapped now either: it stays, with the new reason. One that was dropped or taken back
-- meanwhile does not come again. Locks its row, by the primary key.
update mainspring.source_reject
set error_type = %(error_type)s::text, error = %(error)s::text, rejected_at = mainspring.now(), retry_at = null
where source = %(source)s::text and partition = %(partition)s::text and number = %(number)s::bigint and retry_at is not null
