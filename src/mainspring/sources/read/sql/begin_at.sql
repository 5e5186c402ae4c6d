-- Set the offset that was found for where a partition is to begin, if that is still asked for. Locks its row. What was never read
-- is not read again.
update mainspring.source_offset
set next = %(next)s::bigint, start = null, reached = case when moved_at is null then %(next)s::bigint else reached end,
  moved_at = coalesce(moved_at, mainspring.now())
where source = %(source)s::text and partition = %(partition)s::text and start = %(start)s::text
returning next
